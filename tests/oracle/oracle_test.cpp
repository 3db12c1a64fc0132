// SPDX-License-Identifier: BSD-3-Clause
// The oracle by itself, against answers worked out by hand: with q = 0 a row of out is the mean of
// the values that it sees.
#include "oracle/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/case.h"

namespace fa4::test {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The first column of out, the first head's.
Values out_of(const Case& c) {
  const Values out = oracle::forward(c.tensors(), c.options).out;
  const int64_t d_v = c.v.dims().back(), heads = c.q.dims()[c.q.dims().size() - 2];
  Values column;
  for (size_t i = 0; i < out.size(); i += d_v * heads) column.push_back(out[i]);
  return column;
}
Values lse_of(const Case& c) { return oracle::forward(c.tensors(), c.options).lse; }
oracle::Backward backward_of(const Case& c) {
  return oracle::backward(c.tensors(), c.gradients(), c.options);
}

void expect_near(const Values& actual, const Values& expected, double allowed = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    EXPECT_NEAR(actual[i], expected[i], allowed) << "at " << i;
  }
}

Case probe_of(int64_t s_q, int64_t s_k, Causal causal = Causal::kNone) {
  Case c = probe({.s_q = s_q, .s_k = s_k, .d = 1}, DType::kFloat64);
  c.options.causal = causal;
  return c;
}

TEST(Oracle, CausalStandsAtTheBottomRightOrTheTopLeft) {
  const Case right = probe_of(2, 5, Causal::kBottomRight);
  expect_near(out_of(right), {2.5, 3.0});
  expect_near(lse_of(right), {std::log(4), std::log(5)});
  expect_near(backward_of(right).dv, {.45, .45, .45, .45, .2});
  expect_near(out_of(probe_of(2, 5, Causal::kTopLeft)), {1.0, 1.5});
  expect_near(out_of(probe_of(1, 7, Causal::kBottomRight)), {4.0});
}

TEST(Oracle, RowsWithoutKeysAreZeroAndGiveNoGradient) {
  Case c = probe_of(5, 2, Causal::kBottomRight);
  c.dlse = HostTensor(DType::kFloat64, {1, 1, 5}).fill(1);
  expect_near(out_of(c), {0, 0, 0, 1, 1.5});
  expect_near(lse_of(c), {-kInf, -kInf, -kInf, 0, std::log(2)});
  const auto gradients = backward_of(c);
  expect_near(gradients.dv, {1.5, .5});
  EXPECT_EQ(Values(gradients.dq.begin(), gradients.dq.begin() + 3), Values(3, 0));
  expect_near(out_of(probe_of(2, 0)), {0, 0});
}

TEST(Oracle, WindowsAreInclusiveAroundTheDiagonal) {
  Case c = probe_of(6, 6);
  c.options.window = {2, 0};
  expect_near(out_of(c), {1, 1.5, 2, 3, 4, 5});
  c.options.window = {0, std::nullopt};
  expect_near(out_of(c), {3.5, 4, 4.5, 5, 5.5, 6});
  c.options.window = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
  expect_near(out_of(c), Values(6, 3.5));
  c = probe_of(2, 4);
  c.options.window = {0, 0};
  expect_near(out_of(c), {3, 4});
  c.options.causal = Causal::kTopLeft;
  expect_near(out_of(c), {1, 2});
}

TEST(Oracle, MaskAndInfiniteBiasHideKeysThatMayBeNaN) {
  Case c = probe_of(2, 2);
  const double nan = std::nan("");
  c.k.set({0, 1, 0, 0}, nan);
  c.v.set({0, 1, 0, 0}, nan);
  c.mask = HostTensor::of(DType::kBool, {1, 1, 1, 2}, {1, 0});
  expect_near(out_of(c), {1, 1});
  expect_near(backward_of(c).dk, {0, 0});
  c.mask = {};
  c.bias = HostTensor::of(DType::kFloat32, {1, 1, 2, 2}, {0, -kInf, -kInf, -kInf});
  expect_near(out_of(c), {1, 0});
  expect_near(backward_of(c).dbias, Values(4, 0));
}

TEST(Oracle, AlibiCountsFromTheDiagonal) {
  Case c = probe_of(4, 4, Causal::kBottomRight);
  c.alibi_slopes = HostTensor::of(DType::kFloat32, {1}, {.5});
  expect_near(out_of(c), {1, 1.622459, 2.320157, 3.084576});
  c = probe_of(1, 4, Causal::kBottomRight);
  c.alibi_slopes = HostTensor::of(DType::kFloat32, {1, 1}, {.5});
  expect_near(out_of(c), {3.084576});
  // lse = log(sum exp(.5 * (j - 3))): absolute, not only up to a constant.
  expect_near(lse_of(c), {std::log(1 + std::exp(-.5) + std::exp(-1) + std::exp(-1.5))});
}

TEST(Oracle, SoftcapComesBeforeBiasAndMask) {
  Case c = probe_of(1, 2);
  c.q.fill(1);
  c.k.fill(Values{0, 4});
  c.v.fill(Values{0, 1});
  c.options.softcap = 2;
  expect_near(out_of(c), {.873034});
  expect_near(lse_of(c), {2.063836});
  // d out / d score = [-.110846, .007831]; q = 1, so dk is that, and dq = 4 * the second.
  expect_near(backward_of(c).dk, {-.110846, .007831});
  expect_near(backward_of(c).dq, {4 * .007831}, 1e-5);
  c.k.fill(0);
  c.v.fill(Values{1, 1000});
  c.bias = HostTensor::of(DType::kFloat64, {1, 1, 1, 2}, {0, -kInf});
  expect_near(out_of(c), {1});
}

TEST(Oracle, SinkTakesProbabilityAndHasAGradient) {
  Case c = probe_of(1, 3);
  c.sink = HostTensor::of(DType::kFloat64, {1}, {0});
  expect_near(out_of(c), {1.5});
  expect_near(lse_of(c), {std::log(4)});
  expect_near(backward_of(c).dsink, {-.375});
  c.sink.fill(std::log(3));
  expect_near(out_of(c), {1});
  c.mask = HostTensor(DType::kBool, {1, 1, 1, 1}).fill(0);
  expect_near(out_of(c), {0});
  expect_near(lse_of(c), {std::log(3)});
  expect_near(backward_of(c).dsink, {0});
}

TEST(Oracle, GradientOfTheLse) {
  Case c = probe({.s_q = 1, .s_k = 3, .d = 1}, DType::kFloat64);
  c.k.fill(Values{1, 2, 3});
  c.dout.fill(0);
  c.dlse = HostTensor(DType::kFloat64, {1, 1, 1}).fill(1);
  expect_near(backward_of(c).dq, {2});
  expect_near(backward_of(c).dk, {0, 0, 0});
}

TEST(Oracle, PackedSequencesSeeThemselvesAlone) {
  Case c = probe({.d = 1, .lengths_q = {3, 0, 2}, .lengths_k = {3, 0, 2}}, DType::kFloat64);
  c.options.causal = Causal::kBottomRight;
  expect_near(out_of(c), {1, 1.5, 2, 4, 4.5});
  // The last row belongs to no sequence.
  c.cu_seqlens_q = cu_seqlens_of({3, 0, 1}, DType::kInt64);
  c.cu_seqlens_k = cu_seqlens_of({3, 0, 1}, DType::kInt64);
  expect_near(out_of(c), {1, 1.5, 2, 4, 0});
  expect_near(lse_of(c), {0, std::log(2), std::log(3), 0, -kInf});
  expect_near(backward_of(c).dv, {11. / 6, 5. / 6, 1. / 3, 1, 0});
}

TEST(Oracle, UsedAndStartBoundTheRowsThatCount) {
  Case c = probe({.batch = 2, .s_q = 5, .s_k = 5, .d = 1}, DType::kFloat64);
  c.options.causal = Causal::kBottomRight;
  c.start_q = c.start_k = indices({2, 0});
  expect_near(out_of(c), {0, 0, 3, 3.5, 4, 1, 1.5, 2, 2.5, 3});
  c.seqused_q = c.seqused_k = indices({4, 1});
  expect_near(out_of(c), {0, 0, 3, 3.5, 0, 1, 0, 0, 0, 0});
  c.options.causal = Causal::kTopLeft;
  c.start_q = indices({1, 0});
  expect_near(out_of(c), {0, 3, 3.5, 3.5, 0, 1, 0, 0, 0, 0});
}

TEST(Oracle, QueryHeadsShareKeyHeads) {
  Case c =
      ref64({.s_q = 3, .s_k = 4, .heads_q = 6, .heads_k = 2, .d = 3, .d_v = 2}, DType::kFloat64);
  Case repeated = c;
  for (HostTensor* tensor : {&repeated.k, &repeated.v}) {
    const HostTensor few = *tensor;
    *tensor = HostTensor(DType::kFloat64, {1, 4, 6, few.dims()[3]});
    tensor->fill_with([&](const Index& at) { return few.get({0, at[1], at[2] / 3, at[3]}); });
  }
  expect_near(oracle::forward(c.tensors(), c.options).out,
              oracle::forward(repeated.tensors(), c.options).out, 0);
  const Values dk = backward_of(c).dk, dk_repeated = backward_of(repeated).dk;
  for (int64_t j = 0; j < 4; ++j) {
    for (int64_t h = 0; h < 2; ++h) {
      const double* of_head = &dk_repeated[(j * 6 + 3 * h) * 3];
      EXPECT_NEAR(dk[(j * 2 + h) * 3], of_head[0] + of_head[3] + of_head[6], 1e-12);
    }
  }
}

TEST(Oracle, ReadsAnyStridesAndDtypes) {
  const Values values = {1, -2, 0.5, 0x1p-24, 65504, -0x1.8p-15};
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    const HostTensor rows = HostTensor::of(dtype, {2, 3}, values);
    EXPECT_EQ(rows.values(), values);
    EXPECT_EQ(rows.with_strides({1, 7}).values(), values);
  }
  EXPECT_EQ(HostTensor::of(DType::kBFloat16, {2}, {1.00390625, 1e39}).values(), (Values{1, kInf}));
  EXPECT_EQ(oracle::round_to(DType::kFloat16, 65519), 65504);
  EXPECT_EQ(oracle::round_to(DType::kFloat16, -65520), -kInf);
  EXPECT_EQ(oracle::round_to(DType::kFloat16, 0x1p-25), 0);
}

TEST(Oracle, RoundsAsTheLibraryConverts) {
  Random random(7);
  std::uniform_real_distribution<float> exponent(-45, 40);
  std::normal_distribution<float> normal;
  for (int n = 0; n < 100000; ++n) {
    const float x = normal(random) * std::pow(10.0F, exponent(random));
    EXPECT_EQ(static_cast<double>(to_float(to_bfloat16(x))), oracle::round_to(DType::kBFloat16, x));
    EXPECT_EQ(static_cast<double>(to_float(to_float16(x))), oracle::round_to(DType::kFloat16, x));
  }
}

}  // namespace
}  // namespace fa4::test
