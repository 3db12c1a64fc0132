// SPDX-License-Identifier: BSD-3-Clause
// Conversions: number formats by themselves, and cvt.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "emulator/numeric.h"
#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(Numeric, EverySmallFloatReadsBackAsItself) {
  for (const SmallFormat f : {kFloat16, kBFloat16, kFloatE4M3, kFloatE5M2}) {
    const uint32_t codes = 1u << (1 + f.exponent_bits + f.mantissa_bits);
    for (uint32_t code = 0; code < codes; ++code) {
      const double x = decode_small(code, f);
      if (std::isnan(x)) continue;
      ASSERT_EQ(encode_small(x, f, Round::kNearest, false), code) << x;
    }
  }
}

TEST(Numeric, QuickConversionsAgreeWithTheGeneralOne) {
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += 65521) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(i));
    if (std::isnan(x)) continue;
    ASSERT_EQ(to_float16(x), encode_small(x, kFloat16, Round::kNearest, false)) << x;
    ASSERT_EQ(to_bfloat16(x), encode_small(x, kBFloat16, Round::kNearest, false)) << x;
  }
  for (uint32_t code = 0; code < 65536; ++code) {
    const double x = decode_small(code, kFloat16);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(from_float16(code)));
    } else {
      ASSERT_EQ(from_float16(code), x);
    }
  }
}

TEST(Numeric, RoundsInEveryDirection) {
  const double third = 1.0 / 3;
  for (const SmallFormat f : {kFloat16, kBFloat16, kFloatE4M3, kFloatE5M2}) {
    const double down = decode_small(encode_small(third, f, Round::kDown, false), f);
    const double up = decode_small(encode_small(third, f, Round::kUp, false), f);
    EXPECT_LT(down, third);
    EXPECT_GT(up, third);
    EXPECT_EQ(decode_small(encode_small(-third, f, Round::kZero, false), f), -down);
    EXPECT_EQ(encode_small(down, f, Round::kUp, false) + 1, encode_small(up, f, Round::kUp, false));
  }
}

struct Row {
  const char* text;
  uint64_t a, b, want;
};
class Convert : public testing::TestWithParam<Row> {};

TEST_P(Convert, HasTheValue) {
  const Row& r = GetParam();
  EXPECT_EQ(evaluate(r.text, r.a, r.b), r.want) << r.text << std::hex << " of " << r.a;
}

const Row kRows[] = {
    {"cvt.rn.bf16x2.f32 d, a, b;", bits(1), bits(2), 0x3f804000},
    {"cvt.rn.f16x2.f32 d, a, b;", bits(1), bits(2), 0x3c004000},
    {"cvt.rn.relu.bf16x2.f32 d, a, b;", bits(-1), bits(2), 0x00004000},
    {"cvt.rn.bf16.f32 k, a;", bits(1.00390625f), 0, 0x3f80},  // half-way, to even
    {"cvt.rn.bf16.f32 k, a;", bits(1.01171875f), 0, 0x3f82},  // half-way, to even
    {"cvt.rz.bf16.f32 k, a;", bits(1.0117f), 0, 0x3f81},
    {"cvt.rn.f16.f32 k, a;", bits(65520), 0, 0x7c00},
    {"cvt.rz.f16.f32 k, a;", bits(65535), 0, 0x7bff},
    {"cvt.rn.f16.f32 k, a;", bits(6e-8f), 0, 1},
    {"cvt.rn.bf16.f32 k, a;", 0x7fc12345, 0, 0x7fff},
    {"cvt.f32.f16 d, h;", 0x3555, 0, 0x3eaaa000},
    {"cvt.f32.bf16 d, h;", 0x3eab, 0, 0x3eab0000},
    {"cvt.rn.satfinite.e4m3x2.f32 k, a, b;", bits(1000), bits(-0.5f), 0x7eb0},
    {"cvt.rn.satfinite.e5m2x2.f32 k, a, b;", bits(1), bits(1e9f), 0x3c7b},
    {"cvt.rn.f16x2.e4m3x2 d, h;", 0x7eb0, 0, 0x5f00b800},
    {"cvt.rna.tf32.f32 d, a;", bits(1.0007f), 0, bits(1.0009765625f)},
    {"cvt.u32.u64 d, A;", 0x123456789abcdef0, 0, 0x9abcdef0},
    {"cvt.s64.s32 D, a;", 0xfffffffe, 0, ~uint64_t{1}},
    {"cvt.u64.u32 D, a;", 0xfffffffe, 0, 0xfffffffe},
    {"cvt.s32.s8 d, a;", 0x80, 0, 0xffffff80},
    {"cvt.u16.u32 k, a;", 0x12345, 0, 0x2345},
    {"cvt.sat.u8.s32 d, a;", 0xffffffff, 0, 0},
    {"cvt.rn.f32.s32 d, a;", 0xffffffff, 0, bits(-1)},
    {"cvt.rn.f32.u32 d, a;", 0xffffffff, 0, bits(4294967296.0f)},
    {"cvt.rz.f32.u32 d, a;", 0xffffffff, 0, bits(4294967040.0f)},
    {"cvt.rn.f32.s64 d, A;", 0xffffffffffffffff, 0, bits(-1)},
    {"cvt.rzi.s32.f32 d, a;", bits(-2.9f), 0, 0xfffffffe},
    {"cvt.rni.s32.f32 d, a;", bits(2.5f), 0, 2},
    {"cvt.rmi.s32.f32 d, a;", bits(-2.1f), 0, 0xfffffffd},
    {"cvt.rpi.s32.f32 d, a;", bits(2.1f), 0, 3},
    {"cvt.rzi.s32.f32 d, a;", bits(1e20f), 0, 0x7fffffff},
    {"cvt.rzi.u32.f32 d, a;", bits(-5), 0, 0},
    {"cvt.rzi.s32.f32 d, a;", 0x7fffffff, 0, 0},
    {"cvt.rni.f32.f32 d, a;", bits(3.5f), 0, bits(4)},
    {"cvt.rzi.ftz.f32.f32 d, a;", bits(-3.9f), 0, bits(-3)},
    {"cvt.sat.f32.f32 d, a;", bits(7), 0, bits(1)},
    {"cvt.f64.f32 D, a;", bits(1.5f), 0, 0x3ff8000000000000},
    {"cvt.rn.f32.f64 d, A;", 0x3ff8000000000000, 0, bits(1.5f)},
    {"mov.b32 d, {h, i};", 0x1234, 0x5678, 0x56781234},
    {"mov.b64 D, {a, b};", 0x1234, 0x5678, 0x0000567800001234},
};
INSTANTIATE_TEST_SUITE_P(Rows, Convert, testing::ValuesIn(kRows));

}  // namespace
}  // namespace fa4::emulator::test
