// SPDX-License-Identifier: BSD-3-Clause
// What a run does on the host: no allocation, no waiting, one launch. No GPU is needed.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <ctime>

#include "gpu/fake_runtime.h"
#include "gpu/jit/nvrtc.h"
#include "gpu/sm90_forward.h"
#include "support/case.h"

namespace fa4::gpu {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Bytes that the C library has handed out; a run that allocated and kept nothing would not show,
/// so the arena's count of free blocks is looked at too.
struct Heap {
  size_t used, free;
  static Heap now() {
    const struct mallinfo2 info = mallinfo2();
    return {info.uordblks + info.hblkhd, info.fordblks};
  }
  friend bool operator==(const Heap&, const Heap&) = default;
};

TEST(HostCost, ARunAllocatesNothingAndLaunchesOnce) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const FakeRuntime runtime;
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
    test::Case c =
        test::ref64({.batch = 2, .s_q = 128, .s_k = 128, .heads_q = 2, .d = 128}, DType::kBFloat16);
    c.options.causal = causal;
    c.out = test::HostTensor(DType::kBFloat16, {2, 128, 2, 128});
    const AttentionTensors tensors = c.tensors();
    const auto problem = core::validate(AttentionProblem::forward(tensors, c.options)).value();
    const auto forward = sm90::Forward::make(runtime, problem).value();
    std::vector<std::byte> workspace(forward.workspace_bytes() + 64);
    ASSERT_TRUE(forward.run(problem, tensors, workspace.data(), {}).ok());
    runtime.counts = {};
    constexpr int kRuns = 2000;
    const Heap before = Heap::now();
    const double start = thread_seconds();
    bool good = true;
    for (int i = 0; i < kRuns; ++i) {
      good = good && core::validate_run(problem, tensors, Device::cpu()).ok();
      good = good && forward.run(problem, tensors, workspace.data(), {}).ok();
    }
    const double microseconds = (thread_seconds() - start) / kRuns * 1e6;
    EXPECT_TRUE(Heap::now() == before);
    EXPECT_TRUE(good);
    EXPECT_EQ(runtime.counts.launches, kRuns);
    EXPECT_LE(runtime.counts.fills, kRuns);
    EXPECT_LE(runtime.counts.encodes, 4 * kRuns);
    EXPECT_EQ(runtime.counts.waits, 0);
    EXPECT_EQ(runtime.counts.allocations, 0);
    std::printf("%s: %.2f us of host time a run without the driver's share\n",
                causal == Causal::kNone ? "full" : "causal", microseconds);
  }
}

}  // namespace
}  // namespace fa4::gpu
