// SPDX-License-Identifier: BSD-3-Clause
// Merging partial results, as splits over the keys and rings of devices make them.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

// Splits with a poisoned partial result made the combined one NaN (tilelang #328, aiter PR #4420).
TEST(C32, CombineIgnoresEmptyParts) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const HostTensor outs = HostTensor::of(dtype, {3, 1, 1}, {1.731059, 3.731059, kNaN});
    const HostTensor lses = HostTensor::of(dtype, {3, 1}, {1.313262, 3.313262, -kInf});
    HostTensor out(dtype, {1, 1}), lse(dtype, {1});
    must(combine(outs.view(), lses.view(), out.view(), lse.view()));
    EXPECT_NEAR(out.get({0, 0}), 3.492653, 2e-6);
    EXPECT_NEAR(lse.get({0}), 3.440190, 2e-6);
    EXPECT_EQ(out.damage() + lse.damage(), "");
  }
}

TEST(C32, CombineOfEmptyPartsAlone) {
  for (const DType dtype : kFloats) {
    const DType wide = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    HostTensor outs(wide, {2, 3, 5}), lses(wide, {2, 3});
    outs.fill(kNaN);
    lses.fill(-kInf);
    HostTensor out(dtype, {3, 5}), lse(wide, {3});
    must(combine(outs.view(), lses.view(), out.view(), lse.view()));
    expect_zero(out, "out");
    for (const double x : lse.values()) EXPECT_EQ(x, -kInf);
  }
}

}  // namespace
}  // namespace fa4::cases
