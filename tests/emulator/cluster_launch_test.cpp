// SPDX-License-Identifier: BSD-3-Clause
// Cluster launch control: CTAs that take over the work of others; every place of the grid is
// worked at exactly once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

/// A CTA counts at its place, and then at those that it gets, until it gets none.
constexpr char kSingle[] = R"(
    .reg .b64 OUT, T;
    .reg .b32 x, y, z, w, tid, phase, at, a, bar, one;
    .reg .b128 handle;
    .reg .pred p, leader, done, more;
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 barrier;
    ld.param.u64 OUT, [p0];
    mov.u32 x, %ctaid.x;
    mov.u32 y, %ctaid.y;
    mov.u32 z, %ctaid.z;
    mov.u32 tid, %tid.x;
    mov.u32 bar, barrier;
    mov.u32 phase, 0;
    mov.u32 one, 1;
    setp.eq.u32 leader, tid, 0;
    @leader mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
WORK:
    @!leader bra ASKED;
    mad.lo.u32 at, z, 3, y;
    mad.lo.u32 at, at, 5, x;
    mul.wide.u32 T, at, 4;
    add.u64 T, T, OUT;
    red.global.add.u32 [T], one;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    mov.u32 a, response;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [a], [bar];
ASKED:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], phase;
    @!done bra ASKED;
    xor.b32 phase, phase, 1;
    ld.shared.b128 handle, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 more, handle;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, w}, handle;
    bar.sync 0;
    @more bra WORK;
)";

TEST(ClusterLaunch, EveryPlaceOnce) {
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      for (const uint32_t workers : {1u, 3u}) {
        std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(30));
        RunOptions options;
        options.timing = timing;
        options.seed = seed;
        options.workers = workers;
        const Ran ran =
            run_body(kSingle, buffers, {.blocks = {5, 3, 2}, .threads = {64, 1, 1}}, options);
        ASSERT_EQ(ran.error, "");
        EXPECT_EQ(buffers[0], std::vector<uint32_t>(30, 1));
      }
    }
  }
}

/// Pairs: one asks, both hear.
constexpr char kPair[] = R"(
    .reg .b64 OUT, T;
    .reg .b32 x, rank, phase, bar, one, a;
    .reg .b128 handle;
    .reg .pred first, done, more;
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 barrier;
    ld.param.u64 OUT, [p0];
    mov.u32 x, %ctaid.x;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 bar, barrier;
    mov.u32 phase, 0;
    mov.u32 one, 1;
    setp.eq.u32 first, rank, 0;
    mbarrier.init.shared::cta.b64 [bar], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
WORK:
    mul.wide.u32 T, x, 4;
    add.u64 T, T, OUT;
    red.global.add.u32 [T], one;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    mov.u32 a, response;
    @first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [a], [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], phase;
    @!done bra WAIT;
    xor.b32 phase, phase, 1;
    ld.shared.b128 handle, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 more, handle;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, handle;
    add.u32 x, x, rank;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @more bra WORK;
)";

TEST(ClusterLaunch, ResponsesForAllOfTheCluster) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(20));
    RunOptions options;
    options.seed = seed;
    const LaunchConfig config{.blocks = {20, 1, 1}, .threads = {1, 1, 1}, .cluster = {2, 1, 1}};
    ASSERT_EQ(run_body(kPair, buffers, config, options).error, "");
    EXPECT_EQ(buffers[0], std::vector<uint32_t>(20, 1));
  }
}

TEST(ClusterLaunch, FormsThatAreRefused) {
  const std::string registers = ".reg .b128 h;\n.reg .b32 a;\n";
  EXPECT_NE(load_error(registers + "clusterlaunchcontrol.try_cancel.async.b128 [a], [a];")
                .find("complete_tx::bytes is wanted"),
            std::string::npos);
  EXPECT_NE(load_error(registers + "clusterlaunchcontrol.query_cancel.b128 a, h;")
                .find(".is_canceled or .get_first_ctaid is wanted"),
            std::string::npos);
}

}  // namespace
}  // namespace fa4::emulator::test
