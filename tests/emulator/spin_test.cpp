// SPDX-License-Identifier: BSD-3-Clause
// Threads that wait by looking at memory: a deadlock is found, and progress is not taken for one.
#include "emulator/spin.h"

#include <gtest/gtest.h>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

const std::string kPrelude = R"(
  .reg .b64 P;
  .reg .b32 a, b, t, cta, ctas;
  .reg .pred p, q;
  ld.param.u64 P, [p0];
  mov.u32 t, %tid.x;
  mov.u32 cta, %ctaid.x;
  mov.u32 ctas, %nctaid.x;
)";

struct Seen {
  Ran ran;
  std::vector<uint32_t> out;
};
Seen run(const std::string& body, const LaunchConfig& config, const RunOptions& options = {}) {
  Buffers buffers(1, std::vector<uint32_t>(16));
  const Ran ran = run_body(kPrelude + body, buffers, config, options);
  return {ran, buffers[0]};
}

void expect_deadlock(const std::string& body, const LaunchConfig& config, const std::string& part,
                     const RunOptions& options = {}) {
  const Ran ran = run(body, config, options).ran;
  EXPECT_NE(ran.error.find("deadlock"), std::string::npos) << ran.error;
  EXPECT_NE(ran.error.find(part), std::string::npos) << ran.error;
}

/// CTA after CTA takes its turn at a word in memory.
const std::string kTurns = R"(
  WAIT:
    ld.acquire.gpu.global.u32 a, [P];
    setp.ne.u32 p, a, cta;
    @p bra WAIT;
    add.u32 a, a, 1;
    st.release.gpu.global.u32 [P], a;
)";

TEST(Spin, TurnsOfClustersAreTaken) {
  for (const uint32_t workers : {1u, 3u}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      RunOptions options{.seed = seed, .schedule = static_cast<Schedule>(seed % 2)};
      options.workers = workers;
      options.resident_clusters = 3;
      options.checks = workers == 1 ? Checks::kErrors : Checks::kOff;
      const Unjudged several_workers;
      const Seen r = run(kTurns, {.blocks = {40, 1, 1}, .threads = {1, 1, 1}}, options);
      EXPECT_EQ(r.ran.error, "");
      EXPECT_EQ(r.out[0], 40u);
    }
  }
}

TEST(Spin, ATurnThatNeverComes) {
  const Unjudged unjudged;
  for (const uint32_t workers : {1u, 4u}) {
    for (const Schedule schedule : {Schedule::kRandom, Schedule::kPriority}) {
      RunOptions options{.schedule = schedule};
      options.workers = workers;
      options.resident_clusters = 2;
      // The last of the CTAs waits for a number that nobody writes.
      expect_deadlock("setp.eq.u32 p, cta, 7;\n@p mov.u32 cta, 100;\n" + kTurns,
                      {.blocks = {8, 1, 1}, .threads = {1, 1, 1}},
                      "warp 0 of CTA (7, 0, 0), PTX line ", options);
    }
  }
}

/// The clusters that are resident wait for one that never gets a place.
TEST(Spin, NobodyLeavesForTheOneAwaited) {
  expect_deadlock("sub.u32 cta, ctas, cta;\nsub.u32 cta, cta, 1;\n" + kTurns,
                  {.blocks = {9, 1, 1}, .threads = {1, 1, 1}}, "go round in a loop");
}

TEST(Spin, ALockThatIsKept) {
  expect_deadlock(R"(
    LOCK:
      atom.acquire.gpu.global.cas.b32 a, [P], 0, 1;
      setp.ne.u32 p, a, 0;
      @p bra LOCK;
  )",
                  {.blocks = {2, 1, 1}, .threads = {64, 1, 1}}, "go round in a loop");
}

/// Lane 0 looks at memory, its warp waits for it, and another warp waits for both.
TEST(Spin, SaysWhoWaitsForWhat) {
  const std::string body = R"(
    setp.ne.u32 p, t, 0;
    @p bra MEET;
  WAIT:
    ld.volatile.global.u32 a, [P+8];
    setp.eq.u32 p, a, 0;
    nanosleep.u32 20;
    @p bra WAIT;
  MEET:
    bar.sync 0;
  )";
  const LaunchConfig config{.threads = {64, 1, 1}};
  expect_deadlock(body, config, "lanes 0x1 go round in a loop, and nothing changes what they look");
  expect_deadlock(body, config, "lanes 0xfffffffe wait for the other lanes of the warp");
  expect_deadlock(body, config, "bar.sync: lanes 0xffffffff wait for barrier 0: 32 threads of all");
}

/// Two halves of a warp, each in a loop of its own.
TEST(Spin, SplitsOfAWarp) {
  expect_deadlock(R"(
    setp.lt.u32 p, t, 16;
    @p bra LOW;
  HIGH:
    ld.volatile.global.u32 a, [P];
    setp.eq.u32 q, a, 0;
    @q bra HIGH;
    ret;
  LOW:
    ld.volatile.global.u32 b, [P+4];
    setp.eq.u32 q, b, 0;
    @q bra LOW;
  )",
                  {.threads = {32, 1, 1}}, "lanes 0xffff go round");
  const Seen r = run(R"(
    setp.lt.u32 p, t, 16;
    @p bra LOW;
  HIGH:
    ld.relaxed.gpu.global.u32 a, [P];
    setp.eq.u32 q, a, 0;
    @q bra HIGH;
    ret;
  LOW:
    mov.u32 b, 0;
  MORE:
    add.u32 b, b, 1;
    setp.lt.u32 q, b, 50000;
    @q bra MORE;
    st.relaxed.gpu.global.u32 [P], 1;
  )",
                     {.threads = {32, 1, 1}});
  EXPECT_EQ(r.ran.error, "");
}

/// With the latest timing a copy completes when nothing else can go on: test_wait never waits.
TEST(Spin, WaitsThatOnlyTest) {
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    const Seen r = run(R"(
      .shared .align 16 .b8 data[64];
      .shared .align 8 .b64 bar;
      mbarrier.init.shared::cta.b64 [bar], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [P], 16, [bar];
    WAIT:
      mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
      @!p bra WAIT;
      ld.shared.u32 a, [data];
      add.u32 a, a, 5;
      st.global.u32 [P+4], a;
    )",
                       {.threads = {1, 1, 1}}, {.timing = timing});
    EXPECT_EQ(r.ran.error, "");
    EXPECT_EQ(r.out[1], 5u);
  }
}

/// What changes in a loop is progress, be it a register or the time.
TEST(Spin, LoopsThatEndAreNoDeadlock) {
  for (const char* body :
       {"mov.u32 a, 0;\nL: add.u32 a, a, 1;\nsetp.lt.u32 p, a, 300000;\n@p bra L;",
        "mov.u32 b, %clock;\nL: mov.u32 a, %clock;\nsub.u32 a, a, b;\nsetp.lt.u32 p, a, 300000;\n"
        "@p bra L;",
        "L: atom.global.add.u32 a, [P], 1;\nsetp.lt.u32 p, a, 100000;\n@p bra L;"}) {
    EXPECT_EQ(run(body, {.threads = {1, 1, 1}}).ran.error, "") << body;
  }
}

TEST(SpinVote, NeedsEveryWorkerInOneRound) {
  SpinVote vote;
  vote.start(2);
  uint64_t first = 0, second = 0;
  vote.wait();
  EXPECT_EQ(vote.round(), 0u);
  vote.wait();
  const uint64_t round = vote.round();
  EXPECT_NE(round, 0u);
  EXPECT_FALSE(vote.confirm(round, first));
  EXPECT_FALSE(vote.confirm(round, first));  // counts once
  vote.go_on();
  vote.wait();
  EXPECT_FALSE(vote.confirm(round, second));  // of a round that is over
  const uint64_t next = vote.round();
  EXPECT_FALSE(vote.confirm(next, second));
  EXPECT_TRUE(vote.confirm(next, first));
}

}  // namespace
}  // namespace fa4::emulator::test
