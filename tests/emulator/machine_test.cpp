// SPDX-License-Identifier: BSD-3-Clause
// What no single instruction does: divergence, barriers, memory, deadlock, schedules.
#include <gtest/gtest.h>

#include <numeric>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

/// Address of out[tid] in %out, tid in %t.
const std::string kPrelude = R"(
  .reg .b32 %t, %r<20>;
  .reg .b64 %out, %d<20>;
  .reg .pred %p<10>;
  ld.param.u64 %out, [p0];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %d0, %t, 4;
  add.u64 %out, %out, %d0;
)";

std::vector<uint32_t> run_threads(const std::string& body, uint32_t threads = 32,
                                  const RunOptions& options = {}) {
  Buffers buffers(1, std::vector<uint32_t>(threads));
  const Ran ran = run_body(kPrelude + body, buffers, {.threads = {threads, 1, 1}}, options);
  EXPECT_EQ(ran.error, "") << body;
  return buffers[0];
}

std::string error_of(const std::string& body, uint32_t threads = 32,
                     const LaunchConfig& base = {}) {
  Buffers buffers(1, std::vector<uint32_t>(threads));
  LaunchConfig config = base;
  config.threads = {threads, 1, 1};
  return run_body(kPrelude + body, buffers, config).error;
}

void expect_fault(const std::string& body, const std::string& part, uint32_t threads = 32) {
  const std::string error = error_of(body, threads);
  EXPECT_NE(error.find(part), std::string::npos) << body << ": " << error;
}

TEST(Machine, LanesDivergeAndMeet) {
  // Each lane loops as often as its number says; then all vote together.
  const auto out = run_threads(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, %t;
  LOOP:
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra END;
    add.u32 %r1, %r1, 2;
    sub.u32 %r2, %r2, 1;
    bra LOOP;
  END:
    activemask.b32 %r3;
    vote.sync.ballot.b32 %r4, %p1, 0xffffffff;
    setp.ne.u32 %p2, %r3, %r4;
    @%p2 mov.u32 %r1, 1000;
    st.global.u32 [%out], %r1;
  )");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 2 * i);
}

TEST(Machine, AnElectedLaneMakesProgressWhileOthersWait) {
  const auto out = run_threads(R"(
    .shared .align 8 .b8 bar[8];
    elect.sync %r1|%p1, 0xffffffff;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    bar.warp.sync 0xffffffff;
    @%p1 bra ARRIVE;
  WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    bra DONE;
  ARRIVE:
    mbarrier.arrive.shared.b64 _, [bar];
  DONE:
    bar.warp.sync 0xffffffff;
    st.global.u32 [%out], %r1;
  )");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 0));
}

TEST(Machine, ShufflesFollowTheManual) {
  const auto down = run_threads(R"(
    shfl.sync.down.b32 %r1|%p1, %t, 3, 31, 0xffffffff;
    @!%p1 mov.u32 %r1, 100;
    st.global.u32 [%out], %r1;)");
  const auto up = run_threads(R"(
    shfl.sync.up.b32 %r1, %t, 1, 0, 0xffffffff;
    st.global.u32 [%out], %r1;)");
  const auto segments = run_threads(R"(
    shfl.sync.idx.b32 %r1, %t, 2, 0x181f, 0xffffffff;
    st.global.u32 [%out], %r1;)");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(down[i], i < 29 ? i + 3 : 100);
    EXPECT_EQ(up[i], i == 0 ? 0 : i - 1);
    EXPECT_EQ(segments[i], i / 8 * 8 + 2);
  }
}

TEST(Machine, WarpsMeetAtBarriers) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto out = run_threads(R"(
      .shared .align 16 .b32 x[128];
      mov.u32 %r2, x;
      shl.b32 %r3, %t, 2;
      add.u32 %r3, %r3, %r2;
      st.shared.u32 [%r3], %t;
      bar.sync 0;
      xor.b32 %r4, %t, 127;
      shl.b32 %r4, %r4, 2;
      add.u32 %r4, %r4, %r2;
      ld.shared.u32 %r5, [%r4];
      st.global.u32 [%out], %r5;
    )",
                                 128, {.seed = seed, .schedule = static_cast<Schedule>(seed % 2)});
    for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(out[i], 127 - i) << seed;
  }
}

TEST(Machine, NamedBarriersCountThreads) {
  // Warp 0 waits for warps 1 and 2, which only arrive.
  const auto out = run_threads(R"(
    .shared .align 4 .b32 x[1];
    shr.u32 %r1, %t, 5;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WAITER;
    setp.eq.u32 %p2, %t, 32;
    @%p2 st.shared.u32 [x], 7;
    barrier.cta.arrive.aligned 3, 96;
    bra DONE;
  WAITER:
    barrier.cta.sync.aligned 3, 96;
    ld.shared.u32 %r2, [x];
    st.global.u32 [%out], %r2;
  DONE:
  )",
                               96);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 7u);
}

TEST(Machine, AtomicsAddUpAcrossBlocks) {
  Buffers buffers(1, std::vector<uint32_t>(1));
  for (const uint32_t workers : {1u, 3u}) {
    buffers[0][0] = 0;
    const Ran ran =
        run_body(R"(
      .reg .b64 P;
      .reg .b32 r;
      ld.param.u64 P, [p0];
      atom.global.add.u32 r, [P], 2;
      red.global.add.u32 [P], 1;
    )",
                 buffers, {.blocks = {10, 1, 1}, .threads = {64, 1, 1}}, {.workers = workers});
    EXPECT_EQ(ran.error, "");
    EXPECT_EQ(buffers[0][0], 3u * 640);
  }
}

TEST(Machine, CtasOfAClusterShareMemory) {
  Buffers buffers(1, std::vector<uint32_t>(64));
  const Ran ran =
      run_body(kPrelude + R"(
    .shared .align 4 .b32 x[1];
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, x;
    add.u32 %r3, %r1, 100;
    st.shared.u32 [%r2], %r3;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    xor.b32 %r4, %r1, 1;
    mapa.shared::cluster.u32 %r5, %r2, %r4;
    ld.shared::cluster.u32 %r6, [%r5];
    mad.lo.u32 %r7, %r1, 128, 0;
    cvt.u64.u32 %d1, %r7;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r6;
    barrier.cluster.arrive;
    barrier.cluster.wait;
  )",
               buffers, {.blocks = {2, 1, 1}, .threads = {32, 1, 1}, .cluster = {2, 1, 1}});
  EXPECT_EQ(ran.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(buffers[0][i], i < 32 ? 101u : 100u);
}

/// Lanes of a warp come to the cluster's barrier one after the other, some at another arrival.
TEST(Machine, LanesArriveAtTheClusterBarrierApart) {
  Buffers buffers(1, std::vector<uint32_t>(64));
  const Ran ran = run_body(kPrelude + R"(
    .shared .align 8 .b8 bar[8];
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %t, 33;
    @%p2 mbarrier.arrive.shared.b64 _, [bar];
    @!%p1 bra OTHERS;
  WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
    @!%p3 bra WAIT;
    barrier.cluster.arrive.release;
    bra MEET;
  OTHERS:
    barrier.cluster.arrive.release;
  MEET:
    barrier.cluster.wait.acquire;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    st.global.u32 [%out], 3;
  )",
                           buffers, {.threads = {64, 1, 1}});
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(buffers[0], std::vector<uint32_t>(64, 3));
}

/// 128 registers a thread: two warps give 88 each, two take 64 more; who takes waits.
TEST(Machine, RegistersComeFromThePool) {
  const auto ptx = [](const std::string& taken, const std::string& bounds) {
    return ".version 9.0\n.target sm_90a\n.visible .entry k(.param .u64 p0)\n" + bounds + R"(
{
  .reg .b32 %t;
  .reg .pred %p;
  mov.u32 %t, %tid.x;
  setp.lt.u32 %p, %t, 256;
  @%p bra TAKE;
  setmaxnreg.dec.sync.aligned.u32 40;
  bra END;
TAKE:
  setmaxnreg.inc.sync.aligned.u32 )" +
           taken + ";\nEND:\n  bar.sync 0;\n  ret;\n}\n";
  };
  const auto error = [&](const std::string& taken, const std::string& bounds) {
    Buffers buffers(1, std::vector<uint32_t>(1));
    return run_module(ptx(taken, bounds), "k", buffers, {.threads = {512, 1, 1}}).error;
  };
  EXPECT_EQ(error("216", ".maxntid 512, 1, 1"), "");
  const std::string tooMuch = error("224", ".maxntid 512, 1, 1");
  EXPECT_NE(tooMuch.find("wait for 224 registers a thread: the CTA has "), std::string::npos)
      << tooMuch;
  EXPECT_EQ(error("224", ".maxntid 512, 1, 1\n.maxnreg 136"), "");
  EXPECT_NE(error("216", ".maxntid 512, 1, 1\n.minnctapersm 2"), "");
  EXPECT_EQ(error("256", ""), "");  // the assembler ignores it without bounds
}

// ---- what goes wrong ---------------------------------------------------------------------------

TEST(Machine, WildAddressesAreErrors) {
  expect_fault("mov.u64 %d1, 16; ld.global.u32 %r1, [%d1];", "lies in no allocation");
  expect_fault("st.global.u32 [%out+4], 0;", "lies in no allocation");
  expect_fault("ld.global.u32 %r1, [%out+2];", "not a multiple of 4");
  expect_fault("mov.u32 %r1, 0x7ffffff0; ld.shared.u32 %r2, [%r1];", "not one of this CTA");
  expect_fault(".shared .b32 x[2]; st.shared.u32 [x+8], 0;", "outside the CTA's shared memory");
  expect_fault("mov.u64 %d1, -8; ld.u32 %r1, [%d1];", "lies in no window");
  expect_fault("ld.param.u32 %r1, [p0+8];", "outside the 8 bytes");
}

TEST(Machine, DeadlockSaysWhoWaitsForWhat) {
  const std::string error = error_of(R"(
    .shared .align 8 .b8 bar[8];
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 2;
    bar.sync 0;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
  W:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra W;
  )",
                                     64);
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
  EXPECT_NE(error.find("warp 1 of CTA (0, 0, 0)"), std::string::npos) << error;
  EXPECT_NE(error.find("1 of 2 arrivals"), std::string::npos) << error;
}

TEST(Machine, ALoopWithoutEndIsFound) {
  Buffers buffers(1, std::vector<uint32_t>(1));
  const Ran ran = run_body(".reg .b32 a;\nmov.u32 a, 0;\nL: add.u32 a, a, 1;\nbra L;", buffers, {},
                           {.max_instructions = 1000000});
  EXPECT_NE(ran.error.find("no end"), std::string::npos) << ran.error;
}

TEST(Machine, BarrierMisuseIsFound) {
  expect_fault(".shared .align 8 .b8 bar[8]; mbarrier.arrive.shared.b64 _, [bar];",
               "no mbarrier was initialised");
  expect_fault(R"(.shared .align 8 .b8 bar[8];
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 st.shared.u32 [bar], 0;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];)",
               "was overwritten");
  expect_fault(R"(.shared .align 8 .b8 bar[8];
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 3;
    @%p1 mbarrier.arrive.noComplete.shared::cta.b64 %d1, [bar], 2;
    @%p1 mbarrier.arrive.noComplete.shared::cta.b64 %d1, [bar], 1;)",
               "an arrival with .noComplete ends the phase");
  expect_fault("bar.sync 16;", "allowed: 0 to 15");
  expect_fault(R"(shr.u32 %r1, %t, 5; mad.lo.u32 %r2, %r1, 32, 64; bar.sync 1, %r2;)",
               "while others wait", 64);
  expect_fault("barrier.cluster.wait;", "without an arrival");
}

// Three arrivals and 4096 bytes end a phase, one arrival is dropped: what an H200 showed then,
// which writes it to memory when the mbarrier is invalidated.
TEST(Machine, AnMbarrierLooksAsOnHopper) {
  const auto out = run_threads(R"(
    .shared .align 8 .b8 bar[8];
    setp.ne.u32 %p1, %t, 0;
    @%p1 ret;
    mbarrier.init.shared::cta.b64 [bar], 3;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 4096;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 4096;
    mbarrier.arrive_drop.shared::cta.b64 %d1, [bar];
    mbarrier.inval.shared::cta.b64 [bar];
    ld.shared.b64 %d2, [bar];
    mbarrier.pending_count.b64 %r1, %d1;
    st.global.u64 [%out], %d2;
    st.global.u32 [%out+8], %r1;
  )");
  EXPECT_EQ(out[0], 0x001ffffcu);
  EXPECT_EQ(out[1], 0xfffff000u);
  EXPECT_EQ(out[2], 3u);
}

TEST(Machine, LaunchesAreChecked) {
  EXPECT_NE(error_of("", 32, {.dynamic_shared = 1u << 20}).find("dynamic shared memory"),
            std::string::npos);
  EXPECT_NE(error_of("", 2048).find("threads"), std::string::npos);
  EXPECT_NE(error_of("", 32, {.blocks = {1, 65536, 1}}).find("allowed: 1 to 65535"),
            std::string::npos);
  EXPECT_NE(error_of("", 32, {.blocks = {3, 1, 1}, .cluster = {2, 1, 1}}).find("multiple"),
            std::string::npos);
}

TEST(Machine, WhatAKernelRequiresIsChecked) {
  const auto error = [](const std::string& bounds, const LaunchConfig& config) {
    Buffers buffers(1, std::vector<uint32_t>(1));
    return run_module(".version 9.0\n.target sm_90a\n.visible .entry k(.param .u64 p0)\n" + bounds +
                          "\n{ ret; }\n",
                      "k", buffers, config)
        .error;
  };
  const std::string threads = ".reqntid 64, 2";
  EXPECT_EQ(error(threads, {.threads = {64, 2, 1}}), "");
  EXPECT_NE(error(threads, {.threads = {64, 1, 1}}).find("allowed: 64, 2, 1"), std::string::npos);
  const std::string cluster = ".reqnctapercluster 2";
  EXPECT_EQ(error(cluster, {.blocks = {4, 1, 1}, .threads = {32, 1, 1}}), "");
  EXPECT_NE(error(cluster, {.blocks = {4, 1, 1}, .threads = {32, 1, 1}, .cluster = {4, 1, 1}})
                .find("the cluster is 4, 1, 1; allowed: 2, 1, 1"),
            std::string::npos);
  EXPECT_NE(error(".blocksareclusters", {}).find("not supported"), std::string::npos);
}

/// More host threads than there are clusters, or than the system gives.
TEST(Machine, WorkersWithoutWork) {
  Buffers buffers(1, std::vector<uint32_t>(32));
  const Unjudged several_workers;
  const Ran ran = run_body(kPrelude + "st.global.u32 [%out], 1;", buffers, {.threads = {32, 1, 1}},
                           {.workers = 4000000000u});
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(buffers[0], std::vector<uint32_t>(32, 1));
}

/// Two phases without an end: a producer and a consumer that wait for each other, with lines.
TEST(Machine, DeadlockNamesTheRoles) {
  constexpr char kPtx[] = R"(
.version 9.0
.target sm_90a
.address_size 64
.file 1 "pipe.cu"
.visible .entry k(.param .u64 p0) {
  .reg .b32 t;
  .reg .pred one, first, p;
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 empty;
  .loc 1 10 1
  mov.u32 t, %tid.x;
  setp.eq.u32 one, t, 0;
  setp.lt.u32 first, t, 32;
  @one mbarrier.init.shared::cta.b64 [full], 1;
  @one mbarrier.init.shared::cta.b64 [empty], 1;
  bar.sync 0;
  .loc 1 20 3
  @!first bra CONSUME;
  .loc 1 30 1, function_name $name0, inlined_at 1 20 3
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 p, [empty], 0;
  @!p bra EMPTY;
  bra END;
  .loc 1 21 3
CONSUME:
  .loc 1 40 1, function_name $name1, inlined_at 1 21 3
  .loc 1 50 1, function_name $name2, inlined_at 1 40 1
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 p, [full], 0;
  @!p bra FULL;
  .loc 1 60 1
END:
  ret;
}
)";
  Buffers buffers(1, std::vector<uint32_t>(1));
  const std::string error =
      run_module(std::string(kPtx) + kFunctionNames, "k", buffers, {.threads = {64, 1, 1}}).error;
  EXPECT_NE(error.find("(pipe.cu:30, in produce): mbarrier.try_wait"), std::string::npos) << error;
  EXPECT_NE(error.find("(pipe.cu:50, in consume: helper): mbarrier.try_wait"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace fa4::emulator::test
