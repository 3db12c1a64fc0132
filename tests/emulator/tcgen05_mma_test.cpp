// SPDX-License-Identifier: BSD-3-Clause
// Products on the tensor core, in every layout, from small integers: equal to the bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/kernels/tensor_gemm.h"

namespace fa4::emulator::test {
namespace {

void expect_right(const Gemm& g, const RunOptions& options = {}) {
  const GemmRun run = run_gemm(g, options);
  ASSERT_EQ(run.error, "") << name_of(g);
  EXPECT_EQ(run.wrong, 0u) << name_of(g) << ": " << run.first;
  EXPECT_EQ(run.touched, 0u) << name_of(g) << ": " << run.first;
}

class Products : public testing::TestWithParam<Gemm> {};
TEST_P(Products, AreExact) { expect_right(GetParam()); }
std::string test_name(const testing::TestParamInfo<Gemm>& it) { return name_of(it.param); }

/// Swizzles that a layout may have (PTX ISA table 54).
std::vector<Swizzle> swizzles(Element e, bool mn_major) {
  if (mn_major && e == Element::kTF32) return {Swizzle::k128BBy32};
  std::vector<Swizzle> all = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};
  if (!mn_major) all.push_back(Swizzle::k128BBy32);
  return all;
}

constexpr Element kAllElements[] = {Element::kF16,  Element::kBF16, Element::kTF32, Element::kE4M3,
                                    Element::kE5M2, Element::kU8,   Element::kS8};

Gemm of_type(Element e) {
  Gemm g;
  g.a = g.b = e;
  if (e == Element::kU8 || e == Element::kS8) g.d = Result::kS32;
  return g;
}

/// Every type and both majors of A and B with every swizzle.
std::vector<Gemm> layouts_of_shared_memory() {
  std::vector<Gemm> all;
  for (const Element e : kAllElements) {
    for (const bool a_mn : {false, true}) {
      for (const bool b_mn : {false, true}) {
        for (const Swizzle sa : swizzles(e, a_mn)) {
          for (const Swizzle sb : swizzles(e, b_mn)) {
            Gemm g = of_type(e);
            g.a_mn_major = a_mn;
            g.b_mn_major = b_mn;
            g.a_swizzle = sa;
            g.b_swizzle = sb;
            all.push_back(g);
          }
        }
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(SharedMemory, Products, testing::ValuesIn(layouts_of_shared_memory()),
                         test_name);

struct Shape {
  uint32_t group, m, n, lane;
};
constexpr Shape kShapes[] = {
    {1, 128, 8, 0},   {1, 128, 24, 0},  {1, 128, 256, 0}, {1, 64, 8, 0},    {1, 64, 128, 0},
    {1, 64, 256, 16}, {2, 256, 16, 0},  {2, 256, 128, 0}, {2, 256, 256, 0}, {2, 128, 32, 0},
    {2, 128, 128, 0}, {2, 128, 256, 0}, {2, 256, 96, 0},
};

/// Every shape of D with A in shared and in tensor memory, and B either way.
std::vector<Gemm> shapes() {
  std::vector<Gemm> all;
  for (const Element e : kAllElements) {
    for (const Shape& s : kShapes) {
      for (const bool a_in_tensor : {false, true}) {
        for (const bool b_mn : {false, true}) {
          Gemm g = of_type(e);
          g.group = s.group;
          g.m = s.m;
          g.n = s.n;
          g.lane = s.lane;
          g.a_in_tensor = a_in_tensor;
          g.b_mn_major = b_mn;
          const uint32_t rows = s.n / s.group;
          const uint32_t size = bytes_of(e);
          if (size == 1 && b_mn && s.n % (16 * s.group) != 0) continue;
          if (g.d == Result::kS32 && s.n % (s.group == 2 ? 32 : s.n > 32 ? 16 : 8) != 0) continue;
          // The widest swizzle whose atoms the rows fill.
          if (b_mn && size == 4) {
            g.b_swizzle = Swizzle::k128BBy32;
            if (rows * size % 128 != 0) continue;
          } else if (b_mn) {
            const uint32_t width = rows * size;
            g.b_swizzle = width % 128 == 0  ? Swizzle::k128B
                          : width % 64 == 0 ? Swizzle::k64B
                          : width % 32 == 0 ? Swizzle::k32B
                                            : Swizzle::kNone;
          }
          all.push_back(g);
        }
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Shapes, Products, testing::ValuesIn(shapes()), test_name);

std::vector<Gemm> variants() {
  std::vector<Gemm> all;
  const auto add = [&](auto change) {
    for (const Element e : {Element::kF16, Element::kTF32, Element::kE4M3}) {
      for (const uint32_t group : {1u, 2u}) {
        Gemm g = of_type(e);
        g.group = group;
        g.m = 128 * group;
        g.n = 64;
        change(g);
        all.push_back(g);
      }
    }
  };
  add([](Gemm& g) { g.negate_a = true; });
  add([](Gemm& g) { g.negate_b = true; });
  add([](Gemm& g) { g.negate_a = g.negate_b = true; });
  add([](Gemm& g) { g.accumulate = true; });
  add([](Gemm& g) { g.disabled.assign(size_t{4} * g.group, 0); });
  add([](Gemm& g) {
    for (uint32_t i = 0; i < 4 * g.group; ++i) g.disabled.push_back(0xff00a5c3u * (i + 1));
  });
  add([](Gemm& g) {
    g.accumulate = g.a_in_tensor = g.negate_a = true;
    for (uint32_t i = 0; i < 4 * g.group; ++i) g.disabled.push_back(1u << i);
  });
  for (const uint32_t scale : {1u, 15u}) {
    for (const Element e : {Element::kBF16, Element::kTF32}) {
      Gemm g = of_type(e);
      g.accumulate = true;
      g.scale = scale;
      g.n = 32;
      g.steps = 1;
      g.a_swizzle = g.b_swizzle = Swizzle::k32B;  // a row has 32 bytes
      all.push_back(g);
    }
  }
  for (const Element e : {Element::kF16, Element::kE4M3, Element::kE5M2}) {
    for (const uint32_t m : {64u, 128u}) {
      Gemm g = of_type(e);
      g.d = Result::kF16;
      g.m = m;
      g.n = 32;
      g.steps = 1;
      g.a_swizzle = g.b_swizzle = Swizzle::k32B;  // a row has 32 bytes
      g.accumulate = m == 64;
      all.push_back(g);
    }
  }
  Gemm mixed = of_type(Element::kE4M3);
  mixed.b = Element::kE5M2;
  all.push_back(mixed);
  mixed = of_type(Element::kU8);
  mixed.b = Element::kS8;
  mixed.accumulate = true;
  all.push_back(mixed);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Variants, Products, testing::ValuesIn(variants()), test_name);

/// The result does not depend on when operations complete.
TEST(ProductTiming, ChangesNothing) {
  for (const uint32_t group : {1u, 2u}) {
    for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
      for (const Schedule schedule : {Schedule::kRandom, Schedule::kPriority}) {
        for (uint64_t seed = 0; seed < 4; ++seed) {
          Gemm g;
          g.group = group;
          g.m = 128 * group;
          g.n = 64;
          g.a_in_tensor = seed % 2 == 1;
          RunOptions options;
          options.timing = timing;
          options.schedule = schedule;
          options.seed = seed;
          expect_right(g, options);
        }
      }
    }
  }
}

TEST(ProductTally, CountsWork) {
  Gemm g;
  g.n = 64;
  EXPECT_EQ(run_gemm(g).tally.matrix_flops, uint64_t{2} * 128 * 64 * 64);
}

}  // namespace
}  // namespace fa4::emulator::test
