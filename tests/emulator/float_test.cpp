// SPDX-License-Identifier: BSD-3-Clause
// Floating-point instructions, one by one.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kNan = 0x7fffffff;  // what float32 instructions give
constexpr float kTiny = 1e-40f;        // subnormal

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }

struct Row {
  const char* text;
  float a, b, c;
  uint64_t want;
};

class Float : public testing::TestWithParam<Row> {};

TEST_P(Float, HasTheValue) {
  const Row& r = GetParam();
  EXPECT_EQ(evaluate(r.text, bits(r.a), bits(r.b), bits(r.c)), r.want)
      << r.text << " of " << r.a << ", " << r.b << ", " << r.c;
}

const Row kRows[] = {
    {"add.f32 d, a, b;", 1, 2, 0, bits(3)},
    {"add.f32 d, a, b;", kTiny, 0, 0, bits(kTiny)},
    {"add.ftz.f32 d, a, b;", kTiny, 0, 0, bits(0)},
    {"add.ftz.f32 d, a, b;", -kTiny, -0.0f, 0, bits(-0.0f)},
    {"add.f32 d, a, b;", kInf, -kInf, 0, kNan},
    {"add.sat.f32 d, a, b;", 1, 2, 0, bits(1)},
    {"add.sat.f32 d, a, b;", -1, -2, 0, bits(0)},
    {"add.sat.f32 d, a, b;", kInf, -kInf, 0, bits(0)},
    {"add.rm.f32 d, a, b;", -1.25f, 12582912.0f, 0, bits(12582910.0f)},
    {"add.rm.f32 d, a, b;", 1.75f, 12582912.0f, 0, bits(12582913.0f)},
    {"add.rm.ftz.f32 d, a, b;", 0.5f, 12582912.0f, 0, bits(12582912.0f)},
    {"add.rp.f32 d, a, b;", 0.25f, 12582912.0f, 0, bits(12582913.0f)},
    {"add.rz.f32 d, a, b;", -0.75f, -12582912.0f, 0, bits(-12582912.0f)},
    {"add.rm.f32 d, a, b;", 1, -1, 0, bits(-0.0f)},
    {"add.rp.f32 d, a, b;", 1, 1e-30f, 0, bits(1.00000012f)},
    {"sub.f32 d, a, b;", 5, 7, 0, bits(-2)},
    {"mul.f32 d, a, b;", 3, -4, 0, bits(-12)},
    {"mul.rm.f32 d, a, b;", 1.0000001f, 1.0000001f, 0, bits(1.00000024f)},
    {"mul.rp.f32 d, a, b;", 1.0000001f, 1.0000001f, 0, bits(1.00000036f)},
    {"fma.rn.f32 d, a, b, c;", 1.0000001f, 1.0000001f, -1.0000002f, bits(0x1p-46f)},
    {"fma.rm.f32 d, a, b, c;", 1, 1, 1e-30f, bits(1)},
    {"fma.rp.f32 d, a, b, c;", 1, 1, 1e-30f, bits(1.00000012f)},
    {"min.f32 d, a, b;", 1, std::bit_cast<float>(0x7fc00000), 0, bits(1)},
    {"max.f32 d, a, b;", std::bit_cast<float>(0x7fc00000), std::bit_cast<float>(0x7fc00000), 0,
     kNan},
    {"max.NaN.f32 d, a, b;", 1, std::bit_cast<float>(0x7fc00000), 0, kNan},
    {"max.NaN.ftz.f32 d, a, b;", -200, -127, 0, bits(-127)},
    {"min.NaN.ftz.f32 d, a, b;", 200, 127.99f, 0, bits(127.99f)},
    {"max.f32 d, a, b;", -0.0f, 0.0f, 0, bits(0.0f)},
    {"min.f32 d, a, b;", 0.0f, -0.0f, 0, bits(-0.0f)},
    {"max.f32 d, a, b, c;", 1, 3, 2, bits(3)},
    {"abs.f32 d, a;", -2, 0, 0, bits(2)},
    {"neg.ftz.f32 d, a;", kTiny, 0, 0, bits(-0.0f)},
    {"div.rn.f32 d, a, b;", 1, 3, 0, bits(1.0f / 3)},
    {"div.full.f32 d, a, b;", 6, 3, 0, bits(2)},
    {"rcp.approx.ftz.f32 d, a;", 4, 0, 0, bits(0.25f)},
    {"rcp.approx.ftz.f32 d, a;", -0.0f, 0, 0, bits(-kInf)},
    {"sqrt.rn.f32 d, a;", 9, 0, 0, bits(3)},
    {"sqrt.approx.f32 d, a;", -1, 0, 0, kNan},
    {"rsqrt.approx.f32 d, a;", 0.25f, 0, 0, bits(2)},
    {"ex2.approx.ftz.f32 d, a;", 3, 0, 0, bits(8)},
    {"ex2.approx.ftz.f32 d, a;", -149, 0, 0, bits(0)},
    {"ex2.approx.f32 d, a;", -149, 0, 0, 1},
    {"ex2.approx.f32 d, a;", 128, 0, 0, bits(kInf)},
    {"ex2.approx.f32 d, a;", -kInf, 0, 0, bits(0)},
    {"lg2.approx.f32 d, a;", 8, 0, 0, bits(3)},
    {"lg2.approx.f32 d, a;", 0, 0, 0, bits(-kInf)},
    {"lg2.approx.f32 d, a;", -1, 0, 0, kNan},
    {"tanh.approx.f32 d, a;", kInf, 0, 0, bits(1)},
    {"copysign.f32 d, a, b;", -1, 3, 0, bits(-3)},
    {"setp.lt.f32 q, a, b;", 1, 2, 0, 1},
    {"setp.lt.f32 q, a, b;", std::bit_cast<float>(kNan), 2, 0, 0},
    {"setp.ltu.f32 q, a, b;", std::bit_cast<float>(kNan), 2, 0, 1},
    {"setp.ne.f32 q, a, b;", std::bit_cast<float>(kNan), 2, 0, 0},
    {"setp.neu.f32 q, a, b;", std::bit_cast<float>(kNan), 2, 0, 1},
    {"setp.nan.f32 q, a, b;", std::bit_cast<float>(kNan), 2, 0, 1},
    {"setp.num.f32 q, a, b;", 1, 2, 0, 1},
    {"setp.gt.ftz.f32 q, a, b;", kTiny, 0, 0, 0},
    {"setp.gt.f32 q, a, b;", kTiny, 0, 0, 1},
    {"setp.gt.and.f32 q, a, b, !p;", 1, 0, 0, 0},
    {"setp.lt.or.f32 q, a, b, p;", 1, 0, 0, 1},
    {"setp.lt.xor.f32 q, a, b, p;", 1, 0, 0, 1},
    {"selp.f32 d, a, b, p;", 1, 2, 0, bits(1)},
    {"selp.f32 d, a, b, !p;", 1, 2, 0, bits(2)},
};

INSTANTIATE_TEST_SUITE_P(Rows, Float, testing::ValuesIn(kRows));

TEST(Float, PackedPairsAreTwoNumbers) {
  const auto pair = [](float low, float high) { return bits(high) << 32 | bits(low); };
  EXPECT_EQ(evaluate("add.rn.f32x2 D, A, B;", pair(1, 2), pair(10, 20)), pair(11, 22));
  EXPECT_EQ(evaluate("mul.rn.ftz.f32x2 D, A, B;", pair(3, kTiny), pair(2, 1)), pair(6, 0));
  EXPECT_EQ(evaluate("fma.rn.f32x2 D, A, B, C;", pair(1, 2), pair(3, 4), pair(5, 6)), pair(8, 14));
  EXPECT_EQ(evaluate("add.rm.f32x2 D, A, B;", pair(-0.25f, 0.75f), pair(12582912.f, 12582912.f)),
            pair(12582911.f, 12582912.f));
}

/// FA4's own kernels use fma.rn.f32.bf16: 16-bit factors, a float32 sum that is rounded once.
TEST(Float, MixedTypesAreWidenedFirst) {
  constexpr uint64_t kThird = 0x3eab, kMinusThree = 0xc040;          // bf16: 0.333984375, -3
  constexpr uint64_t kHalfThird = 0x3555, kHalfMinusThree = 0xc200;  // fp16: 0.333251953125, -3
  const float c = 1e-8f;
  EXPECT_EQ(evaluate("fma.rn.f32.bf16 d, h, i, c;", kThird, kMinusThree, bits(c)),
            bits(std::fma(0.333984375f, -3.0f, c)));
  EXPECT_EQ(evaluate("fma.rn.f32.f16 d, h, i, c;", kHalfThird, kHalfMinusThree, bits(c)),
            bits(std::fma(0.333251953125f, -3.0f, c)));
  EXPECT_EQ(evaluate("fma.rp.f32.bf16 d, h, i, c;", 0x3f80, 0x3f80, bits(1e-30f)),
            bits(1.00000012f));
  EXPECT_EQ(evaluate("add.f32.bf16 d, h, b;", kThird, bits(1)), bits(1.333984375f));
  EXPECT_EQ(evaluate("sub.rn.f32.f16 d, h, b;", kHalfMinusThree, bits(1)), bits(-4));
  EXPECT_EQ(evaluate("add.sat.f32.f16 d, h, b;", kHalfThird, bits(1)), bits(1));
  EXPECT_EQ(evaluate("@!p fma.rn.f32.bf16 d, h, i, c;", kThird, kMinusThree, 0), 0xdeadbeefu);
  EXPECT_NE(load_error(".reg .b32 d;\n.reg .b16 h;\nadd.ftz.f32.f16 d, h, d;"), "");
  EXPECT_NE(load_error(".reg .b64 d;\n.reg .b16 h;\nadd.f64.f16 d, h, d;"), "");
}

TEST(Float, HalvesRoundOnce) {
  // 1 + 2^-11 in float16 is half-way, and rounds to even.
  EXPECT_EQ(evaluate("add.f16 k, h, i;", 0x3c00, 0x1000), 0x3c00u);
  EXPECT_EQ(evaluate("add.f16 k, h, i;", 0x3c01, 0x1000), 0x3c02u);
  EXPECT_EQ(evaluate("mul.bf16x2 d, a, b;", 0x40004040, 0x40404000), 0x40c040c0u);
  EXPECT_EQ(evaluate("fma.rn.f16x2 d, a, b, c;", 0x3c004000, 0x40004000, 0x3c003c00), 0x42004500u);
  EXPECT_EQ(evaluate("max.bf16x2 d, a, b;", 0x7fff3f80, 0x40004000), 0x40004000u);
  EXPECT_EQ(evaluate("max.NaN.bf16x2 d, a, b;", 0x7fff3f80, 0x40004000), 0x7fff4000u);
  // bfloat16: 1 + 2^-8 + 2^-40 is above half-way, though float64's neighbours of the sum are not.
  EXPECT_EQ(evaluate("fma.rn.bf16 k, h, i, j;", 0x3f80, 0x3f80, 0x3b80), 0x3f80u);
  EXPECT_EQ(evaluate("fma.rn.bf16 k, h, i, j;", 0x3f81, 0x3f80, 0x3b80), 0x3f82u);
}

/// ex2.approx promises a relative error of 2^-22 and a bit.
TEST(Float, Ex2IsAccurate) {
  for (float x = -20; x < 20; x += 0.37f) {
    const auto y =
        std::bit_cast<float>(static_cast<uint32_t>(evaluate("ex2.approx.ftz.f32 d, a;", bits(x))));
    EXPECT_NEAR(y / std::exp2(static_cast<double>(x)), 1.0, 1.8e-7) << x;
  }
}

}  // namespace
}  // namespace fa4::emulator::test
