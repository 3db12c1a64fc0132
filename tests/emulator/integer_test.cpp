// SPDX-License-Identifier: BSD-3-Clause
// Integer instructions, one by one: values worked out from the PTX ISA's definitions.
#include <gtest/gtest.h>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

struct Row {
  const char* text;
  uint64_t a, b, c, want;
};

class Integer : public testing::TestWithParam<Row> {};

TEST_P(Integer, HasTheValue) {
  const Row& r = GetParam();
  EXPECT_EQ(evaluate(r.text, r.a, r.b, r.c), r.want)
      << r.text << std::hex << " of " << r.a << ", " << r.b << ", " << r.c;
}

constexpr uint64_t kMinus1 = ~uint64_t{0};

constexpr Row kRows[] = {
    {"add.s32 d, a, b;", 5, 0xfffffffe, 0, 3},
    {"add.u64 D, A, B;", kMinus1, 2, 0, 1},
    {"add.u16 k, h, i;", 0xffff, 3, 0, 2},
    {"add.sat.s32 d, a, b;", 0x7fffffff, 1, 0, 0x7fffffff},
    {"sub.sat.s32 d, a, b;", 0x80000000, 1, 0, 0x80000000},
    {"sub.s64 D, A, B;", 1, 2, 0, kMinus1},
    {"mul.lo.s32 d, a, b;", 0xffffffff, 7, 0, 0xfffffff9},
    {"mul.hi.s32 d, a, b;", 0xffffffff, 7, 0, 0xffffffff},
    {"mul.hi.u32 d, a, b;", 0xffffffff, 7, 0, 6},
    {"mul.hi.u64 D, A, B;", kMinus1, kMinus1, 0, kMinus1 - 1},
    {"mul.wide.s32 D, a, b;", 0xffffffff, 7, 0, kMinus1 - 6},
    {"mul.wide.u32 D, a, b;", 0xffffffff, 7, 0, 0x6fffffff9},
    {"mul.wide.u16 d, h, i;", 0xffff, 0xffff, 0, 0xfffe0001},
    {"mad.lo.s32 d, a, b, c;", 3, 4, 5, 17},
    {"mad.wide.u32 D, a, b, C;", 0x80000000, 2, 5, 0x100000005},
    {"mad.hi.u32 d, a, b, c;", 0x80000000, 4, 5, 7},
    {"div.s32 d, a, b;", 0xfffffff9, 2, 0, 0xfffffffd},
    {"div.u32 d, a, b;", 0xfffffff9, 2, 0, 0x7ffffffc},
    {"rem.s32 d, a, b;", 0xfffffff9, 2, 0, 0xffffffff},
    {"rem.u64 D, A, B;", 100, 7, 0, 2},
    {"abs.s32 d, a;", 0xfffffff9, 0, 0, 7},
    {"neg.s32 d, a;", 7, 0, 0, 0xfffffff9},
    {"min.s32 d, a, b;", 0xffffffff, 3, 0, 0xffffffff},
    {"min.u32 d, a, b;", 0xffffffff, 3, 0, 3},
    {"max.s64 D, A, B;", kMinus1, 3, 0, 3},
    {"sad.u32 d, a, b, c;", 3, 10, 100, 107},
    {"and.b32 d, a, b;", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
    {"or.b64 D, A, B;", 0xf0, 0x0f00000000000000, 0, 0x0f000000000000f0},
    {"xor.b16 k, h, i;", 0xff00, 0x0ff0, 0, 0xf0f0},
    {"not.b32 d, a;", 0x0000ffff, 0, 0, 0xffff0000},
    {"cnot.b32 d, a;", 0, 0, 0, 1},
    {"shl.b32 d, a, b;", 1, 31, 0, 0x80000000},
    {"shl.b32 d, a, b;", 1, 32, 0, 0},
    {"shl.b64 D, A, b;", 1, 40, 0, uint64_t{1} << 40},
    {"shr.u32 d, a, b;", 0x80000000, 31, 0, 1},
    {"shr.s32 d, a, b;", 0x80000000, 40, 0, 0xffffffff},
    {"shr.u64 D, A, b;", kMinus1, 60, 0, 15},
    {"popc.b32 d, a;", 0xf0f0, 0, 0, 8},
    {"popc.b64 d, A;", kMinus1, 0, 0, 64},
    {"clz.b32 d, a;", 0x00ffffff, 0, 0, 8},
    {"clz.b32 d, a;", 0, 0, 0, 32},
    {"bfind.u32 d, a;", 0x00010000, 0, 0, 16},
    {"bfind.u32 d, a;", 0, 0, 0, 0xffffffff},
    {"bfind.s32 d, a;", 0xffff0000, 0, 0, 15},
    {"bfind.shiftamt.u32 d, a;", 0x00010000, 0, 0, 15},
    {"bfind.shiftamt.u32 d, a;", 0, 0, 0, 0xffffffff},
    {"bfind.shiftamt.s32 d, a;", 0xffff0000, 0, 0, 16},
    {"cvt.s64.s32 D, A;", 0x1234567880000000, 0, 0, 0xffffffff80000000},
    {"cvt.u64.u16 D, A;", 0x12345678ffff8001, 0, 0, 0x8001},
    {"cvt.u32.s8 d, A;", 0x1234567800000080, 0, 0, 0xffffff80},
    {"brev.b32 d, a;", 1, 0, 0, 0x80000000},
    {"bfe.u32 d, a, b, c;", 0xabcd1234, 8, 8, 0x12},
    {"bfe.s32 d, a, b, c;", 0x0000f000, 12, 4, 0xffffffff},
    {"bfe.s32 d, a, b, c;", 0x80000000, 28, 8, 0xfffffff8},
    {"bfe.u32 d, a, b, c;", 0xabcd1234, 40, 8, 0},
    {"bfe.u64 D, A, b, c;", 0xabcd12340000, 32, 16, 0xabcd},
    {"bfi.b32 d, a, b, c, 8;", 0xff, 0, 4, 0xff0},
    {"bfi.b32 d, a, b, c, 0;", 0xff, 0x1234, 4, 0x1234},
    {"shf.l.wrap.b32 d, a, b, c;", 0x80000000, 0x00000001, 1, 3},
    {"shf.r.wrap.b32 d, a, b, c;", 0x00000002, 0x00000001, 33, 0x80000001},
    {"shf.r.clamp.b32 d, a, b, c;", 5, 0x12345678, 40, 0x12345678},
    {"shf.l.clamp.b32 d, a, b, c;", 0x12345678, 5, 40, 0x12345678},
    {"lop3.b32 d, a, b, c, 0x96;", 0xff00ff00, 0xf0f0f0f0, 0xcccccccc,
     0xff00ff00 ^ 0xf0f0f0f0 ^ 0xcccccccc},
    {"lop3.b32 d, a, b, c, 0xe8;", 0xff00ff00, 0xf0f0f0f0, 0xcccccccc, 0xfcc0fcc0},
    {"prmt.b32 d, a, b, c;", 0x33221100, 0x77665544, 0x7531, 0x77553311},
    {"prmt.b32 d, a, b, c;", 0x332211f0, 0x77665544, 0x0008, 0xf0f0f0ff},
    {"prmt.b32.f4e d, a, b, c;", 0x33221100, 0x77665544, 1, 0x44332211},
    {"dp4a.u32.u32 d, a, b, c;", 0x01020304, 0x01010101, 5, 15},
    {"dp4a.s32.s32 d, a, b, c;", 0xff020304, 0x01010101, 5, 13},
};

INSTANTIATE_TEST_SUITE_P(Rows, Integer, testing::ValuesIn(kRows));

TEST(Rare, Products24) {
  EXPECT_EQ(evaluate("mul24.lo.u32 d, a, b;", 0xff000003, 5), 15u);  // upper bytes do not count
  EXPECT_EQ(evaluate("mul24.hi.u32 d, a, b;", 0xffffff, 0xffffff), 0xfffffe00u);
  EXPECT_EQ(evaluate("mul24.lo.s32 d, a, b;", 0xffffff, 7), static_cast<uint32_t>(-7));
  EXPECT_EQ(evaluate("mul24.hi.s32 d, a, b;", 0x800000, 0x7fffff), 0xc0000080u);
  EXPECT_EQ(evaluate("mad24.lo.u32 d, a, b, c;", 3, 5, 100), 115u);
}

TEST(Rare, BitMasks) {
  EXPECT_EQ(evaluate("bmsk.clamp.b32 d, a, b;", 4, 8), 0xff0u);
  EXPECT_EQ(evaluate("bmsk.clamp.b32 d, a, b;", 4, 100), 0xfffffff0u);
  EXPECT_EQ(evaluate("bmsk.clamp.b32 d, a, b;", 32, 4), 0u);
  EXPECT_EQ(evaluate("bmsk.wrap.b32 d, a, b;", 36, 40), 0xff0u);
  EXPECT_EQ(evaluate("bmsk.clamp.b32 d, a, b;", 0, 0), 0u);
  EXPECT_EQ(evaluate("szext.clamp.u32 d, a, b;", 0xffffffff, 8), 0xffu);
  EXPECT_EQ(evaluate("szext.clamp.s32 d, a, b;", 0x80, 8), 0xffffff80u);
  EXPECT_EQ(evaluate("szext.clamp.s32 d, a, b;", 0x7f, 8), 0x7fu);
  EXPECT_EQ(evaluate("szext.clamp.s32 d, a, b;", 0x80000001, 32), 0x80000001u);
  EXPECT_EQ(evaluate("szext.wrap.s32 d, a, b;", 0x8, 36), 0xfffffff8u);
  EXPECT_EQ(evaluate("szext.wrap.u32 d, a, b;", 0xffffffff, 32), 0u);
}

TEST(Rare, Dp2a) {
  // 2 * 3 + 4 * 5 + 7, of the low and of the high bytes.
  EXPECT_EQ(evaluate("dp2a.lo.u32.u32 d, a, b, c;", 0x00040002, 0x09090503, 7), 33u);
  EXPECT_EQ(evaluate("dp2a.hi.u32.u32 d, a, b, c;", 0x00040002, 0x05030909, 7), 33u);
  EXPECT_EQ(evaluate("dp2a.lo.s32.u32 d, a, b, c;", 0x0000ffff, 0x00000002, 7), 5u);
  EXPECT_EQ(evaluate("dp2a.lo.u32.s32 d, a, b, c;", 0x00000002, 0x000000ff, 7), 5u);
}

TEST(Rare, Properties) {
  const uint32_t infinity = 0x7f800000, nan = 0x7fc00000, tiny = 1, one = 0x3f800000;
  EXPECT_EQ(evaluate("testp.finite.f32 q, a;", one), 1u);
  EXPECT_EQ(evaluate("testp.finite.f32 q, a;", infinity), 0u);
  EXPECT_EQ(evaluate("testp.infinite.f32 q, a;", infinity), 1u);
  EXPECT_EQ(evaluate("testp.number.f32 q, a;", infinity), 1u);
  EXPECT_EQ(evaluate("testp.notanumber.f32 q, a;", nan), 1u);
  EXPECT_EQ(evaluate("testp.normal.f32 q, a;", one), 1u);
  EXPECT_EQ(evaluate("testp.normal.f32 q, a;", tiny), 0u);
  EXPECT_EQ(evaluate("testp.subnormal.f32 q, a;", tiny), 1u);
  EXPECT_EQ(evaluate("testp.subnormal.f64 q, A;", 1), 1u);
  EXPECT_EQ(evaluate("testp.subnormal.f32 q, a;", 0), 0u);
}

}  // namespace
}  // namespace fa4::emulator::test
