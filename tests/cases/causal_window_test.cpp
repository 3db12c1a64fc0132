// SPDX-License-Identifier: BSD-3-Clause
// Causal and window semantics: where the triangle stands, what the bounds include, who limits whom.
#include "cases/case_helpers.h"
#include "cases/rows_judge.h"

namespace fa4::cases {
namespace {

constexpr std::array<int64_t, 6> kEdges = {1, 2, 63, 64, 65, 129};

/// The probe of s_q x s_k with causal bottom-right, run forward and backward.
Case causal_probe(int64_t s_q, int64_t s_k, DType dtype = DType::kFloat32) {
  Case c = probe({.s_q = s_q, .s_k = s_k}, dtype);
  c.options.causal = Causal::kBottomRight;
  run(c);
  return c;
}

// Libraries align the triangle top-left or bottom-right when Sq != Sk, and models silently attend
// to the wrong keys (flash-attention #402, pytorch #103082).
TEST(C01, CausalIsBottomRight) {
  for (const DType dtype : kFloats) {
    const Case c = causal_probe(2, 5, dtype);
    expect_rows(c, {2.5, 3.0});
    expect_lse(c, {1.386294, 1.609438});
    expect_dv(c, {.45, .45, .45, .45, .2});
  }
}

TEST(C01, TopLeftMustBeAskedFor) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 2, .s_k = 5}, dtype);
    c.options.causal = Causal::kTopLeft;
    run(c);
    expect_rows(c, {1.0, 1.5});
    expect_lse(c, {0, 0.693147});
    expect_dv(c, {1.5, .5, 0, 0, 0});
  }
}

TEST(C01, BothAlignmentsOverTileEdges) {
  for (const int64_t s_q : kEdges) {
    for (const int64_t s_k : kEdges) {
      for (const Causal causal : {Causal::kBottomRight, Causal::kTopLeft}) {
        SCOPED_TRACE(testing::Message() << s_q << " x " << s_k << " causal " << int(causal));
        Case c = probe({.s_q = s_q, .s_k = s_k}, DType::kFloat16);
        c.options.causal = causal;
        run(c);
        const int64_t diagonal = causal == Causal::kTopLeft ? 0 : s_k - s_q;
        expect_counts(c, [&](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + diagonal; });
      }
    }
  }
}

// With more queries than keys the first rows see nothing; users suspected a negative block bound
// (flash-attention #1778).
TEST(C02, RowsBeforeTheFirstKeySeeNothing) {
  for (const DType dtype : kFloats) {
    const Case c = causal_probe(5, 2, dtype);
    expect_rows(c, {0, 0, 0, 1, 1.5});
    expect_lse(c, {-kInf, -kInf, -kInf, 0, 0.693147});
    expect_dv(c, {1.5, .5});
    expect_rows_zero(c.dq, "dq", 0, 4);  // row 3 sees one key: no gradient either
    expect_gradients_finite(c);
  }
}

TEST(C02, WholeTilesSeeNothing) {
  for (const DType dtype : kFloats) {
    const Case c = causal_probe(300, 7, dtype);
    expect_counts(c, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i - 293; });
    expect_rows_zero(c.out, "out", 0, 293);
    expect_rows_zero(c.dq, "dq", 0, 293);
    expect_gradients_finite(c);
  }
}

// One query against a cache with the causal flag on: top-left alignment shows it key 0 alone, and
// every decode step returns the same vector (pytorch #144858).
TEST(C03, CausalIsNoOpForOneQuery) {
  for (const DType dtype : kFloats) {
    const Case causal = causal_probe(1, 7, dtype);
    Case full = probe({.s_q = 1, .s_k = 7}, dtype);
    run(full);
    expect_rows(causal, {4.0});
    expect_same_bits(bits_of(causal), bits_of(full));
  }
}

TEST(C03, CausalDecodeWithCacheLengths) {
  for (const DType dtype : kFloats) {
    Case c = probe({.batch = 3, .s_q = 1, .s_k = 16}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.seqused_k = test::indices({1, 7, 16});
    run(c);
    expect_rows(c, {1.0}, 0);
    expect_rows(c, {4.0}, 1);
    expect_rows(c, {8.5}, 2);
  }
}

// A tutorial's backward always applied the triangle, whatever the flag said (triton #4541).
TEST(C05, BackwardHonoursTheCausalFlag) {
  for (const DType dtype : kFloats) {
    Case full = probe({.s_q = 4, .s_k = 4}, dtype);
    run(full);
    expect_dv(full, {1, 1, 1, 1});
    expect_dv(causal_probe(4, 4, dtype), {2.083333, 1.083333, .583333, .25});
  }
}

// Packed causal with far more queries than keys gave NaN in dq (flash-attention #443).
TEST(C06, PackedManyQueriesOfOneKey) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    Case c = probe({.d = 32, .lengths_q = {76, 34, 146}, .lengths_k = {1, 1, 1}}, dtype);
    test::Random random(6);
    c.q.fill_normal(random, 0, 3);
    c.k.fill_normal(random, 0, 3);
    c.options.causal = Causal::kBottomRight;
    run(c);
    expect_zero(c.dq, "dq");
    expect_dv(c, {1, 1, 1});
    for (int64_t row = 0; row < 256; ++row) {
      const double value = row == 75 ? 1 : row == 109 ? 2 : row == 255 ? 3 : 0;
      expect_row(c, row, value);
    }
  }
}

// "sliding_window = W" passed as left = W shows W + 1 keys: the bound is inclusive
// (transformers #39408, vllm #3385).
TEST(C07, WindowBoundsAreInclusive) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 6, .s_k = 6}, dtype);
    c.options.window = {2, 0};
    run(c);
    expect_rows(c, {1, 1.5, 2, 3, 4, 5});
  }
}

TEST(C07, WindowOf128Tokens) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 200, .s_k = 200}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.options.window = {127, 0};
    run(c);
    // bfloat16 can't tell 136.5 from 136; its LSE can tell 128 keys from 129.
    expect_row(c, 199, 136.5);
    EXPECT_NEAR(lse_at(c, 0, 0, 199), std::log(128), 3e-6);
    expect_counts(c, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i && j + 127 >= i; });
  }
}

// Any negative window number was taken as "no limit", without a word (flash-attention #1116).
TEST(C09, NegativeWindowIsAnError) {
  Case c = probe({.s_q = 4, .s_k = 4});
  c.options.causal = Causal::kBottomRight;
  c.options.window = {std::nullopt, -3};
  Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("window right"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("-3"), std::string::npos) << status.message();
  c.options.window = {-2, std::nullopt};
  status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("window left"), std::string::npos) << status.message();
}

// The caller's "-1 = no limit" became an empty band in the kernel: the output was all zero, LSE
// -inf, no error (TransformerEngine #3528). Here "no limit" is an absent bound and nothing else.
TEST(C10, AbsentBoundsMeanNoLimit) {
  const std::array<Window, 4> windows = {Window{std::nullopt, 0}, Window{}, Window{3, 0},
                                         Window{INT64_MAX, INT64_MAX}};
  for (const DType dtype : kFloats) {
    for (const Window& window : windows) {
      Case c = probe({.s_q = 4, .s_k = 4}, dtype);
      c.options.causal = Causal::kBottomRight;
      c.options.window = window;
      run(c);
      expect_rows(c, {1, 1.5, 2, 2.5});
    }
  }
}

// A windowed kernel was right only with K/V heads expanded to the query heads (vllm #17476).
TEST(C11, WindowDoesNotDependOnGrouping) {
  for (const auto& [d, dtype] : {std::pair{64, DType::kFloat32}, {128, DType::kBFloat16}}) {
    Case c = ref64({.s_q = 150, .s_k = 150, .heads_q = 24, .heads_k = 2, .d = d}, dtype);
    c.options.window = {63, 0};
    expect_rows_right(c);
    Case repeated = c;
    repeated.k = repeat_heads(c.k, 12);
    repeated.v = repeat_heads(c.v, 12);
    repeated.dk = repeated.dv = {};
    run_forward(repeated);
    EXPECT_LE(distance(c.out, repeated.out), dtype == DType::kFloat32 ? 2e-6 : 0.008);
    EXPECT_LE(distance(c.lse, repeated.lse), 1e-5);
  }
}

// A left bound alone was passed on without its right one, and each query saw the future
// (jax PR #39576).
TEST(C13, OneSidedWindowHidesTheFuture) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 6, .s_k = 6}, dtype);
    c.options.window = {2, 0};
    test::Random random(13);
    c.q.fill_normal(random);
    run(c);
    const Bits before = bits_of(c);
    for (int64_t column = 0; column < 8; ++column) {
      c.k.set({0, 5, 0, column}, 1e4);
      c.v.set({0, 5, 0, column}, -77);
    }
    run(c);
    const Bits after = bits_of(c);
    const size_t row = 8 * size_of(dtype);
    EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + 5 * row, after.out.begin()));
    EXPECT_TRUE(std::equal(before.dq.begin(), before.dq.begin() + 5 * row, after.dq.begin()));
    EXPECT_FALSE(before.out == after.out);  // row 5 sees key 5
  }
}

// The window was silently ignored where no mask was given (jax #32300).
TEST(C14, RightBoundWithoutCausalCounts) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 8, .s_k = 8}, dtype);
    c.options.window = {0, 3};
    run_forward(c);
    expect_row(c, 0, 2.5);
    expect_row(c, 7, 8);
    c.options.window = {0, 0};
    run_forward(c);
    expect_row(c, 0, 1.0);
    c.options.window = {0, 3};
    c.options.causal = Causal::kBottomRight;  // the triangle limits the right side further
    run_forward(c);
    expect_row(c, 0, 1.0);
  }
}

// Both back ends read past the given lengths (jax #23349).
TEST(C16, KeysPastTheLengthAreInvisible) {
  const std::vector<int64_t> lengths = {24, 125, 53, 28, 77, 96, 13, 114};
  const std::vector<double> expected = {12.5, 63, 27, 14.5, 39, 48.5, 7, 57.5};
  for (const DType dtype : kFloats) {
    Case c = probe({.batch = 8, .s_q = 1, .s_k = 128, .heads_q = 4, .d = 16}, dtype);
    c.seqused_k = test::indices(lengths);
    for (HostTensor* x : {&c.k, &c.v}) {
      x->fill_with([&, x](const Index& i) { return i[1] < lengths[i[0]] ? x->get(i) : kNaN; });
    }
    run(c);
    for (int64_t b = 0; b < 8; ++b) {
      expect_rows(c, {expected[b]}, b);
      expect_rows_zero(c.dk, "dk", lengths[b], 128, b);
      expect_rows_zero(c.dv, "dv", lengths[b], 128, b);
    }
    expect_gradients_finite(c);
  }
}

// ALiBi's sign flipped, and training and cached decode disagreed when Sq != Sk
// (flash-attention #907).
TEST(C17, AlibiIsTheSameInPrefillAndDecode) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    const double tolerance = dtype == DType::kFloat16 ? 2e-3 : 2e-6;
    Case prefill = probe({.s_q = 4, .s_k = 4}, dtype);
    prefill.alibi_slopes = HostTensor::of(DType::kFloat32, {1}, {0.5});
    prefill.options.causal = Causal::kBottomRight;
    run(prefill);
    const std::array<double, 4> expected = {1, 1.622459, 2.320157, 3.084576};
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(prefill.out.get({0, i, 0, 0}), expected[i], tolerance);
    }
    Case decode = probe({.s_q = 1, .s_k = 4}, dtype);
    decode.alibi_slopes = prefill.alibi_slopes;
    run(decode);
    EXPECT_NEAR(decode.out.get({0, 0, 0, 0}), 3.084576, tolerance);
  }
}

// The decode rewrite for grouped heads used the wrong head's slope (flash-attention #907, #1585).
TEST(C17, AlibiTakesTheQueryHeadsSlope) {
  for (const int64_t s_q : {1, 3, 70}) {
    Case c = ref64({.batch = 2, .s_q = s_q, .s_k = 70, .heads_q = 6, .heads_k = 2, .d = 32});
    c.options.causal = Causal::kBottomRight;
    c.alibi_slopes = HostTensor(DType::kFloat32, {6}).fill_with([](const Index& i) {
      return std::ldexp(1, static_cast<int>(-i[0] - 1));
    });
    test::expect_right(c);
    Case repeated = c;
    repeated.k = repeat_heads(c.k, 3);
    repeated.v = repeat_heads(c.v, 3);
    run_forward(repeated);
    EXPECT_LE(distance(c.out, repeated.out), 2e-6);
    // [batch, heads] slopes, another set for the second batch entry.
    Case per_batch = c;
    per_batch.alibi_slopes = HostTensor(DType::kFloat32, {2, 6}).fill_with([](const Index& i) {
      return 0.05 * static_cast<double>(1 + i[1] + 6 * i[0]);
    });
    test::expect_right(per_batch);
  }
}

}  // namespace
}  // namespace fa4::cases
