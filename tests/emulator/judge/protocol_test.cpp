// SPDX-License-Identifier: BSD-3-Clause
// mbarriers, wgmma, tensor memory, exits.
#include <fstream>
#include <iterator>
#include <string>

#include "emulator/judge/rule_case.h"
#include "support/places.h"

namespace fa4::emulator::test {
namespace {

/// Both operands are the data, of which all is written.
const std::string kProduct = R"(
    mov.b64 DA, 0x0000001000080040;
)" + kFill + R"(
    mov.f32 f0, 0f00000000;
    mov.f32 f1, f0;
    mov.f32 f2, f0;
    mov.f32 f3, f0;
)";
const std::string kMma =
    "    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, DA, DA, 1, 1, 1, 0, "
    "0;\n    wgmma.commit_group.sync.aligned;\n";

/// The odd CTA arrives at the even one's mbarrier, which waits.
const std::string kArriveAtTheOther = R"(
    mapa.shared::cluster.u32 far, bar, 0;
    @even bra WAIT;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [far];
    bra END;
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [bar], 0;
    @!done bra WAIT;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
)";

const RuleCase kCases[] = {
    {"InitWithoutFence", Rule::kMbarrierInitFence, R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
+   @one fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
)" + kArriveAtTheOther,
     1, 2},
    {"InitWithAnotherFence", Rule::kMbarrierInitFence, R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
-   @one fence.proxy.async.shared::cta;
+   @one fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
)" + kArriveAtTheOther,
     1, 2},
    // A release and an acquire order everything: no fence is needed.
    {"InitBeforeACommonBarrier", Rule::kMbarrierInitFence, R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
-   barrier.cluster.arrive.relaxed;
+   barrier.cluster.arrive;
    barrier.cluster.wait;
)" + kArriveAtTheOther,
     1, 2},
    // A copy of the own CTA comes to its mbarrier by the generic proxy (9.7.9.25): a barrier of
    // threads is enough.
    {"InitUnknownToTheCopy", Rule::kSharedRace, R"(
    setp.eq.u32 p, tid, 32;
    @p mbarrier.init.shared::cta.b64 [bar], 1;
+   bar.sync 0;
-   @one nanosleep.u32 100;
)" + kLoad + kWait,
     64, 1, false},
    // So does cp.async.mbarrier.arrive, also where there was an mbarrier before.
    {"InitUnknownToTheArrival", Rule::kSharedRace, kBarrier + R"(
    setp.eq.u32 p, tid, 32;
    @p mbarrier.inval.shared::cta.b64 [bar];
    @p mbarrier.init.shared::cta.b64 [bar], 1;
+   bar.sync 0;
-   @one nanosleep.u32 100;
    @one cp.async.ca.shared.global [smem], [IN], 16;
    @one cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];
)" + kWait,
     64, 1, false},
    {"InitNotKnown", Rule::kSharedRace, R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
    @one fence.mbarrier_init.release.cluster;
+   bar.sync 0;
    @one mbarrier.arrive.shared::cta.b64 _, [bar];
-   nanosleep.u32 100;
)" + kWait},
    {"Overtaken", Rule::kMbarrierOvertaken, kBarrier + R"(
    @first bra WAIT;
    mov.u32 b, 0;
    setp.ne.u32 p, lane, 0;
    @p bra END;
AGAIN:
    mbarrier.arrive.shared::cta.b64 _, [bar];
    add.u32 b, b, 1;
-   setp.lt.u32 p, b, 2;
+   setp.lt.u32 p, b, 1;
    @p bra AGAIN;
    bra END;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
    @!done bra WAIT;
END:
)",
     64, 1, false},
    {"Skipped", Rule::kMbarrierSkipped, kBarrier + R"(
    @!one bra END;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 0;
    mbarrier.arrive.shared::cta.b64 _, [bar];
+   mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 1;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 1;
END:
)"},
    {"ScopeOfTheCta", Rule::kMbarrierScope, R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
    @one fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mapa.shared::cluster.u32 far, bar, 0;
    @even bra WAIT;
-   mbarrier.arrive.shared::cluster.b64 _, [far];
+   mbarrier.arrive.release.cluster.shared::cluster.b64 _, [far];
    bra END;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
    @!done bra WAIT;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
)",
     1, 2},
    {"BytesAtExit", Rule::kMbarrierBytesAtExit, kBarrier + R"(
-   @one mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;
+   @one mbarrier.arrive.shared::cta.b64 _, [bar];
)"},
    {"WgmmaWithoutFence", Rule::kWgmmaFence,
     kProduct + "+   wgmma.fence.sync.aligned;\n" + kMma + "wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"WgmmaAfterAWrite",
     Rule::kWgmmaFence, kProduct + "    wgmma.fence.sync.aligned;\n" + kMma + R"(
    wgmma.wait_group.sync.aligned 0;
    mul.f32 f2, f2, f2;
+   wgmma.fence.sync.aligned;
)" + kMma + "wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"WgmmaResultsTooEarly", Rule::kWgmmaRegisters,
     kProduct + "    wgmma.fence.sync.aligned;\n" + kMma + R"(
+   wgmma.wait_group.sync.aligned 0;
    mul.f32 f4, f2, f2;
    wgmma.wait_group.sync.aligned 0;
)",
     128},
    {"WgmmaAtExit", Rule::kExitProduct,
     kProduct + "    wgmma.fence.sync.aligned;\n" + kMma + "+   wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"WgmmaStillReads", Rule::kSharedRace, kProduct + "    wgmma.fence.sync.aligned;\n" + kMma + R"(
+   wgmma.wait_group.sync.aligned 0;
    bar.sync 0;
    st.shared.u32 [a], tid;
    wgmma.wait_group.sync.aligned 0;
)",
     128},
    {"TensorStoreNotAwaited", Rule::kTensorStoreWait, kAllocate + R"(
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {lane};
+   tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {b}, [own];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.wait::st.sync.aligned;
)" + kFree},
    {"TensorLoadNotAwaited", Rule::kTensorLoadWait, kAllocate + R"(
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {b}, [own];
    add.u32 c, b, 1;
+   tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {c};
    tcgen05.wait::st.sync.aligned;
    tcgen05.wait::ld.sync.aligned;
)" + kFree},
    {"TensorMemoryFreedTooEarly", Rule::kTensorDealloc, kAllocate + R"(
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {b}, [own];
    add.u32 c, b, 1;
+   tcgen05.wait::ld.sync.aligned;
)" + kFree},
    {"BulkStoreAtExit", Rule::kExitBulkStore, R"(
    @!one bra END;
    st.shared.v4.u32 [smem], {1, 2, 3, 4};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [OUT], [smem], 16;
    cp.async.bulk.commit_group;
+   cp.async.bulk.wait_group.read 0;
END:
)"},
    {"CopyAtExit", Rule::kExitCopy, kBarrier + kLoad + R"(
+WAIT:
+   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
+   @!done bra WAIT;
)"},
    {"PeerAtExit", Rule::kExitPeer, R"(
    mapa.shared::cluster.u32 far, smem, 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!even st.shared::cluster.u32 [far], tid;
+   barrier.cluster.arrive;
+   barrier.cluster.wait;
)",
     1, 2},
};

class Protocol : public testing::TestWithParam<RuleCase> {};
TEST_P(Protocol, IsFound) { check_rule(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Judge, Protocol, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

/// A list that code and docs share: names are unique and every rule has its text.
TEST(JudgeRules, AreAList) {
  int number = 0;
  for (const RuleText& text : all_rules()) {
    EXPECT_EQ(static_cast<int>(text.rule), number++);
    for (const RuleText& other : all_rules()) {
      EXPECT_TRUE(text.rule == other.rule || text.name != other.name) << text.name;
    }
    EXPECT_FALSE(text.meaning.empty() || text.section.empty()) << text.name;
  }
}

/// docs/emulator.md has the list's rows, to the letter.
TEST(JudgeRules, StandInTheDocs) {
  std::ifstream file(std::string(fa4::test::kSourceFolder) + "/docs/emulator.md");
  const std::string docs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const RuleText& text : all_rules()) {
    const std::string row = "| `" + std::string(text.name) + "` | " +
                            (text.level == Level::kError ? "error" : "warning") + " | " +
                            std::string(text.meaning) + " | " + std::string(text.section) + " |";
    EXPECT_NE(docs.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace fa4::emulator::test
