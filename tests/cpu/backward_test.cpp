// SPDX-License-Identifier: BSD-3-Clause
// The CPU backward pass: exact probes, the oracle over every feature, and the same bits for every
// number of threads.
#include <fa4/attention.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/case.h"
#include "support/numbers.h"

namespace fa4::test {
namespace {

/// Runs both passes without asking the oracle.
void run(Case& c) {
  const Status forward = c.forward();
  ASSERT_TRUE(forward.ok()) << forward.message();
  const Status backward = c.backward();
  ASSERT_TRUE(backward.ok()) << backward.message();
}

void expect_values(const HostTensor& x, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = x.values();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

void expect_all(const HostTensor& x, double expected) {
  for (const double value : x.values()) ASSERT_EQ(value, expected);
}

HostTensor bools(Dims dims, const std::function<bool(const Index&)>& sees) {
  return HostTensor(DType::kBool, std::move(dims)).fill_with([&](const Index& i) {
    return sees(i) ? 1.0 : 0.0;
  });
}

HostTensor normal(DType dtype, Dims dims, uint64_t seed) {
  Random random(seed);
  return HostTensor(dtype, std::move(dims)).fill_normal(random);
}

std::vector<std::byte> bits_of(const Case& c) {
  std::vector<std::byte> bits;
  for (const HostTensor* x : {&c.dq, &c.dk, &c.dv, &c.dbias, &c.dsink}) {
    if (!x->present()) continue;
    const std::vector<std::byte> bytes = x->bytes();
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

void expect_same_bits_for_any_threads(Case& c) {
  c.options.threads = 1;
  run(c);
  const std::vector<std::byte> alone = bits_of(c);
  for (const int threads : {2, 3, 4, 8}) {
    c.options.threads = threads;
    run(c);
    EXPECT_TRUE(bits_of(c) == alone) << threads << " threads";
  }
}

// ---- exact probes ----

TEST(CpuBackward, CausalProbesGiveOneOverTheKeysSeen) {
  Case c = probe({.s_q = 2, .s_k = 5});
  c.options.causal = Causal::kBottomRight;
  run(c);
  for (int j = 0; j < 5; ++j) EXPECT_NEAR(c.dv.get({0, j, 0, 0}), j < 4 ? .45 : .2, 1e-6);
  expect_all(c.dk, 0);

  Case square = probe({.s_q = 4, .s_k = 4});
  run(square);
  for (int j = 0; j < 4; ++j) EXPECT_NEAR(square.dv.get({0, j, 0, 3}), 1, 1e-6);
  square.options.causal = Causal::kBottomRight;
  run(square);
  const double expected[] = {25. / 12, 13. / 12, 7. / 12, .25};
  for (int j = 0; j < 4; ++j) EXPECT_NEAR(square.dv.get({0, j, 0, 7}), expected[j], 1e-6);
}

TEST(CpuBackward, RowsThatSeeNoKeyGiveZero) {
  for (const int64_t s_q : {5, 300}) {
    Case c = probe({.s_q = s_q, .s_k = 2});
    c.options.causal = Causal::kBottomRight;
    for (int64_t i = 0; i < s_q - 2; ++i) c.dout.set({0, i, 0, 0}, kNaN);
    run(c);
    EXPECT_NEAR(c.dv.get({0, 0, 0, 1}), 1.5, 1e-6);
    EXPECT_NEAR(c.dv.get({0, 1, 0, 0}), .5, 1e-6);
    for (int64_t i = 0; i < s_q - 2; ++i) ASSERT_EQ(c.dq.get({0, i, 0, 0}), 0);
  }
}

TEST(CpuBackward, MaskedRowsAndKeysGiveExactlyZero) {
  Case c = probe({.s_q = 8, .s_k = 8});
  c.mask = bools({1, 1, 8, 8}, [](const Index& i) { return i[2] < 4 && i[3] < 4; });
  // Nobody sees these keys, and these rows see nobody: what is in them must not matter.
  for (int64_t j = 4; j < 8; ++j) {
    for (HostTensor* x : {&c.q, &c.k, &c.v, &c.dout})
      x->set({0, j, 0, 2}, j == 5 ? kInfinity : kNaN);
  }
  run(c);
  for (int64_t j = 0; j < 8; ++j) {
    for (int64_t e = 0; e < 8; ++e) {
      ASSERT_NEAR(c.dv.get({0, j, 0, e}), j < 4 ? 1 : 0, 1e-6);
      ASSERT_EQ(c.dk.get({0, j, 0, e}), 0);
      ASSERT_TRUE(j < 4 || c.dq.get({0, j, 0, e}) == 0);
      ASSERT_TRUE(j < 4 || c.dv.get({0, j, 0, e}) == 0);
    }
  }
}

TEST(CpuBackward, KeysThatABiasHidesMayHoldNaN) {
  Case c = ref64({.s_q = 5, .s_k = 7, .d = 6});
  c.bias = normal(DType::kFloat32, {1, 1, 1, 7}, 4);
  c.bias.set({0, 0, 0, 3}, -kInfinity);
  for (HostTensor* x : {&c.k, &c.v}) x->set({0, 3, 0, 1}, kNaN);
  run(c);
  for (int64_t e = 0; e < 6; ++e) {
    EXPECT_EQ(c.dk.get({0, 3, 0, e}), 0);
    EXPECT_EQ(c.dv.get({0, 3, 0, e}), 0);
    for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(std::isfinite(c.dq.get({0, i, 0, e})));
  }
  for (HostTensor* x : {&c.k, &c.v}) x->set({0, 3, 0, 1}, 1);
  expect_right(c);
}

TEST(CpuBackward, SoftcapHasItsSlope) {
  Case c = probe({.s_q = 1, .s_k = 2, .d = 1, .d_v = 1});
  c.options.softcap = 2;
  c.q.fill(1);
  c.k.fill({0, 4});
  c.v.fill({0, 1});
  run(c);
  expect_values(c.dk, {-0.110846, 0.007831}, 1e-6);
}

TEST(CpuBackward, SinkHasItsGradient) {
  Case c = probe({.s_q = 1, .s_k = 3, .d = 4, .d_v = 1});
  c.sink = HostTensor::of(DType::kFloat32, {1}, {0});
  run(c);
  expect_values(c.dsink, {-0.375}, 1e-6);
  // A row with no key: lse is the sink, but the row gives nothing to any gradient.
  Case empty = probe({.s_q = 2, .s_k = 1, .d = 4, .d_v = 1});
  empty.options.causal = Causal::kBottomRight;
  empty.sink = HostTensor::of(DType::kFloat32, {1}, {-2});
  empty.dlse = HostTensor::of(DType::kFloat32, {1, 1, 2}, {.25, 0});
  empty.dout.fill({kNaN, 0});
  run(empty);
  expect_values(empty.dsink, {0}, 0);
  expect_values(empty.dv, {0}, 0);
  // The same by a mask, which only a look at it tells from a row whose sink outweighs its keys.
  Case masked = ref64({.s_q = 40, .s_k = 30, .d = 4});
  masked.sink = HostTensor::of(DType::kFloat32, {1}, {40});
  masked.mask = bools({1, 1, 40, 30}, [](const Index& i) { return i[2] % 3 != 0; });
  masked.dlse = normal(DType::kFloat32, {1, 1, 40}, 6);
  masked.dout.set({0, 3, 0, 1}, kNaN);
  masked.q.set({0, 6, 0, 1}, kNaN);
  expect_right(masked);
}

TEST(CpuBackward, GradientThroughTheLse) {
  Case c = probe({.s_q = 1, .s_k = 3, .d = 1, .d_v = 1});
  c.k.fill({1, 2, 3});
  c.dout.fill(0);
  c.dlse = HostTensor::of(DType::kFloat32, {1, 1, 1}, {1});
  run(c);
  expect_values(c.dq, {2}, 1e-6);
  expect_all(c.dk, 0);
}

TEST(CpuBackward, StdThreeInputsInHalfStayFinite) {
  Case c = ref64({.s_q = 256, .s_k = 256, .d = 128}, DType::kFloat16);
  Random random(11);
  for (HostTensor* x : {&c.q, &c.k, &c.v}) x->fill_normal(random, 0, 3);
  c.options.causal = Causal::kBottomRight;
  expect_right(c);
}

TEST(CpuBackward, OneKeyASegmentGivesNoGradientToQ) {
  Case c = probe({.d = 32, .lengths_q = {76, 34, 146}, .lengths_k = {1, 1, 1}}, DType::kFloat16);
  Random random(2);
  c.q.fill_normal(random, 0, 3);
  c.options.causal = Causal::kBottomRight;
  run(c);
  expect_all(c.dv, 1);
  for (const double x : c.dq.values()) ASSERT_NEAR(x, 0, 2e-3);
}

// ---- shapes ----

TEST(CpuBackward, TileEdges) {
  for (const int64_t s_q : {1, 2, 95, 96, 97, 193}) {
    for (const int64_t s_k : {1, 17, 96, 97, 200}) {
      Case c = ref64({.s_q = s_q, .s_k = s_k, .heads_q = 2, .heads_k = 1, .d = 9, .d_v = 20});
      c.options.causal = (s_q + s_k) % 2 != 0 ? Causal::kBottomRight : Causal::kNone;
      expect_right(c);
    }
  }
}

TEST(CpuBackward, HeadDims) {
  for (const int64_t d : {1, 7, 17, 64, 65, 127, 128, 255, 256}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      Case c = ref64({.s_q = 37, .s_k = 50, .d = d, .d_v = 257 - d}, dtype);
      expect_right(c);
    }
  }
}

TEST(CpuBackward, GroupsOfHeads) {
  for (const auto& [heads_q, heads_k] : {std::pair{14, 2}, {6, 1}, {5, 5}, {64, 1}, {71, 1}}) {
    for (const int64_t s : {1, 3, 65}) {
      Case c = ref64({.s_q = s, .s_k = 2 * s, .heads_q = heads_q, .heads_k = heads_k, .d = 8});
      c.options.causal = Causal::kBottomRight;
      expect_right(c);
    }
  }
}

TEST(CpuBackward, WindowsAndBothAlignments) {
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
    for (const int64_t left : {0, 3, 70, 1000}) {
      for (const int64_t right : {-1, 0, 5, 130}) {
        Case c = ref64({.s_q = 150, .s_k = left == 70 ? 310 : 120, .d = 8});
        c.options.causal = causal;
        c.options.window.left = left;
        if (right >= 0) c.options.window.right = right;
        expect_right(c);
      }
    }
  }
}

TEST(CpuBackward, EmptySegmentsAndSlackRows) {
  for (const int64_t d : {64, 256}) {
    Case c = ref64(
        {.heads_q = 4, .heads_k = 1, .d = d, .lengths_q = {0, 3, 5, 0}, .lengths_k = {4, 5, 3, 4}},
        DType::kBFloat16);
    expect_right(c);
    for (const int64_t j : {0, 3, 12, 15}) {
      for (int64_t e = 0; e < d; ++e) ASSERT_EQ(c.dk.get({j, 0, e}), 0);
    }
  }
  Case slack =
      ref64({.heads_q = 2, .d = 16, .lengths_q = {9, 18, 32, 2}, .lengths_k = {9, 18, 32, 2}});
  slack.cu_seqlens_q = cu_seqlens_of({9, 18, 32});
  slack.cu_seqlens_k = cu_seqlens_of({9, 18, 32}, DType::kInt64);
  for (HostTensor* x : {&slack.q, &slack.k, &slack.v, &slack.dout}) x->set({60, 1, 3}, kNaN);
  slack.options.causal = Causal::kBottomRight;
  expect_right(slack);
  for (const HostTensor* x : {&slack.dq, &slack.dk, &slack.dv}) {
    for (int64_t e = 0; e < 16; ++e) ASSERT_EQ(x->get({60, 1, e}), 0);
  }
}

TEST(CpuBackward, ManySequences) {
  std::vector<int64_t> lengths(64, 65);
  Random random(3);
  for (int i = 0; i < 100; ++i) lengths.push_back(static_cast<int64_t>(random() % 131));
  Case c = ref64({.heads_q = 2, .d = 8, .lengths_q = lengths, .lengths_k = lengths});
  c.options.threads = 3;
  expect_right(c);
}

TEST(CpuBackward, ManyUnitsOfLargeGroups) {
  // Enough units for chunks of several tiles, with rows for one.
  Case c = ref64({.batch = 40, .s_q = 21, .s_k = 30, .heads_q = 16, .heads_k = 2, .d = 4});
  expect_right(c);
}

TEST(CpuBackward, UsedLengthsAndStartOffsets) {
  Case c = ref64({.batch = 3, .s_q = 40, .s_k = 130, .heads_q = 2, .d = 12});
  c.seqused_q = indices({40, 0, 17});
  c.seqused_k = indices({128, 9, 100}, DType::kInt64);
  c.start_q = indices({5, 0, 16});
  c.start_k = indices({0, 9, 97});
  c.options.causal = Causal::kBottomRight;
  for (int64_t e = 0; e < 12; ++e) {
    c.k.set({0, 129, 0, e}, kNaN);
    c.v.set({2, 96, 1, e}, kNaN);
    c.q.set({0, 4, 0, e}, kNaN);
    c.dout.set({2, 18, 1, e}, kNaN);
  }
  expect_right(c);
}

TEST(CpuBackward, NothingAtAll) {
  Case no_rows = ref64({.heads_q = 2, .d = 4, .lengths_q = {0, 0}, .lengths_k = {0, 3}});
  no_rows.cu_seqlens_q = cu_seqlens_of({0, 0});
  expect_right(no_rows);
  Case no_batch = ref64({.batch = 0, .s_q = 3, .s_k = 4});
  expect_right(no_batch);
}

// ---- strides ----

TEST(CpuBackward, StridesOfEveryTensor) {
  Case c = ref64({.batch = 2, .s_q = 33, .s_k = 33, .heads_q = 4, .heads_k = 2, .d = 10});
  c.options.causal = Causal::kBottomRight;
  run(c);
  Case t = c;
  const auto transposed = [](const HostTensor& x) {
    return x.with_strides(strides_in_order(x.dims(), {0, 2, 1, 3}));
  };
  const auto by_columns = [](const HostTensor& x) {
    return x.with_strides(strides_in_order(x.dims(), {0, 3, 2, 1}));
  };
  t.q = by_columns(c.q), t.k = transposed(c.k), t.v = by_columns(c.v);
  t.out = by_columns(c.out), t.dout = transposed(c.dout);
  t.lse = c.lse.with_strides(strides_in_order(c.lse.dims(), {2, 0, 1}));
  t.dq = transposed(c.dq), t.dk = by_columns(c.dk), t.dv = transposed(c.dv);
  run(t);
  EXPECT_TRUE(bits_of(t) == bits_of(c));
}

TEST(CpuBackward, BroadcastOutputGradient) {
  Case c = probe({.s_q = 4, .s_k = 4, .heads_q = 2});
  c.dout = HostTensor(DType::kFloat32, {1, 4, 2, 8}, {0, 0, 0, 0}).fill(1);
  run(c);
  for (const double x : c.dv.values()) EXPECT_NEAR(x, 1, 1e-6);
}

// ---- the other features ----

TEST(CpuBackward, BiasBroadcastOverEverySetOfDims) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (int set = 0; set < 16; ++set) {
      Case c = ref64({.batch = 2, .s_q = 100, .s_k = 99, .heads_q = 4, .heads_k = 2, .d = 5},
                     DType::kFloat32, 7);
      c.bias = normal(dtype,
                      {(set & 1) != 0 ? 1 : 2, (set & 2) != 0 ? 1 : 4, (set & 4) != 0 ? 1 : 100,
                       (set & 8) != 0 ? 1 : 99},
                      8);
      c.options.causal = set % 3 == 0 ? Causal::kBottomRight : Causal::kNone;
      c.options.softcap = set % 5 == 0 ? 1.5 : 0;
      expect_right(c);
    }
  }
}

TEST(CpuBackward, BiasOverPackedSequences) {
  Case c = ref64({.heads_q = 2, .d = 8, .lengths_q = {3, 0, 110}, .lengths_k = {7, 4, 101}});
  c.bias = normal(DType::kFloat32, {3, 1, 115, 105}, 5);
  expect_right(c);
}

TEST(CpuBackward, EverythingTogether) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16}) {
    Case c =
        ref64({.batch = 2, .s_q = 101, .s_k = 131, .heads_q = 4, .heads_k = 2, .d = 24, .d_v = 40},
              dtype, 21);
    c.options.causal = Causal::kBottomRight;
    c.options.window.left = 77;
    c.options.softcap = 2;
    c.options.scale = -0.3;
    c.options.dropout_p = 0.25;
    c.options.dropout_seed = 0x123456789AULL;
    c.bias = normal(DType::kFloat32, {1, 4, 101, 131}, 22);
    c.mask = bools({2, 1, 101, 131}, [](const Index& i) { return (i[0] + i[2] * i[3]) % 5 != 0; });
    c.alibi_slopes = HostTensor::of(DType::kFloat32, {4}, {.5, -.125, 0, .25});
    c.sink = normal(DType::kBFloat16, {4}, 23);
    c.dlse = normal(dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, {2, 4, 101}, 24);
    expect_right(c);
  }
}

TEST(CpuBackward, DropoutDropsWhatTheForwardDropped) {
  Case c = onehot({.s_q = 64, .s_k = 100, .d = 16});
  c.options.dropout_p = 0.5;
  c.dout.fill(1);
  run(c);
  // dv[j] = sum of the row's dropped probabilities over rows, each in every column of dout = 1.
  for (int64_t j = 0; j < 100; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < 64; ++i) sum += c.out.get({0, i, 0, j});
    EXPECT_NEAR(c.dv.get({0, j, 0, 0}), sum, 1e-5);
  }
  expect_right(c);
}

// ---- the order of sums ----

TEST(CpuBackward, SameBitsForAnyNumberOfThreads) {
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
    Case c = ref64({.s_q = 500, .s_k = 700, .heads_q = 3, .heads_k = 1, .d = 16});
    c.options.causal = causal;
    expect_same_bits_for_any_threads(c);
  }
  Case packed = ref64(
      {.heads_q = 2, .d = 8, .lengths_q = {300, 1, 0, 200, 40}, .lengths_k = {200, 5, 3, 400, 41}},
      DType::kBFloat16);
  packed.options.window.left = 100;
  packed.bias = normal(DType::kFloat32, {1, 2, 1, 400}, 3);
  packed.sink = normal(DType::kFloat32, {2}, 3);
  expect_same_bits_for_any_threads(packed);
}

}  // namespace
}  // namespace fa4::test
