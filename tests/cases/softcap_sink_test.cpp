// SPDX-License-Identifier: BSD-3-Clause
// Softcap's formula and order, sinks and their gradient, and the scales that models use.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

/// One row whose scores are those given: d 1, q 1, k the scores.
Case scores_case(const std::vector<double>& scores, DType dtype = DType::kFloat32) {
  const auto keys = static_cast<int64_t>(scores.size());
  Case c = probe({.s_q = 1, .s_k = keys, .d = 1}, dtype);
  c.q.fill(1);
  c.k.fill(scores);
  return c;
}

// The cap was score * tanh(score / c) instead of c * tanh(score / c) (flash-attention #2396).
TEST(C83, SoftcapFormulaAndGradient) {
  for (const DType dtype : kFloats) {
    const double tolerance = is_narrow(dtype) ? 0x1p-8 : 2e-6;
    Case c = scores_case({0, 4}, dtype);
    c.v.fill({0, 1});
    c.options.softcap = 2;
    run(c);
    EXPECT_NEAR(c.out.get({0, 0, 0, 0}), 0.873034, tolerance);
    EXPECT_NEAR(lse_at(c, 0, 0, 0), 2.063836, 2e-6);
    // q is 1, so dk is the gradient of the raw scores.
    EXPECT_NEAR(c.dk.get({0, 0, 0, 0}), -0.110846, tolerance);
    EXPECT_NEAR(c.dk.get({0, 1, 0, 0}), 0.007831, tolerance / 4);
  }
}

TEST(C83, SoftcapAcrossTypesAndMasks) {
  for (const DType dtype : kFloats) {
    for (const double cap : {0.5, 2.0, 50.0}) {
      Case c = ref64({.s_q = 70, .s_k = 90, .heads_q = 4, .heads_k = 2, .d = 32}, dtype);
      c.options.softcap = cap;
      c.options.scale = 1;
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}

Case sink_case(const Shape& shape, const std::vector<double>& sink, DType dtype) {
  Case c = probe(shape, dtype);
  const DType exact = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  c.sink = HostTensor::of(exact, {static_cast<int64_t>(sink.size())}, sink);
  return c;
}

/// dsink comes from probabilities whose exp2 is as exact as the inputs' dtype needs.
double dsink_tolerance(DType dtype) { return is_narrow(dtype) ? 2e-4 : 1e-5; }

// Sinks were forward only, or their gradient was silently missing
// (flash-attention #1973, TransformerEngine #2070).
TEST(C85, SinkTakesItsShare) {
  for (const DType dtype : kFloats) {
    Case c = sink_case({.s_q = 1, .s_k = 3}, {0}, dtype);
    run(c);
    expect_rows(c, {1.5});
    expect_lse(c, {1.386294});
    EXPECT_NEAR(c.dsink.get({0}), -0.375 * 8, dsink_tolerance(dtype));  // eight columns of dout
    c = sink_case({.s_q = 1, .s_k = 3}, {std::log(3)}, dtype);
    run(c);
    expect_rows(c, {1.0});
    EXPECT_NEAR(c.dsink.get({0}), -0.5 * 8, dsink_tolerance(dtype));
    c.sink = c.dsink = {};
    run(c);
    expect_lse(c, {1.098612});
  }
}

TEST(C85, SinkOfCausalRows) {
  for (const DType dtype : kFloats) {
    Case c = sink_case({.s_q = 3, .s_k = 3}, {0}, dtype);
    c.options.causal = Causal::kBottomRight;
    run(c);
    expect_rows(c, {0.5, 1.0, 1.5});
    expect_lse(c, {std::log(2), std::log(3), std::log(4)});
    EXPECT_NEAR(c.dsink.get({0}), -8 * (0.5 / 2 + 1.0 / 3 + 1.5 / 4), dsink_tolerance(dtype));
  }
}

TEST(C85, RowWithoutKeysButASink) {
  for (const DType dtype : kFloats) {
    Case c = sink_case({.s_q = 5, .s_k = 2, .heads_q = 2}, {0.75, -2}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.options.window.left = 0;
    c.mask = HostTensor::of(DType::kBool, {1, 1, 1, 1}, {0});
    run(c);
    expect_rows(c, {0, 0, 0, 0, 0});
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(lse_at(c, 0, 0, i), 0.75);
      EXPECT_EQ(lse_at(c, 0, 1, i), -2);
    }
    expect_zero(c.dsink, "dsink");
    expect_zero(c.dq, "dq");
    expect_zero(c.dv, "dv");
  }
}

TEST(C85, SinkBesideAWindowOf128) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    Case c = sink_case({.s_q = 200, .s_k = 200, .heads_q = 4, .heads_k = 1}, {0, 0, 0, 0}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.options.window = {127, 0};
    run(c);
    const double tolerance = dtype == DType::kFloat16 ? 0.1 : 1e-4;
    EXPECT_NEAR(c.out.get({0, 199, 3, 0}), 135.4419, tolerance);
    EXPECT_NEAR(lse_at(c, 0, 3, 199), std::log(129), 5e-6);
  }
}

TEST(C85, SinkGradientAcrossTypes) {
  for (const DType dtype : kFloats) {
    for (const DType sink_dtype : {dtype, DType::kFloat32}) {
      Case c =
          ref64({.batch = 2, .s_q = 70, .s_k = 70, .heads_q = 4, .heads_k = 2, .d = 32}, dtype);
      c.sink = HostTensor::of(sink_dtype, {4}, {0.5, -3, 8, 1});
      c.options.causal = Causal::kBottomRight;
      c.options.softcap = 5;
      test::expect_right(c);
    }
  }
}

struct NamedScale {
  const char* name;
  double scale;
  int64_t d;
};

// Models whose scale isn't 1/sqrt(d): a library that ignores the argument is wrong for them alone.
TEST(Scales, OfModels) {
  for (const NamedScale& s : {NamedScale{"T5 and Gemma 4", 1.0, 64},
                              {"Gemma 2 27B", 1 / std::sqrt(144.0), 128},
                              {"Gemma 3 27B", 1 / std::sqrt(168.0), 128},
                              {"muP", 1 / 64.0, 64},
                              {"DeepSeek with YaRN", 1.8738 / std::sqrt(192.0), 192}}) {
    SCOPED_TRACE(s.name);
    for (const DType dtype : kFloats) {
      Case c = ref64({.s_q = 40, .s_k = 66, .heads_q = 2, .heads_k = 1, .d = s.d}, dtype);
      c.options.scale = s.scale;
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}

TEST(Scales, ZeroIsUniform) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 6, .s_k = 6}, dtype);
    test::Random random(0);
    c.q.fill_normal(random, 0, 10);
    c.options.scale = 0;
    c.options.causal = Causal::kBottomRight;
    run(c);
    expect_rows(c, {1, 1.5, 2, 2.5, 3, 3.5});
    expect_zero(c.dq, "dq");
    expect_zero(c.dk, "dk");
  }
}

// A negative scale breaks "take the maximum, then scale".
TEST(Scales, NegativeIsQNegated) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.s_q = 70, .s_k = 90, .heads_q = 2, .d = 32}, dtype);
    c.options.scale = -1;
    test::expect_right(c);
    Case negated = c;
    negated.options.scale = 1;
    negated.q.fill_with([&](const Index& i) { return -c.q.get(i); });
    run(negated);
    const double tolerance = is_narrow(dtype) ? 0x1p-8 : 2e-6;
    EXPECT_LE(distance(c.out, negated.out), 2 * tolerance);
    EXPECT_LE(distance(c.lse, negated.lse), 1e-5);
  }
}

}  // namespace
}  // namespace fa4::cases
