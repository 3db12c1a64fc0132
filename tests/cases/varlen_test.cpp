// SPDX-License-Identifier: BSD-3-Clause
// Packed sequences: empty ones, slack rows, malformed lengths, left padding.
#include <deque>

#include "cases/case_helpers.h"
#include "cases/mapped_memory.h"

namespace fa4::cases {
namespace {

// Segments without queries: the separate d 256 kernel read an illegal address in the backward
// (flash-attention #2562).
TEST(C33, SegmentsWithoutQueries) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t d : {64, 128, 256}) {
      for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
        Case c = ref64({.heads_q = 4,
                        .heads_k = 1,
                        .d = d,
                        .lengths_q = {0, 3, 5, 0},
                        .lengths_k = {4, 5, 3, 4}},
                       dtype);
        c.options.causal = causal;
        test::expect_right(c);
        for (const auto& [begin, end] : {std::pair{0, 4}, {12, 16}}) {
          expect_rows_zero(c.dk, "dk", begin, end);
          expect_rows_zero(c.dv, "dv", begin, end);
        }
      }
    }
  }
}

TEST(C33, SegmentsWithoutKeys) {
  for (const DType dtype : kFloats) {
    Case c = probe({.heads_q = 2, .lengths_q = {3, 2, 4}, .lengths_k = {2, 0, 3}}, dtype);
    run(c);
    expect_rows(c, {1.5, 1.5, 1.5, 0, 0, 4, 4, 4, 4});
    const double two = std::log(2), three = std::log(3);
    expect_lse(c, {two, two, two, -kInf, -kInf, three, three, three, three});
    expect_rows_zero(c.dq, "dq", 3, 5);
    expect_gradients_finite(c);
  }
}

TEST(C33, NothingAtAll) {
  for (const DType dtype : kFloats) {
    Case empty = probe({.lengths_q = {0, 0}, .lengths_k = {0, 0}}, dtype);
    run(empty);
    Case no_sequences = empty;
    no_sequences.cu_seqlens_q = no_sequences.cu_seqlens_k = test::indices({0});
    run(no_sequences);
    Case no_batch = probe({.batch = 0, .s_q = 3, .s_k = 4}, dtype);
    run(no_batch);
    Case no_rows = probe({.batch = 2, .s_q = 0, .s_k = 4}, dtype);
    run(no_rows);
    expect_zero(no_rows.dk, "dk");
    expect_zero(no_rows.dv, "dv");
    Case no_keys = probe({.batch = 2, .s_q = 3, .s_k = 0}, dtype);
    run(no_keys);
    expect_rows(no_keys, {0, 0, 0}, 1);
    expect_lse(no_keys, {-kInf, -kInf, -kInf}, 1);
    expect_zero(no_keys.dq, "dq");
  }
}

// The backward never returned when segments were empty (flash-attention #1254). A hang here is the
// test runner's to end.
TEST(C34, EmptySegmentsReturn) {
  for (const int64_t d : {8, 32, 64, 96, 128, 160, 192, 256}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      Case c = ref64({.d = d, .lengths_q = {0, 0, 7}, .lengths_k = {0, 1, 13}});
      c.options.causal = causal;
      test::expect_right(c);
      expect_rows_zero(c.dk, "dk", 0, 1);
    }
  }
}

// Fewer tokens than sequences was an error (flash-attention #1619).
TEST(C36, FewerTokensThanSequences) {
  for (const DType dtype : kFloats) {
    Case c = probe({.heads_q = 21,
                    .heads_k = 7,
                    .d = 120,
                    .lengths_q = {0, 0, 0, 1},
                    .lengths_k = {0, 0, 0, 1}},
                   dtype);
    run(c);
    expect_rows(c, {1});
    expect_lse(c, {0});
    expect_dv(c, {1});
  }
}

/// Three sequences in a buffer of 61 rows, the last two of which belong to none.
Case with_slack_rows(DType dtype) {
  Case c = ref64({.heads_q = 16, .d = 64, .lengths_q = {9, 18, 32, 2}, .lengths_k = {9, 18, 32, 2}},
                 dtype);
  c.cu_seqlens_q = c.cu_seqlens_k = test::cu_seqlens_of({9, 18, 32});
  for (HostTensor* x : {&c.q, &c.k, &c.v, &c.dout}) {
    x->fill_with([x](const Index& i) { return i[0] < 59 ? x->get(i) : kNaN; });
  }
  return c;
}

// Gradients of rows past the last sequence were uninitialised memory, and NaN flowed into all
// weight gradients (pytorch #176793).
TEST(C37, SlackRowsAreZero) {
  for (const DType dtype : kFloats) {
    Case c = with_slack_rows(dtype);
    c.options.causal = Causal::kBottomRight;
    test::expect_right(c);
    for (const HostTensor* x : {&c.out, &c.dq, &c.dk, &c.dv}) expect_rows_zero(*x, "slack", 59, 61);
    for (int64_t h = 0; h < 16; ++h) {
      EXPECT_EQ(lse_at(c, 0, h, 59), -kInf);
      EXPECT_EQ(lse_at(c, 0, h, 60), -kInf);
    }
  }
}

TEST(C37, RowsPastTheUsedLengthAreZero) {
  for (const DType dtype : kFloats) {
    Case c = with_slack_rows(dtype);
    c.seqused_q = test::indices({4, 18, 0});
    c.seqused_k = test::indices({9, 0, 32});
    test::expect_right(c);
    for (const HostTensor* x : {&c.out, &c.dq}) {
      expect_rows_zero(*x, "past the used length", 4, 61);  // sequence 1 has no keys, 2 no rows
    }
    for (const HostTensor* x : {&c.dk, &c.dv}) expect_rows_zero(*x, "unseen key", 9, 61);
  }
}

/// What the forward says to these lengths, with 8 rows on both sides.
std::string complaint(const HostTensor& cu, const AttentionOptions& options = {}) {
  Case c = probe({.lengths_q = {3, 5}, .lengths_k = {3, 5}});
  c.cu_seqlens_q = cu;
  c.options = options;
  const Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
  return status.message();
}

void expect_mentions(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
}

// Malformed cu_seqlens corrupted boundary rows, or faulted later, or "worked" (sgl-flash-attn PR
// #47, flash-attention #1773).
TEST(C38, MalformedLengthsAreNamed) {
  using test::indices;
  expect_mentions(complaint(indices({1, 3, 8})), {"cu_seqlens_q[0]", "1", "0"});
  expect_mentions(complaint(indices({0, 5, 3})), {"cu_seqlens_q[2]", "3", "5"});
  expect_mentions(complaint(indices({0, 3, 9})), {"cu_seqlens_q[2]", "9", "8"});
  AttentionOptions at_most_4;
  at_most_4.max_seqlen_q = 4;
  expect_mentions(complaint(indices({0, 3, 8}), at_most_4), {"max_seqlen_q", "4", "5"});
  expect_mentions(complaint(indices({0, -3, 8})), {"cu_seqlens_q[1]", "-3"});
  expect_mentions(complaint(HostTensor::of(DType::kFloat32, {3}, {0, 3, 8})),
                  {"cu_seqlens_q", "float32", "int32", "int64"});
  expect_mentions(complaint(HostTensor::of(DType::kBool, {3}, {0, 1, 1})),
                  {"cu_seqlens_q", "bool", "int32", "int64"});
  expect_mentions(complaint(indices({0, int64_t{1} << 40, 8}, DType::kInt64)),
                  {"cu_seqlens_q[1]", "1099511627776"});
}

TEST(C38, MalformedLengthsInTheBackward) {
  Case c = probe({.lengths_q = {3, 5}, .lengths_k = {3, 5}});
  must(c.forward());
  c.cu_seqlens_k = test::indices({0, 3, 9});
  expect_mentions(c.backward().message(), {"cu_seqlens_k[2]", "9", "8"});
  c.cu_seqlens_k = test::indices({0, 3, 8});
  c.seqused_k = test::indices({4, 5});
  expect_mentions(c.backward().message(), {"seqused_k[0]", "4", "3"});
  c.seqused_k = {};
  c.start_q = test::indices({0, 6});
  expect_mentions(c.backward().message(), {"start_q[1]", "6", "5"});
}

TEST(C38, BothIntegerTypesAndNoMaximum) {
  Case c = ref64({.heads_q = 2, .lengths_q = {3, 5}, .lengths_k = {4, 70}});
  run(c);
  const Bits bits = bits_of(c);
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    for (const int64_t longest : {-1, 70, 1000}) {  // -1: absent, as callers should leave it
      Case other = c;
      other.cu_seqlens_q = test::cu_seqlens_of({3, 5}, dtype);
      other.cu_seqlens_k = test::cu_seqlens_of({4, 70}, dtype);
      if (longest > 0) other.options.max_seqlen_q = other.options.max_seqlen_k = longest;
      run(other);
      expect_same_bits(bits, bits_of(other));
    }
  }
}

// One packed sequence: the forward matched on one architecture, dq did not
// (TransformerEngine #3333).
TEST(C41, OnePackedSequenceForwardAndBackward) {
  for (const DType dtype : kFloats) {
    Case c =
        ref64({.heads_q = 4, .heads_k = 2, .d = 64, .lengths_q = {150}, .lengths_k = {150}}, dtype);
    c.options.causal = Causal::kBottomRight;
    test::expect_right(c);
  }
}

// Scratch was sized with one tile and indexed with another: enough sequences pass its end
// (flash-attention PR #2337). Case guards the workspace, which has just the plan's size.
TEST(C42, ManySequencesOneLongerThanATile) {
  const std::vector<int64_t> lengths(64, 65);
  Case c = ref64({.d = 64, .lengths_q = lengths, .lengths_k = lengths}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  test::expect_right(c);
}

TEST(C42, ManySequencesOfRandomLength) {
  test::Random random(42);
  std::uniform_int_distribution<int64_t> length(1, 130);
  std::vector<int64_t> lengths(200);
  for (int64_t& x : lengths) x = length(random);
  Case c = ref64({.d = 16, .lengths_q = lengths, .lengths_k = lengths});
  c.options.causal = Causal::kBottomRight;
  test::expect_right(c);
}

// Surplus work items read cu_seqlens past its end (flash-attention PR #2333). All inputs here end
// where memory ends.
TEST(C43, NothingIsReadPastTheEnd) {
  for (const DType dtype : kFloats) {
    for (const int64_t d : {3, 8, 40}) {
      std::vector<int64_t> lengths(60);
      for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int64_t>(i % 4);
      lengths.push_back(67);
      Case c = ref64({.heads_q = 2, .d = d, .lengths_q = lengths, .lengths_k = lengths}, dtype);
      c.options.causal = Causal::kBottomRight;
      run(c);
      std::deque<AtPageEnd> kept;
      const auto at_end = [&](const HostTensor& x) { return kept.emplace_back(x).view(); };
      AttentionTensors t;
      t.q = at_end(c.q), t.k = at_end(c.k), t.v = at_end(c.v);
      t.cu_seqlens_q = at_end(c.cu_seqlens_q), t.cu_seqlens_k = at_end(c.cu_seqlens_k);
      t.out = at_end(c.out), t.lse = at_end(c.lse);
      AttentionGradients g;
      g.dout = at_end(c.dout);
      g.dq = at_end(c.dq), g.dk = at_end(c.dk), g.dv = at_end(c.dv);
      must(attention(t, c.options));
      must(attention_backward(t, g, c.options));
      EXPECT_TRUE(gather(t.out) == c.out.bytes());
      EXPECT_TRUE(gather(g.dq) == c.dq.bytes());
      EXPECT_TRUE(gather(g.dk) == c.dk.bytes());
      EXPECT_TRUE(gather(g.dv) == c.dv.bytes());
    }
  }
}

// Left-padded batches attended to the padding, or overflowed where -inf was added twice
// (flash-attention #487, transformers PR #27114).
TEST(C45, LeftPadding) {
  for (const DType dtype : kFloats) {
    for (const bool pad_queries : {true, false}) {
      Case c = probe({.batch = 2, .s_q = 5, .s_k = 5}, dtype);
      c.options.causal = Causal::kBottomRight;
      c.start_k = test::indices({2, 0});
      if (pad_queries) c.start_q = test::indices({2, 0});
      for (HostTensor* x : {&c.k, &c.v}) {
        x->fill_with([x](const Index& i) { return i[0] == 0 && i[1] < 2 ? kNaN : x->get(i); });
      }
      if (pad_queries) {
        c.q.fill_with([&](const Index& i) { return i[0] == 0 && i[1] < 2 ? kNaN : 0; });
      }
      run(c);
      expect_rows(c, {0, 0, 3, 3.5, 4}, 0);
      expect_rows(c, {1, 1.5, 2, 2.5, 3}, 1);
      expect_lse(c, {-kInf, -kInf, 0, std::log(2), std::log(3)}, 0);
      expect_dv(c, {0, 0, 1 + 1 / 2. + 1 / 3., 1 / 2. + 1 / 3., 1 / 3.}, 0);
      expect_gradients_finite(c);
    }
  }
}

TEST(C45, LeftPaddingAndAShorterEnd) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.batch = 3, .s_q = 70, .s_k = 90, .heads_q = 2, .d = 16}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.options.window = {20, 5};
    c.start_q = test::indices({0, 3, 66}), c.seqused_q = test::indices({70, 65, 66});
    c.start_k = test::indices({17, 0, 5}), c.seqused_k = test::indices({90, 64, 88});
    test::expect_right(c);
    c.options.causal = Causal::kTopLeft;
    test::expect_right(c);
  }
}

}  // namespace
}  // namespace fa4::cases
