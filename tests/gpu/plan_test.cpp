// SPDX-License-Identifier: BSD-3-Clause
// The GPU backend on a GPU, through the public interface, judged by the oracle. Without a GPU that
// it supports every test skips, with the reason.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/case.h"
#include "support/gpu_case.h"

namespace fa4::gpu {
namespace {

using test::Case;
using test::HostTensor;
using test::Shape;

class GpuPlan : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = test::why_no_forward(Device::cuda(0));
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
  void expect_right(Case& c) {
    c.device = Device::cuda(0);
    const Status status = c.forward();
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message();
    EXPECT_EQ(c.judge_forward(), "") << c.name;
  }
};

/// NaN in the rows of k and v for which `hidden` says so.
template <class Hidden>
void spoil_keys(Case& c, const Hidden& hidden) {
  for (HostTensor* t : {&c.k, &c.v}) {
    const HostTensor clean = *t;
    t->fill_with([&](const test::Index& at) {
      return hidden(at) ? std::numeric_limits<double>::quiet_NaN() : clean.get(at);
    });
  }
}

constexpr DType kDtypes[] = {DType::kBFloat16, DType::kFloat16};

TEST_F(GpuPlan, EveryHeadDim) {
  for (const int64_t d : {8, 40, 72, 80, 104, 136, 200, 248}) {
    Case c = test::ref64({.batch = 2, .s_q = 130, .s_k = 150, .heads_q = 2, .d = d},
                         kDtypes[d / 8 % 2], static_cast<uint64_t>(d));
    expect_right(c);
    if (HasFatalFailure()) return;
  }
  for (const auto& [d, d_v] : {std::pair{192, 128}, {64, 256}, {256, 64}, {128, 192}, {8, 128}}) {
    Case c = test::ref64({.s_q = 100, .s_k = 300, .d = d, .d_v = d_v}, DType::kBFloat16);
    c.options.causal = Causal::kBottomRight;
    expect_right(c);
  }
}

TEST_F(GpuPlan, EveryMaskAndLength) {
  uint64_t seed = 1;
  for (const auto& [s_q, s_k] : {std::pair{1, 1},
                                 {1, 300},
                                 {64, 64},
                                 {65, 127},
                                 {193, 128},
                                 {400, 129},
                                 {129, 400},
                                 {3, 0}}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
      for (const int64_t window : {-1, 0, 50}) {
        Case c = test::ref64({.batch = 2,
                              .s_q = s_q,
                              .s_k = s_k,
                              .heads_q = 2,
                              .heads_k = 1,
                              .d = seed % 2 == 0 ? 64 : 128},
                             kDtypes[seed % 2], seed);
        ++seed;
        c.options.causal = causal;
        if (window >= 0) c.options.window = {window, window / 2};
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuPlan, ManyTilesOfEveryKernel) {
  for (const auto& [d, d_v] :
       {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      Case c = test::ref64(
          {.batch = 3, .s_q = 300, .s_k = 400, .heads_q = 6, .heads_k = 3, .d = d, .d_v = d_v},
          DType::kBFloat16, static_cast<uint64_t>(d));
      c.options.causal = causal;
      expect_right(c);
      if (HasFatalFailure()) return;
    }
  }
}

// Whole tiles of a pair, half tiles of two heads and of one alone, two query heads of a key head.
TEST_F(GpuPlan, PairsOfCtas) {
  struct Paired {
    Shape shape;
    Causal causal;
    std::optional<int64_t> left;
  };
  constexpr int64_t kKeys = 6200;
  const Paired all[] = {
      {{.s_q = 390, .s_k = kKeys, .d = 128}, Causal::kNone, {}},
      {{.s_q = 450, .s_k = kKeys, .heads_q = 3, .d = 128}, Causal::kNone, {}},
      {{.s_q = 200, .s_k = kKeys, .heads_q = 4, .heads_k = 2, .d = 128}, Causal::kNone, {}},
      {{.s_q = 300, .s_k = kKeys, .d = 128}, Causal::kBottomRight, {}},
      {{.s_q = 300, .s_k = kKeys, .heads_q = 2, .d = 64}, Causal::kTopLeft, 90},
      {{.batch = 2, .s_q = 450, .s_k = kKeys, .d = 64}, Causal::kNone, {}},
      {{.s_q = 70, .s_k = kKeys, .heads_q = 6, .heads_k = 2, .d = 64}, Causal::kBottomRight, {}},
      {{.s_q = 200, .s_k = kKeys, .d = 192, .d_v = 128}, Causal::kNone, {}},
      {{.s_q = 390, .s_k = kKeys, .d = 192, .d_v = 128}, Causal::kBottomRight, {}},
  };
  uint64_t seed = 1;
  for (const Paired& paired : all) {
    Case c = test::ref64(paired.shape, kDtypes[seed % 2], seed);
    ++seed;
    c.options.causal = paired.causal;
    c.options.window.left = paired.left;
    c.device = Device::cuda(0);
    const auto plan = Plan::make(AttentionProblem::forward(c.tensors(), c.options), c.device);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_NE(plan->describe().find("pairs of CTAs"), std::string::npos) << plan->describe();
    expect_right(c);
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuPlan, ExactProbes) {
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
    Case c =
        test::probe({.batch = 2, .s_q = 200, .s_k = 230, .heads_q = 2, .d = 64}, DType::kFloat16);
    c.options.causal = causal;
    expect_right(c);
    Case h = test::onehot({.s_q = 70, .s_k = 128, .d = 64}, DType::kBFloat16);
    h.options.causal = causal;
    expect_right(h);
  }
}

TEST_F(GpuPlan, ScalesOfEverySign) {
  for (const double scale : {0.0, -0.3, 1e-30, 40.0, -40.0}) {
    Case c = test::ref64({.s_q = 150, .s_k = 300, .d = 64}, DType::kBFloat16);
    c.options.scale = scale;
    c.options.causal = Causal::kBottomRight;
    expect_right(c);
  }
}

TEST_F(GpuPlan, ScoresThatRiseBeyondTheReference) {
  for (const int64_t d : {64, 128}) {
    Case c = test::ref64({.s_q = 130, .s_k = 900, .d = d}, DType::kBFloat16);
    // Keys are walked from the last to the first: the first are the largest by far.
    c.k.fill_with([](const test::Index& i) {
      return static_cast<double>(i[3] % 3 - 1) * std::exp2(8.0 - static_cast<double>(i[1]) / 64);
    });
    expect_right(c);
  }
}

TEST_F(GpuPlan, OtherLayouts) {
  Case c = test::ref64({.batch = 2, .s_q = 130, .s_k = 200, .heads_q = 4, .heads_k = 2, .d = 64},
                       DType::kBFloat16);
  c.q = c.q.with_strides(test::strides_in_order(c.q.dims(), {0, 2, 1, 3}));
  c.k = c.k.with_strides(test::strides_in_order(c.k.dims(), {2, 0, 1, 3}));
  c.v = c.v.with_strides({200 * 2 * 72, 2 * 72, 72, 1});
  c.out = HostTensor(DType::kBFloat16, {2, 130, 4, 64}, {130 * 4 * 80, 80, 130 * 80, 1});
  c.lse = HostTensor(DType::kFloat32, {2, 4, 130}, {1, 2 * 130, 2});
  c.options.causal = Causal::kBottomRight;
  expect_right(c);
}

TEST_F(GpuPlan, KeysThatNoRowSeesMayHoldNan) {
  Case top = test::ref64({.s_q = 100, .s_k = 300, .d = 64}, DType::kBFloat16);
  top.options.causal = Causal::kTopLeft;
  spoil_keys(top, [](const test::Index& at) { return at[1] >= 100; });
  expect_right(top);
  Case window = test::ref64({.s_q = 100, .s_k = 300, .d = 128}, DType::kBFloat16);
  window.options.causal = Causal::kBottomRight;
  window.options.window.left = 20;
  spoil_keys(window, [](const test::Index& at) { return at[1] < 180; });
  expect_right(window);
}

TEST_F(GpuPlan, SameBitsEveryTime) {
  Case c =
      test::ref64({.batch = 4, .s_q = 1000, .s_k = 1000, .heads_q = 8, .d = 64}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  c.device = Device::cuda(0);
  ASSERT_TRUE(c.forward().ok());
  const auto out = c.out.bytes(), lse = c.lse.bytes();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(c.forward().ok());
    ASSERT_EQ(c.out.bytes(), out);
    ASSERT_EQ(c.lse.bytes(), lse);
  }
}

TEST_F(GpuPlan, RefusesWhatTheCopyEngineCannotRead) {
  Case c = test::ref64({.s_q = 10, .s_k = 10, .heads_q = 2, .d = 64}, DType::kBFloat16);
  c.q = c.q.with_strides({10 * 2 * 68, 2 * 68, 68, 1});
  c.device = Device::cuda(0);
  const Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find("q: stride"), 0u) << status.message();
}

TEST_F(GpuPlan, SoftcapAndAlibi) {
  for (const DType dtype : kDtypes) {
    for (const int64_t d : {64, 128, 256}) {
      for (const double softcap : {0.0, 0.5, 30.0, 1e30}) {
        Case c = test::ref64({.batch = 2, .s_q = 150, .s_k = 200, .heads_q = 2, .d = d}, dtype);
        c.options.softcap = softcap;
        c.options.causal = softcap == 30 ? Causal::kBottomRight : Causal::kNone;
        c.alibi_slopes = HostTensor::of(DType::kFloat32, {2}, {0.5, -0.01});
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
  Case slope = test::probe({.s_q = 4, .s_k = 4, .d = 8}, DType::kFloat16);
  slope.options.causal = Causal::kBottomRight;
  slope.alibi_slopes = HostTensor::of(DType::kFloat32, {1}, {0.5});
  expect_right(slope);
  EXPECT_NEAR(slope.out.get({0, 3, 0, 0}), 3.084576, 2e-3);
}

TEST_F(GpuPlan, Sinks) {
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    Case c = test::probe({.s_q = 3, .s_k = 3, .heads_q = 2, .d = 8}, DType::kFloat16);
    c.options.causal = Causal::kBottomRight;
    c.sink = HostTensor::of(type, {2}, {0, std::log(3.0)});
    expect_right(c);
    EXPECT_EQ(c.out.get({0, 0, 0, 0}), 0.5);
    EXPECT_EQ(c.out.get({0, 2, 0, 0}), 1.5);
  }
  Case empty = test::probe({.s_q = 5, .s_k = 2, .d = 64}, DType::kBFloat16);
  empty.options.causal = Causal::kBottomRight;
  empty.sink = HostTensor::of(DType::kFloat32, {1}, {2.5});
  expect_right(empty);
  EXPECT_EQ(empty.lse.get({0, 0, 0}), 2.5);
  EXPECT_EQ(empty.out.get({0, 0, 0, 0}), 0);
}

TEST_F(GpuPlan, BiasAndMask) {
  uint64_t seed = 1;
  for (const int64_t d : {64, 128, 192, 256}) {
    for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
      for (const int kept : {0, 1, 2, 4, 8, 11, 15}) {  // bits: dims that broadcast
        Case c = test::ref64({.batch = 2, .s_q = 70, .s_k = 131, .heads_q = 2, .d = d},
                             kDtypes[seed % 2], seed);
        test::Random random(seed++);
        test::Dims dims = {2, 2, 70, 131};
        for (int i = 0; i < 4; ++i) {
          if ((kept >> i & 1) != 0) dims[static_cast<size_t>(i)] = 1;
        }
        if (seed % 3 != 0) {
          c.bias = HostTensor(type, dims).fill_normal(random);
        }
        if (seed % 3 != 1) {
          c.mask = HostTensor(DType::kBool, dims).fill_with([&](const test::Index&) {
            return random() % 4 == 0 ? 0.0 : 1.0;
          });
        }
        if (seed % 4 == 0) c.options.causal = Causal::kBottomRight;
        if (seed % 5 == 0) c.options.softcap = 20;
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuPlan, MasksHideNanOfKeysAndValues) {
  // Keys that no row sees because of a mask, or of a bias of -inf, in tiles that others see.
  for (const bool as_bias : {false, true}) {
    Case c =
        test::ref64({.batch = 2, .s_q = 200, .s_k = 300, .heads_q = 2, .d = 64}, DType::kBFloat16);
    const auto hidden = [](const test::Index& at) { return at[1] % 7 == 2 || at[1] > 250; };
    const test::Dims dims = {1, 1, 1, 300};
    const auto seen = [&](const test::Index& at) { return at[3] % 7 != 2 && at[3] <= 250; };
    if (as_bias) {
      c.bias = HostTensor(DType::kFloat32, dims).fill_with([&](const test::Index& at) {
        return seen(at) ? 0.25 : -std::numeric_limits<double>::infinity();
      });
    } else {
      c.mask = HostTensor(DType::kBool, dims).fill_with([&](const test::Index& at) {
        return seen(at) ? 1.0 : 0.0;
      });
    }
    spoil_keys(c, hidden);
    expect_right(c);
  }
}

TEST_F(GpuPlan, PackedSequences) {
  const std::vector<std::vector<int64_t>> lengths_q = {
      {1}, {3, 0, 200, 65}, {0, 0, 7}, {300, 1, 1, 129}, {0, 0}};
  const std::vector<std::vector<int64_t>> lengths_k = {
      {5}, {9, 4, 190, 0}, {0, 1, 13}, {10, 2, 700, 129}, {3, 0}};
  uint64_t seed = 1;
  for (size_t i = 0; i < lengths_q.size(); ++i) {
    for (const int64_t group : {1, 3, 4}) {
      for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
        Case c = test::ref64({.heads_q = 2 * group,
                              .heads_k = 2,
                              .d = seed % 2 == 0 ? 128 : 64,
                              .lengths_q = lengths_q[i],
                              .lengths_k = lengths_k[i]},
                             kDtypes[seed % 2], seed);
        c.options.causal = causal;
        if (seed % 4 == 3) c.options.window.left = 40;
        ++seed;
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuPlan, UsedLengthsAndStarts) {
  for (const int64_t d : {64, 128, 256}) {
    for (const bool start : {false, true}) {
      Case c = test::ref64({.batch = 5, .s_q = 150, .s_k = 260, .heads_q = 4, .heads_k = 2, .d = d},
                           kDtypes[start ? 1 : 0]);
      c.options.causal = Causal::kBottomRight;
      c.seqused_q = test::indices({150, 0, 70, 64, 1}, DType::kInt64);
      c.seqused_k = test::indices({260, 17, 0, 200, 129});
      if (start) {
        c.start_q = test::indices({3, 0, 70, 10, 0});
        c.start_k = test::indices({100, 5, 0, 0, 64}, DType::kInt64);
      }
      const auto used = c.seqused_k.values(), starts = c.start_k.values();
      spoil_keys(c, [&](const test::Index& at) {
        const auto b = static_cast<size_t>(at[0]);
        return static_cast<double>(at[1]) >= used[b] ||
               (start && static_cast<double>(at[1]) < starts[b]);
      });
      expect_right(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuPlan, GroupsOfEverySize) {
  for (const int64_t group : {2, 3, 5, 6, 7, 8, 9, 16, 33, 64, 71}) {
    for (const int64_t s_q : {1, 3, 65}) {
      Case c = test::ref64(
          {.batch = 2, .s_q = s_q, .s_k = 140, .heads_q = 2 * group, .heads_k = 2, .d = 64},
          kDtypes[group % 2], static_cast<uint64_t>(100 + group));
      c.options.causal = Causal::kBottomRight;
      if (group % 3 == 0) {
        c.sink = HostTensor(DType::kFloat32, {2 * group}).fill_with([](const test::Index& at) {
          return 0.1 * static_cast<double>(at[0]);
        });
      }
      expect_right(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuPlan, BroadcastInputs) {
  Case c =
      test::ref64({.batch = 3, .s_q = 100, .s_k = 90, .heads_q = 4, .d = 64}, DType::kBFloat16);
  c.q = c.q.with_strides({0, 64, 100 * 64, 1});
  c.k = c.k.with_strides({90 * 64, 64, 0, 1});
  c.v = c.v.with_strides({64, 0, 3 * 64, 1});
  expect_right(c);
}

TEST_F(GpuPlan, ManyBatchesAndHeads) {
  for (const bool heads : {false, true}) {
    Case c = test::probe(
        {.batch = heads ? 1 : 65537, .s_q = 2, .s_k = 2, .heads_q = heads ? 65537 : 1, .d = 16},
        DType::kBFloat16);
    c.device = Device::cuda(0);
    c.options.causal = Causal::kBottomRight;
    ASSERT_TRUE(c.forward().ok());
    const int64_t last = 65536;
    EXPECT_EQ(c.out.get(heads ? test::Index{0, 0, last, 3} : test::Index{last, 0, 0, 3}), 1.0);
    EXPECT_EQ(c.out.get(heads ? test::Index{0, 1, last, 3} : test::Index{last, 1, 0, 3}), 1.5);
  }
}

TEST_F(GpuPlan, LogitsFarBelowAnyFiniteSentinel) {
  Case c = test::probe({.s_q = 1, .s_k = 4, .d = 8}, DType::kBFloat16);
  c.q.fill_with([](const test::Index& at) { return at[3] == 0 ? 1e3 : 0; });
  c.k.fill_with([](const test::Index& at) { return at[3] == 0 ? -1e2 : 0; });
  expect_right(c);
  EXPECT_EQ(c.out.get({0, 0, 0, 0}), 2.5);
}

TEST(GpuSupport, SaysWhyNot) {
  const Case c = test::ref64({.s_q = 1, .s_k = 1}, DType::kFloat32);
  const Support support =
      supports(AttentionProblem::forward(c.tensors(), c.options), Device::cuda(0));
  EXPECT_FALSE(support.supported);
  // Without a GPU that is the reason, with one the dtype.
  EXPECT_EQ(support.reason.find("device: is cuda:0"), 0u) << support.reason;
}

}  // namespace
}  // namespace fa4::gpu
