// SPDX-License-Identifier: BSD-3-Clause
// Head counts of any ratio, head dims of any size, lengths around tile edges.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

struct Heads {
  int64_t q, k;
};

// "Unsupported group" or NaN for groups of 5, 6, 7, 64 (flashinfer #258, #996, PR #4316).
TEST(C67, AnyGroupSize) {
  for (const Heads& heads :
       {Heads{14, 2}, {28, 4}, {24, 4}, {40, 8}, {71, 1}, {12, 2}, {9, 3}, {64, 1}, {16, 16}}) {
    for (const int64_t s_q : {1, 3, 65}) {
      SCOPED_TRACE(testing::Message() << heads.q << "/" << heads.k << " s_q " << s_q);
      Case c = ref64({.s_q = s_q, .s_k = 70, .heads_q = heads.q, .heads_k = heads.k, .d = 16});
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
      Case repeated = c;
      const int64_t group = heads.q / heads.k;
      repeated.k = repeat_heads(c.k, group);
      repeated.v = repeat_heads(c.v, group);
      repeated.dk = repeated.dv = {};
      run(repeated);
      EXPECT_LE(distance(c.out, repeated.out), 2e-6);
      EXPECT_LE(distance(c.lse, repeated.lse), 2e-6);
      EXPECT_LE(distance(c.dq, repeated.dq), 1e-5);
      HostTensor sum_k(DType::kFloat64, c.dk.dims()), sum_v(DType::kFloat64, c.dv.dims());
      const auto sum_over_group = [&](const HostTensor& x, HostTensor& sum) {
        sum.fill_with([&](const Index& i) {
          double total = 0;
          for (int64_t g = 0; g < group; ++g) total += x.get({i[0], i[1], i[2] * group + g, i[3]});
          return total;
        });
      };
      sum_over_group(repeated.dk, sum_k);
      sum_over_group(repeated.dv, sum_v);
      EXPECT_LE(distance(c.dk, sum_k), 1e-4);
      EXPECT_LE(distance(c.dv, sum_v), 1e-4);
    }
  }
}

// Group 7 in bfloat16 gave degenerate text (flashinfer #2896).
TEST(C68, GroupOf7InBFloat16) {
  Case c = ref64({.batch = 2, .s_q = 1, .s_k = 256, .heads_q = 28, .heads_k = 4, .d = 128},
                 DType::kBFloat16);
  test::expect_right(c);
}
TEST(C68, LastPageLengthOfZero) { GTEST_SKIP() << "waits for paged caches"; }

// Row indices were divided by the group size though rows weren't packed: causal limits were wrong
// for each row but the first (flash-attention PR #2528).
TEST(C69, CausalRowsOfGroupedHeads) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    Case c = probe({.s_q = 300, .s_k = 300, .heads_q = 8, .heads_k = 2}, dtype);
    c.options.causal = Causal::kBottomRight;
    run(c);
    for (int64_t i = 0; i < 300; ++i) expect_row(c, i, static_cast<double>(i + 2) / 2);
    expect_counts(c, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i; });
  }
}

// A CPU decode path was right for a group of 8 alone (ik_llama.cpp PR #1521).
TEST(C71, BFloat16DecodeOfEachGroup) {
  for (int64_t group = 1; group <= 8; ++group) {
    SCOPED_TRACE(group);
    Case c = ref64({.s_q = 1, .s_k = 300, .heads_q = 2 * group, .heads_k = 2, .d = 64},
                   DType::kBFloat16);
    test::expect_right(c);
    Case wide = c;
    for (HostTensor Case::*x : {&Case::q, &Case::k, &Case::v}) {
      wide.*x = HostTensor(DType::kFloat32, (c.*x).dims()).fill((c.*x).values());
    }
    wide.out = wide.lse = {};
    run_forward(wide);
    EXPECT_LE(distance(c.out, wide.out), 0x1p-9);  // half a unit of values below 1
    EXPECT_LE(distance(c.lse, wide.lse), 1e-5);
  }
}

// d_v of 8, 40, 72, 96, 120 misplaced a part of dv (flash-attention #2552).
TEST(C73, EveryPairOfHeadDims) {
  const std::array<int64_t, 16> dims = {8,  16, 24, 32, 40,  48,  56,  64,
                                        72, 80, 88, 96, 104, 112, 120, 128};
  for (const int64_t d : dims) {
    for (const int64_t d_v : dims) {
      SCOPED_TRACE(testing::Message() << d << ", " << d_v);
      Case c = ref64({.s_q = 19, .s_k = 17, .d = d, .d_v = d_v}, DType::kBFloat16,
                     static_cast<uint64_t>(d * 1000 + d_v));
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}

// The head dims of DeepSeek's prefill gave garbage for short prompts (flash-attention #2367).
TEST(C74, Dims192And128) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const int64_t s_q : {1, 64, 128, 200}) {
      Case c = ref64({.s_q = s_q, .s_k = 200, .d = 192, .d_v = 128}, dtype);
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}
TEST(C74, Pages) { GTEST_SKIP() << "waits for paged caches"; }

/// A case whose answer hangs on the last column of q, k and v: weights ln(j + 1), values j + 1.
Case last_column_case(int64_t d, DType dtype) {
  Case c = probe({.s_q = 1, .s_k = 4, .d = d}, dtype);
  c.q.fill_with([&](const Index& i) { return i[3] == d - 1 ? 1.0 : 0.0; });
  c.k.fill_with([&](const Index& i) {
    return i[3] == d - 1 ? std::log(static_cast<double>(i[1] + 1)) : 0.0;
  });
  c.v.fill_with(
      [&](const Index& i) { return i[3] == d - 1 ? static_cast<double>(i[1] + 1) : 0.0; });
  return c;
}

// A kernel for head dim 128 used the first 64 columns alone (triton #621).
TEST(C77, TheLastColumnCounts) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    for (int64_t d = 1; d <= 256; ++d) {
      Case c = last_column_case(d, dtype);
      run(c);
      const double tolerance = dtype == DType::kFloat16 ? 2e-3 : 2e-6;
      ASSERT_NEAR(c.out.get({0, 0, 0, d - 1}), 3.0, tolerance) << d;
      ASSERT_NEAR(lse_at(c, 0, 0, 0), 2.302585, tolerance) << d;
      for (int64_t column = 0; column < d - 1; ++column) {
        ASSERT_EQ(c.out.get({0, 0, 0, column}), 0) << d;
        ASSERT_EQ(c.dq.get({0, 0, 0, column}), 0) << d;
      }
      // dq = sum_j P_j (j + 1 - 3) ln(j + 1), with P_j = (j + 1) / 10.
      double dq = 0;
      for (int j = 1; j <= 4; ++j) dq += j * (j - 3) * std::log(j) / 10.0;
      ASSERT_NEAR(c.dq.get({0, 0, 0, d - 1}), dq, 2 * tolerance) << d;
    }
  }
}

// Lengths that aren't multiples of 128 mismatched (cutlass #2428).
TEST(C80, LengthsAroundTileEdges) {
  const std::array<int64_t, 10> lengths = {1, 17, 63, 64, 65, 127, 128, 129, 255, 257};
  for (const int64_t s_q : lengths) {
    for (const int64_t s_k : lengths) {
      SCOPED_TRACE(testing::Message() << s_q << " x " << s_k);
      Case c = ref64({.s_q = s_q, .s_k = s_k, .d = 16}, DType::kFloat32,
                     static_cast<uint64_t>(s_q * 1000 + s_k));
      if ((s_q + s_k) % 4 == 1) c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}

TEST(C80, Dim128AcrossTypes) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.s_q = 64, .s_k = 64, .heads_q = 4, .d = 128}, dtype);
    test::expect_right(c);
    Case uneven = ref64({.s_q = 65, .s_k = 129, .heads_q = 2, .d = 128}, dtype);
    test::expect_right(uneven);
  }
}

// Head dims 72, 80, 96, 160, 256 were refused or forward only (flash-attention #28, #67, #277).
TEST(C82, HeadDimsOfRealModels) {
  for (const DType dtype : kFloats) {
    for (const int64_t d : {1, 7, 17, 33, 59, 72, 80, 96, 129, 160, 192, 255, 256}) {
      SCOPED_TRACE(d);
      Case c = ref64({.s_q = 34, .s_k = 35, .heads_q = 2, .heads_k = 1, .d = d}, dtype);
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
    }
  }
}

TEST(C82, DimsPastTheLimitAreRefusedWithIt) {
  Case c = probe({.s_q = 1, .s_k = 1, .d = 512});
  const Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("512"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("256"), std::string::npos) << status.message();
  const Support support = supports(AttentionProblem::forward(c.tensors()));
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find("256"), std::string::npos) << support.reason;
}

}  // namespace
}  // namespace fa4::cases
