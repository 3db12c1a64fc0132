// SPDX-License-Identifier: BSD-3-Clause
// The CPU forward against the oracle, over what its tiles, tasks and paths make different.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "cpu/kernels.h"
#include "support/case.h"
#include "support/numbers.h"

namespace fa4::test {
namespace {

/// Runs the scope under FA4_CPU_TARGET.
class WithTarget {
 public:
  explicit WithTarget(const char* name) {
    if (const char* old = std::getenv("FA4_CPU_TARGET")) old_ = old;
    setenv("FA4_CPU_TARGET", name, 1);
  }
  ~WithTarget() {
    if (old_.empty()) {
      unsetenv("FA4_CPU_TARGET");
    } else {
      setenv("FA4_CPU_TARGET", old_.c_str(), 1);
    }
  }
  WithTarget(const WithTarget&) = delete;
  WithTarget& operator=(const WithTarget&) = delete;

 private:
  std::string old_;
};

TEST(CpuForward, SizesAroundTilesOnEveryTarget) {
  for (const cpu::Target& target : cpu::available_targets()) {
    SCOPED_TRACE(target.name);
    const WithTarget with(target.name);
    for (const int64_t s_q : {1, 3, 49, 130}) {
      for (const int64_t s_k : {1, 16, 127, 129, 260}) {
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
          Case c = ref64({.s_q = s_q, .s_k = s_k, .heads_q = 2, .d = 24, .d_v = 40}, dtype);
          expect_forward_right(c);
          c.options.causal = Causal::kBottomRight;
          expect_forward_right(c);
        }
      }
    }
  }
}

TEST(CpuForward, EveryHeadDim) {
  for (const int64_t d : {1, 7, 17, 33, 59, 64, 65, 127, 128, 129, 192, 255, 256}) {
    Case c = ref64({.s_q = 70, .s_k = 90, .d = d, .d_v = 257 - d});
    expect_forward_right(c);
    Case few = ref64({.s_q = 2, .s_k = 90, .d = d, .d_v = 257 - d}, DType::kBFloat16);
    expect_forward_right(few);
  }
}

TEST(CpuForward, Double) {
  Case c = ref64({.batch = 2, .s_q = 130, .s_k = 200, .heads_q = 4, .heads_k = 2, .d = 40},
                 DType::kFloat64);
  c.options.causal = Causal::kTopLeft;
  c.options.softcap = 3;
  expect_forward_right(c);
}

TEST(CpuForward, GroupsOfAnySize) {
  for (const auto& [heads_q, heads_k] : {std::pair{14, 2}, {71, 1}, {12, 4}, {9, 9}}) {
    for (const int64_t s_q : {1, 5, 65}) {
      Case c = ref64({.batch = 2, .s_q = s_q, .s_k = 100, .heads_q = heads_q, .heads_k = heads_k});
      c.options.causal = Causal::kBottomRight;
      expect_forward_right(c);
    }
  }
}

TEST(CpuForward, Windows) {
  for (const int64_t s_q : {4, 300}) {
    for (const auto& [left, right] : {std::pair{0, 0}, {5, 7}, {100, 0}, {63, 200}}) {
      Case c = ref64({.s_q = s_q, .s_k = 400, .heads_q = 2, .d = 16});
      c.options.window = {left, right};
      expect_forward_right(c);
    }
  }
}

TEST(CpuForward, LongCachesAreSplit) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const int64_t s_q : {1, 2}) {
      Case c =
          ref64({.batch = 2, .s_q = s_q, .s_k = 3001, .heads_q = 4, .heads_k = 1, .d = 48}, dtype);
      c.options.causal = Causal::kBottomRight;
      expect_forward_right(c);
      c.options.window = {700, 0};
      expect_forward_right(c);
    }
  }
}

/// Right, and the same bits from any number of threads.
void expect_split_right(Case& c) {
  c.options.threads = 1;
  expect_forward_right(c);
  const auto out = c.out.bytes(), lse = c.lse.bytes();
  for (const int threads : {2, 16}) {
    c.options.threads = threads;
    c.forward().check();
    EXPECT_EQ(c.out.bytes(), out) << threads;
    EXPECT_EQ(c.lse.bytes(), lse) << threads;
  }
}

// More rows than decode takes, few enough to be split over the keys: tiles with partial results.
TEST(CpuForward, ChunksOfTiles) {
  for (const int64_t s_q : {2, 3, 13}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Case c = ref64(
          {.batch = 2, .s_q = s_q, .s_k = 2500, .heads_q = 14, .heads_k = 2, .d = 20, .d_v = 12},
          dtype);
      c.options.causal = Causal::kBottomRight;
      expect_split_right(c);
      c.options.window = {900, 0};
      c.seqused_k = indices({2500, 7});
      c.start_k = indices({100, 0});
      expect_split_right(c);
    }
  }
  Random random(5);
  Case packed = ref64({.heads_q = 10,
                       .heads_k = 1,
                       .d = 16,
                       .lengths_q = {9, 1, 4, 0, 30},
                       .lengths_k = {2900, 1500, 700, 300, 40}});
  packed.sink = HostTensor(DType::kFloat32, {10}).fill_normal(random);
  packed.mask = HostTensor(DType::kBool, {1, 1, 1, 2900}).fill_with([&](const Index&) {
    return random() % 3 == 0 ? 0.0 : 1.0;
  });
  packed.options.dropout_p = 0.25;
  expect_split_right(packed);
}

// Heads of k that are neighbours in memory share a decode task where there are enough tasks.
TEST(CpuForward, HeadsThatShareADecodeTask) {
  for (const auto& [heads_q, heads_k] : {std::pair{8, 8}, {5, 5}, {9, 3}, {12, 6}}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kFloat64}) {
      Random random(6);
      Case c =
          ref64({.batch = 2, .s_k = 2500, .heads_q = heads_q, .heads_k = heads_k, .d = 20}, dtype);
      expect_split_right(c);
      c.mask = HostTensor(DType::kBool, {2, heads_q, 1, 2500}).fill_with([&](const Index&) {
        return random() % 3 == 0 ? 0.0 : 1.0;
      });
      expect_split_right(c);
    }
  }
}

TEST(CpuForward, BiasMaskAlibiSoftcapSink) {
  for (const int64_t s_q : {2, 60}) {
    Random random(3);
    Case c = ref64({.batch = 2, .s_q = s_q, .s_k = 700, .heads_q = 4, .heads_k = 2, .d = 32});
    c.bias = HostTensor(DType::kBFloat16, {2, 1, s_q, 700}).fill_normal(random);
    c.mask = HostTensor(DType::kBool, {1, 4, s_q, 700}).fill_with([&](const Index&) {
      return random() % 3 == 0 ? 0.0 : 1.0;
    });
    c.alibi_slopes = HostTensor::of(DType::kFloat32, {4}, {0.5, 0.25, 0.125, 0});
    c.sink = HostTensor::of(DType::kFloat32, {4}, {0, 1, -kInfinity, 20});
    c.options.softcap = 2;
    expect_forward_right(c);
    c.options.scale = -0.3;
    expect_forward_right(c);
    c.options.scale = 0;
    expect_forward_right(c);
  }
}

TEST(CpuForward, PackedSequencesWithSlackRows) {
  Case c = ref64({.heads_q = 4,
                  .heads_k = 2,
                  .d = 16,
                  .lengths_q = {0, 3, 130, 1, 0, 700},
                  .lengths_k = {5, 0, 200, 1500, 0, 701}});
  c.options.causal = Causal::kBottomRight;
  c.seqused_k = indices({5, 0, 180, 1400, 0, 600});
  c.start_q = indices({0, 1, 10, 0, 0, 7});
  expect_forward_right(c);
}

TEST(CpuForward, DropoutIsTheOracles) {
  for (const int64_t s_q : {1, 77}) {
    Case c = ref64({.batch = 2, .s_q = s_q, .s_k = 600, .heads_q = 2, .d = 16});
    c.options.dropout_p = 0.3;
    c.options.dropout_seed = 77;
    expect_forward_right(c);
  }
}

TEST(CpuForward, BitsDoNotDependOnThreads) {
  Case c = ref64({.batch = 2, .s_q = 300, .s_k = 500, .heads_q = 4, .heads_k = 2, .d = 64});
  c.options.causal = Causal::kBottomRight;
  c.options.threads = 1;
  c.forward().check();
  const auto out = c.out.bytes(), lse = c.lse.bytes();
  for (const int threads : {2, 3, 16}) {
    c.options.threads = threads;
    c.forward().check();
    EXPECT_EQ(c.out.bytes(), out);
    EXPECT_EQ(c.lse.bytes(), lse);
  }
}

TEST(CpuForward, HugeLogits) {
  Case c = probe({.s_q = 3, .s_k = 4, .d = 8});
  c.q.fill(0).fill_with([](const Index& i) { return i[3] == 0 ? 1e19 : 0; });
  c.k.fill_with([](const Index& i) { return i[3] == 0 ? -2e19 : 0; });
  expect_forward_right(c);
  EXPECT_EQ(c.out.get({0, 0, 0, 0}), 2.5);

  Case bf16 = ref64({.d = 64}, DType::kBFloat16);
  bf16.q.fill(133120);
  bf16.k.fill(133120);
  bf16.v.fill(133120);
  expect_forward_right(bf16);
  EXPECT_EQ(bf16.out.get({0, 0, 0, 0}), 133120);
}

TEST(CpuForward, NanInAVisibleKeyGivesNan) {
  for (const int64_t s_q : {1, 40}) {
    Case c = ref64({.s_q = s_q, .s_k = 50, .d = 8});
    c.k.set({0, 20, 0, 3}, std::numeric_limits<double>::quiet_NaN());
    expect_forward_right(c);
    EXPECT_TRUE(std::isnan(c.out.get({0, 0, 0, 0})));
  }
}

TEST(CpuForward, NanInAHiddenKeyChangesNothing) {
  for (const int64_t s_q : {1, 40}) {
    for (const bool by_bias : {false, true}) {
      Case c = ref64({.s_q = s_q, .s_k = 50, .d = 8});
      if (by_bias) {
        c.bias = HostTensor(DType::kFloat32, {1, 1, 1, 50}).fill_with([](const Index& i) {
          return i[3] == 20 || i[3] > 40 ? -kInfinity : 0.0;
        });
      } else {
        c.mask = HostTensor(DType::kBool, {1, 1, 1, 50}).fill_with([](const Index& i) {
          return i[3] == 20 || i[3] > 40 ? 0.0 : 1.0;
        });
      }
      c.forward().check();
      const auto expected = c.out.bytes();
      c.k.set({0, 20, 0, 3}, std::numeric_limits<double>::quiet_NaN());
      c.v.set({0, 20, 0, 3}, std::numeric_limits<double>::quiet_NaN());
      c.v.set({0, 45, 0, 0}, kInfinity);
      c.forward().check();
      EXPECT_EQ(c.out.bytes(), expected);
    }
  }
}

TEST(CpuForward, UnknownTargetIsAnErrorThatListsTheAllowed) {
  const WithTarget with("AVX9000");
  Case c = ref64({});
  const Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("AVX9000"), std::string::npos);
  EXPECT_NE(status.message().find(cpu::available_targets().front().name), std::string::npos);
}

}  // namespace
}  // namespace fa4::test
