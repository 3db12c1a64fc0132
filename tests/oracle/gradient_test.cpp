// SPDX-License-Identifier: BSD-3-Clause
// The oracle's gradients against central differences of its forward, in float64, for every feature.
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/oracle.h"
#include "support/case.h"

namespace fa4::test {
namespace {

/// sum(dout * out) + sum(dlse * lse) over rows that see a key.
double loss_of(const Case& c) {
  const oracle::Forward forward = oracle::forward(c.tensors(), c.options);
  const std::vector<double> dout = c.dout.values(), dlse = c.dlse.values();
  double loss = 0;
  for (size_t i = 0; i < dout.size(); ++i) loss += dout[i] * forward.out[i];
  for (size_t i = 0; i < dlse.size(); ++i) {
    if (std::isfinite(forward.lse[i])) loss += dlse[i] * forward.lse[i];
  }
  return loss;
}

void expect_derivative(Case& c, HostTensor& x, const std::vector<double>& gradient,
                       const char* name) {
  constexpr double kStep = 1e-5;
  const std::vector<double> values = x.values();
  ASSERT_EQ(values.size(), gradient.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(values[i])) {
      EXPECT_EQ(gradient[i], 0) << name;
      continue;
    }
    std::vector<double> moved = values;
    moved[i] = values[i] + kStep;
    const double above = loss_of((x.fill(moved), c));
    moved[i] = values[i] - kStep;
    const double below = loss_of((x.fill(moved), c));
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-7) << name << " element " << i;
  }
  x.fill(values);
}

void expect_gradients(Case c) {
  Random random(5);
  const int64_t heads = c.q.dims()[c.q.dims().size() - 2];
  const int64_t rows = c.q.size() / (heads * c.q.dims().back());
  c.dlse = c.cu_seqlens_q.present()
               ? HostTensor(DType::kFloat64, {heads, rows})
               : HostTensor(DType::kFloat64, {c.batch(), heads, rows / c.batch()});
  c.dlse.fill_normal(random);
  const oracle::Backward gradients = oracle::backward(c.tensors(), c.gradients(), c.options);
  expect_derivative(c, c.q, gradients.dq, "dq");
  expect_derivative(c, c.k, gradients.dk, "dk");
  expect_derivative(c, c.v, gradients.dv, "dv");
  if (c.bias.present()) expect_derivative(c, c.bias, gradients.dbias, "dbias");
  if (c.sink.present()) expect_derivative(c, c.sink, gradients.dsink, "dsink");
}

constexpr DType kDouble = DType::kFloat64;

Case small(uint64_t seed = 3) {
  return ref64({.batch = 2, .s_q = 4, .s_k = 5, .heads_q = 4, .heads_k = 2, .d = 3, .d_v = 2},
               kDouble, seed);
}

HostTensor normal(Dims dims, uint64_t seed = 9) {
  Random random(seed);
  return HostTensor(kDouble, std::move(dims)).fill_normal(random);
}

TEST(OracleGradient, Plain) { expect_gradients(small()); }

TEST(OracleGradient, CausalWithRowsThatSeeNothing) {
  Case c = ref64({.s_q = 6, .s_k = 3, .d = 2}, kDouble);
  c.options.causal = Causal::kBottomRight;
  expect_gradients(c);
}

TEST(OracleGradient, TopLeftWindowAndNegativeScale) {
  Case c = small();
  c.options.causal = Causal::kTopLeft;
  c.options.window.left = 1;
  c.options.scale = -0.7;
  expect_gradients(c);
}

TEST(OracleGradient, Softcap) {
  Case c = small();
  c.options.softcap = 0.8;
  expect_gradients(c);
}

TEST(OracleGradient, SinkAndSoftcapAndBias) {
  Case c = small();
  c.options.softcap = 3;
  c.sink = normal({4});
  c.bias = normal({2, 4, 4, 5});
  expect_gradients(c);
}

TEST(OracleGradient, BiasBroadcastOverEverySetOfDims) {
  for (int set = 0; set < 16; ++set) {
    Case c = small();
    c.bias = normal({(set & 1) != 0 ? 1 : 2, (set & 2) != 0 ? 1 : 4, (set & 4) != 0 ? 1 : 4,
                     (set & 8) != 0 ? 1 : 5});
    c.bias.set({0, 0, 0, 0}, -std::numeric_limits<double>::infinity());
    expect_gradients(c);
  }
}

TEST(OracleGradient, MaskAndAlibi) {
  Case c = small();
  c.mask = HostTensor(DType::kBool, {2, 1, 4, 5}).fill_with([](const Index& i) {
    return (i[0] + i[2] * i[3]) % 3 != 0 ? 1.0 : 0.0;
  });
  c.alibi_slopes = HostTensor::of(DType::kFloat32, {4}, {.5, -.25, .125, 1});
  expect_gradients(c);
}

TEST(OracleGradient, Dropout) {
  Case c = small();
  c.options.dropout_p = 0.4;
  c.options.dropout_seed = 77;
  c.sink = normal({4});
  expect_gradients(c);
}

TEST(OracleGradient, PackedWithUsedAndStart) {
  Case c =
      ref64({.heads_q = 2, .heads_k = 1, .d = 2, .lengths_q = {3, 0, 4}, .lengths_k = {4, 2, 3}},
            kDouble);
  c.options.causal = Causal::kBottomRight;
  c.seqused_k = indices({3, 2, 3}, DType::kInt64);
  c.start_q = indices({0, 0, 1});
  c.bias = normal({1, 2, 4, 4});
  expect_gradients(c);
}

}  // namespace
}  // namespace fa4::test
