// SPDX-License-Identifier: BSD-3-Clause
#include "cli/check.h"

#include <gtest/gtest.h>

#include <limits>

#include "oracle/oracle.h"
#include "support/case.h"

namespace fa4::cli {
namespace {

/// A case whose outputs hold the oracle's own results, rounded to their dtype.
test::Case right_case(DType dtype) {
  test::Case c =
      test::ref64({.batch = 2, .s_q = 40, .s_k = 30, .heads_q = 4, .heads_k = 2, .d = 16}, dtype);
  c.options.causal = Causal::kBottomRight;  // the first ten rows see no key
  c.out = test::HostTensor(dtype, c.q.dims());
  c.lse = test::HostTensor(DType::kFloat32, {2, 4, 40});
  const auto forward = oracle::forward(c.tensors(), c.options);
  c.out.fill(forward.out);
  c.lse.fill(forward.lse);
  const auto backward = oracle::backward(c.tensors(), c.gradients(), c.options);
  c.dq = test::HostTensor(dtype, c.q.dims()).fill(backward.dq);
  c.dk = test::HostTensor(dtype, c.k.dims()).fill(backward.dk);
  c.dv = test::HostTensor(dtype, c.v.dims()).fill(backward.dv);
  return c;
}

TEST(Check, AcceptsTheOracleItself) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const test::Case c = right_case(dtype);
    const auto forward = check_forward(c.tensors(), c.options);
    ASSERT_EQ(forward.size(), 2U);
    for (const Check& check : forward) EXPECT_TRUE(check.passed) << check.fault;
    const auto backward = check_backward(c.tensors(), c.gradients(), c.options);
    ASSERT_EQ(backward.size(), 3U);
    for (const Check& check : backward) EXPECT_TRUE(check.passed) << check.fault;
  }
}

TEST(Check, FindsOneWrongElementAndNamesIt) {
  test::Case c = right_case(DType::kFloat32);
  c.out.set({1, 20, 3, 5}, c.out.get({1, 20, 3, 5}) + 1e-3);
  const auto forward = check_forward(c.tensors(), c.options);
  EXPECT_FALSE(all_passed(forward));
  EXPECT_FALSE(forward[0].passed);
  EXPECT_EQ(forward[0].fault.rfind("out[1, 20, 3, 5] of float32 is ", 0), 0U) << forward[0].fault;
  EXPECT_GT(forward[0].error, forward[0].allowed);
  EXPECT_TRUE(forward[1].passed);
  c.dk.set({0, 7, 1, 2}, c.dk.get({0, 7, 1, 2}) + 0.1);
  const auto backward = check_backward(c.tensors(), c.gradients(), c.options);
  EXPECT_TRUE(backward[0].passed);
  EXPECT_FALSE(backward[1].passed);
  EXPECT_EQ(backward[1].fault.rfind("dk[0, 7, 1, 2]", 0), 0U) << backward[1].fault;
}

TEST(Check, WantsExactZerosWhereNothingAdds) {
  test::Case c = right_case(DType::kFloat32);
  ASSERT_EQ(c.out.get({0, 3, 0, 0}), 0);
  c.out.set({0, 3, 0, 0}, 1e-30);
  EXPECT_FALSE(all_passed(check_forward(c.tensors(), c.options)));
}

TEST(Check, FindsNaNAndInfinityOutOfPlace) {
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::infinity()};
  for (const double value : bad) {
    test::Case c = right_case(DType::kFloat32);
    c.lse.set({0, 0, 30}, value);
    const auto forward = check_forward(c.tensors(), c.options);
    EXPECT_TRUE(forward[0].passed);
    EXPECT_FALSE(forward[1].passed);
  }
  test::Case c = right_case(DType::kFloat32);
  ASSERT_EQ(c.lse.get({0, 0, 0}), -std::numeric_limits<double>::infinity());
  c.lse.set({0, 0, 0}, 0);  // a row that sees no key
  EXPECT_FALSE(check_forward(c.tensors(), c.options)[1].passed);
}

TEST(Check, ALargeHeadHidesNoSmallOne) {
  test::Case c = right_case(DType::kFloat32);
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t d = 0; d < 16; ++d) c.v.set({0, i, 0, d}, 1e4 * c.v.get({0, i, 0, d}));
  }
  c.out.fill(oracle::forward(c.tensors(), c.options).out);
  EXPECT_TRUE(all_passed(check_forward(c.tensors(), c.options)));
  c.out.set({0, 20, 3, 0}, c.out.get({0, 20, 3, 0}) + 1e-2);  // nothing beside head 0's numbers
  EXPECT_FALSE(all_passed(check_forward(c.tensors(), c.options)));
}

}  // namespace
}  // namespace fa4::cli
