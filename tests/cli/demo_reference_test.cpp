// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fa4::cli {
namespace {

/// One text of 64 tokens (fewer are allowed more), two heads, and results of two numbers a head.
struct Slices {
  DemoFixture fixture;
  DemoReference reference;

  Slices() {
    fixture.heads = 2;
    fixture.head_dim = 2;
    fixture.texts.resize(1);
    fixture.cu_seqlens = {0, 64};
    reference.exact.assign(64 * 2 * 2, 1.0);
    reference.plain = reference.exact;
    reference.magnitude = reference.exact;
    for (double& x : reference.plain) x += 1e-3;
  }
  DemoError compare(const std::vector<double>& x) const {
    return compare_demo(fixture, DType::kBFloat16, x, reference.exact, reference);
  }
};

TEST(CompareDemo, AllowsTwiceThePlainError) {
  const Slices slices;
  EXPECT_EQ(slices.compare(slices.reference.exact).of_bound, 0);
  std::vector<double> x = slices.reference.exact;
  x[7] += 1.9e-3;
  EXPECT_LT(slices.compare(x).of_bound, 1);
  x[7] = 1 - 2.1e-3;
  const DemoError error = slices.compare(x);
  EXPECT_GT(error.of_bound, 1);
  EXPECT_NEAR(error.error, 2.1e-3, 1e-12);
  EXPECT_NEAR(error.plain, 1e-3, 1e-12);
}

TEST(CompareDemo, LargeHeadHidesNoSmallOne) {
  Slices slices;
  for (size_t i = 0; i < slices.reference.exact.size(); ++i) {
    if (i % 4 < 2) {  // The first head is a thousand times as large.
      for (auto* x :
           {&slices.reference.exact, &slices.reference.plain, &slices.reference.magnitude}) {
        (*x)[i] *= 1000;
      }
    }
  }
  std::vector<double> x = slices.reference.exact;
  x[0] += 0.1;
  EXPECT_LT(slices.compare(x).of_bound, 1);
  x[2] += 0.1;
  EXPECT_GT(slices.compare(x).of_bound, 1);
}

TEST(CompareDemo, NaNIsNeverRight) {
  const Slices slices;
  std::vector<double> x = slices.reference.exact;
  x[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_GT(slices.compare(x).of_bound, 1);
}

TEST(DemoDout, IsExactInEveryDtype) {
  const Slices slices;
  for (const float x : make_demo_dout(slices.fixture, 3)) {
    EXPECT_EQ(x, to_float(to_bfloat16(x)));
    EXPECT_EQ(x, to_float(to_float16(x)));
  }
  EXPECT_NE(make_demo_dout(slices.fixture, 3), make_demo_dout(slices.fixture, 4));
}

}  // namespace
}  // namespace fa4::cli
