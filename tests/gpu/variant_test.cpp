// SPDX-License-Identifier: BSD-3-Clause
// Configurations that a plan would not choose, in the emulator: pairs of CTAs that share K and V,
// with fewer keys than they are chosen for.
#include "gpu/variant.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/emulator_settings.h"
#include "gpu/jit/nvrtc.h"
#include "support/case.h"

namespace fa4::gpu {
namespace {

using test::Case;
using test::HostTensor;
using test::Index;

/// One forward by the variant, under two schedules, judged by the emulator and by the oracle. What
/// a release without .cluster scope orders is not looked at: see
/// ptx::mbarrier_arrive_remote_after_reads.
void expect_right(Case& c, const char* changes) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const Runtime& runtime = *runtime_of(Device::emulator("sm_90a")).value();
  c.out = HostTensor(c.q.dtype(), c.q.dims());
  const auto& rows = c.q.dims();
  c.lse = rows.size() == 4 ? HostTensor(DType::kFloat32, {rows[0], rows[2], rows[1]})
                           : HostTensor(DType::kFloat32, {rows[1], rows[0]});
  AttentionTensors t = c.tensors();
  for (Tensor* tensor :
       {&t.q, &t.k, &t.v, &t.out, &t.lse, &t.bias, &t.mask, &t.alibi_slopes, &t.sink,
        &t.cu_seqlens_q, &t.cu_seqlens_k, &t.seqused_q, &t.seqused_k, &t.start_q, &t.start_k}) {
    tensor->device = Device::emulator("sm_90a");
  }
  const auto variant = Variant::make(runtime, AttentionProblem::forward(t, c.options), changes);
  ASSERT_TRUE(variant.ok()) << variant.status().message();
  for (const auto timing : {emulator::Timing::kLatest, emulator::Timing::kRandom}) {
    c.out.poison();
    c.lse.poison();
    std::vector<std::byte> workspace(variant->workspace_bytes(), std::byte{0xff});
    EmulatorSettings settings;
    settings.run.timing = timing;
    settings.run.checks = emulator::Checks::kErrors;
    const ThreadEmulatorSettings here(settings);
    const Status status = variant->run(t, workspace.data(), {});
    ASSERT_TRUE(status.ok()) << changes << ": " << status.message();
    EXPECT_EQ(c.judge_forward(), "") << changes;
  }
}

TEST(Variant, PairsOfCtasShareKeysAndValues) {
  Case full =
      test::ref64({.batch = 2, .s_q = 470, .s_k = 300, .heads_q = 2, .d = 64}, DType::kBFloat16);
  expect_right(full, "pair=1");
  expect_right(full, "pair=1,dynamic=1,stages=4");
  Case causal =
      test::ref64({.s_q = 500, .s_k = 500, .heads_q = 2, .heads_k = 1, .d = 128}, DType::kBFloat16);
  causal.options.causal = Causal::kBottomRight;
  expect_right(causal, "pair=1,stages=4,output_panels=1");
}

// What does not fill a pair's tile but fits a CTA is a tile of its own: the pair takes two heads'.
// Of three heads, of 111 in sections of 54, one is left alone.
TEST(Variant, PairsTakeTheHalfTilesOfTwoHeads) {
  Case three = test::ref64({.s_q = 500, .s_k = 200, .heads_q = 3, .d = 128}, DType::kBFloat16);
  expect_right(three, "pair=1,stages=4,output_panels=1");
  three.options.causal = Causal::kBottomRight;
  expect_right(three, "pair=1,stages=4,output_panels=1");
  Case many =
      test::ref64({.batch = 37, .s_q = 50, .s_k = 300, .heads_q = 3, .d = 64}, DType::kBFloat16);
  expect_right(many, "pair=1,warpgroups=1,dynamic=0");
}

TEST(Variant, PairsTakeTwoHeadsWithOneKeyHead) {
  Case c = test::ref64({.batch = 3, .s_q = 300, .s_k = 200, .heads_q = 12, .heads_k = 3, .d = 64},
                       DType::kBFloat16);
  expect_right(c, "pair=1,warpgroups=2");
  c.options.window = {.left = 100, .right = 30};
  expect_right(c, "pair=1,warpgroups=2");
}

// The first CTA is told of the next tile at once where a tile has no keys to copy.
TEST(Variant, PairsWithTilesThatSeeNoKey) {
  Case c = test::ref64({.s_q = 2000, .s_k = 200, .heads_q = 2, .d = 64}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  c.options.window.left = 20;
  expect_right(c, "pair=1");
}

TEST(Variant, PairsWithSequencesOfManyLengths) {
  Case c = test::ref64({.heads_q = 2,
                        .d = 64,
                        .lengths_q = {0, 700, 1, 130, 389},
                        .lengths_k = {64, 700, 0, 300, 65}},
                       DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  expect_right(c, "pair=1");
}

// V behind the keys that a CTA's own rows see is cleaned for it, whatever the other's rows see.
TEST(Variant, PairsCleanForEachCtasRows) {
  Case c = test::ref64({.s_q = 256, .s_k = 150, .heads_q = 1, .d = 64}, DType::kBFloat16);
  c.mask = HostTensor(DType::kBool, {1, 1, 256, 150});
  c.mask.fill_with([](const Index& at) { return at[2] < 128 || at[3] != 77 ? 1 : 0; });
  c.v.set({0, 77, 0, 5}, std::nan(""));
  expect_right(c, "pair=1");
}

// As a driver does it; before, a run said so.
TEST(Variant, TilesThatDoNotFitSharedMemoryAreRefusedWhenMade) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const Runtime& runtime = *runtime_of(Device::emulator("sm_90a")).value();
  const Case c = test::ref64({.s_q = 70, .s_k = 70, .d = 80}, DType::kBFloat16);
  const AttentionProblem problem = AttentionProblem::forward(c.tensors());
  EXPECT_TRUE(Variant::make(runtime, problem, "stages=2").ok());
  const auto large = Variant::make(runtime, problem, "stages=6");
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.status().message().find("bytes of dynamic shared memory; allowed: 232448"),
            std::string::npos)
      << large.status().message();
}

}  // namespace
}  // namespace fa4::gpu
