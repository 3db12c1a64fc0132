// SPDX-License-Identifier: BSD-3-Clause
// Accesses that nothing orders, and missing fences between proxies.
#include "emulator/judge/rule_case.h"

namespace fa4::emulator::test {
namespace {

const RuleCase kCases[] = {
    {"Barrier", Rule::kSharedRace, R"(
    @one st.shared.u32 [smem], tid;
+   bar.sync 0;
    ld.shared.u32 b, [smem];
)"},
    {"OverwriteAfterRead", Rule::kSharedRace, R"(
    st.shared.u32 [a], tid;
    bar.sync 0;
    xor.b32 b, tid, 32;
    shl.b32 b, b, 2;
    add.u32 b, b, smem;
    ld.shared.u32 c, [b];
+   bar.sync 0;
    st.shared.u32 [a], c;
)"},
    {"AnotherNamedBarrier", Rule::kSharedRace, R"(
    @first st.shared.u32 [smem], 5;
    @first bar.arrive 1, 64;
-   @!first bar.sync 2, 32;
+   @!first bar.sync 1, 64;
    @!first ld.shared.u32 b, [smem];
-   @!first bar.sync 1, 64;
)"},
    {"Mbarrier", Rule::kSharedRace, kBarrier + R"(
    @one st.shared.u32 [smem], 5;
    @one mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
-WAIT:
-   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 1;
-   @!done bra WAIT;
+WAIT:
+   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
+   @!done bra WAIT;
    @!first ld.shared.u32 b, [smem];
)"},
    {"RelaxedArrival", Rule::kSharedRace, kBarrier + R"(
    @one st.shared.u32 [smem], 5;
-   @one mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];
+   @one mbarrier.arrive.shared::cta.b64 _, [bar];
)" + kWait + R"(
    @!first ld.shared.u32 b, [smem];
)"},
    {"LanesOfAWarp", Rule::kWarpRace, R"(
    st.shared.u32 [a], tid;
+   bar.warp.sync 0xffffffff;
    xor.b32 b, tid, 1;
    shl.b32 b, b, 2;
    add.u32 b, b, smem;
    ld.shared.u32 c, [b];
)"},
    // Neighbouring lanes have written the words that are read together.
    {"FourWordsOfAnotherWarp", Rule::kSharedRace, R"(
    @first st.shared.u32 [a], tid;
+   bar.sync 0;
    and.b32 b, lane, 7;
    shl.b32 b, b, 4;
    add.u32 b, b, smem;
    @!first ld.shared.v4.u32 {b, c, d, e}, [b];
)"},
    {"FourWordsOfTheWarp", Rule::kWarpRace, R"(
    st.shared.u32 [a], tid;
+   bar.warp.sync 0xffffffff;
    and.b32 b, a, 0xfffffff0;
    ld.shared.v4.u32 {b, c, d, e}, [b];
)"},
    {"FourWordsOverwritten", Rule::kSharedRace, R"(
    @first st.shared.u32 [a], tid;
-   bar.warp.sync 0xffffffff;
+   bar.sync 0;
    and.b32 b, lane, 7;
    shl.b32 b, b, 4;
    add.u32 b, b, smem;
    setp.eq.u32 p, tid, 39;
    @p st.shared.v4.u32 [b], {b, b, b, b};
)"},
    {"EightHalvesOfAnotherWarp", Rule::kSharedRace, R"(
    mov.b32 c, 7;
    shl.b32 b, lane, 1;
    add.u32 b, b, smem;
    @first st.shared.u16 [b], c;
+   bar.sync 0;
    and.b32 b, lane, 3;
    shl.b32 b, b, 4;
    add.u32 b, b, smem;
    @!first ld.shared.v4.u32 {b, c, d, e}, [b];
)"},
    {"OneLaneArrivesForAll", Rule::kSharedRace, kBarrier + R"(
    @first st.shared.u32 [a], tid;
+   bar.warp.sync 0xffffffff;
    @one mbarrier.arrive.shared::cta.b64 _, [bar];
)" + kWait + R"(
    shl.b32 b, lane, 2;
    add.u32 b, b, smem;
    @!first ld.shared.u32 c, [b];
)"},
    {"CopyNotAwaited", Rule::kSharedRace, kBarrier + kLoad + R"(
+WAIT:
+   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
+   @!done bra WAIT;
    @first ld.shared.u32 b, [a];
-WAIT:
-   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
-   @!done bra WAIT;
)"},
    {"CopyOverWhatIsRead", Rule::kSharedRace, kBarrier + R"(
    st.shared.u32 [a], tid;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    xor.b32 b, tid, 32;
    shl.b32 b, b, 2;
    add.u32 b, b, smem;
    ld.shared.u32 c, [b];
+   bar.sync 0;
)" + kLoad + kWait},
    {"SmallCopies", Rule::kSharedRace, R"(
    cp.async.ca.shared.global [a], [IN], 4;
    cp.async.commit_group;
+   cp.async.wait_group 0;
    ld.shared.u32 b, [a];
    cp.async.wait_group 0;
)"},
    {"BulkStoreStillReads", Rule::kSharedRace, R"(
    @!one bra END;
    st.shared.v4.u32 [a], {tid, tid, tid, tid};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [OUT], [smem], 16;
    cp.async.bulk.commit_group;
+   cp.async.bulk.wait_group.read 0;
    st.shared.u32 [a], tid;
    cp.async.bulk.wait_group 0;
END:
)"},
    {"GlobalMemoryOfTwoCtas", Rule::kGlobalRace, R"(
    setp.eq.and.u32 p, tid, 0, even;
    @p st.global.u32 [OUT], tid;
+   barrier.cluster.arrive;
+   barrier.cluster.wait;
    @one ld.global.u32 b, [OUT];
)",
     32, 2},
    {"GlobalMemoryByAFlag", Rule::kGlobalRace, R"(
    @!one bra END;
    @!even bra READ;
    st.global.u32 [OUT+64], tid;
-   red.relaxed.gpu.global.add.u32 [OUT], 1;
+   red.release.gpu.global.add.u32 [OUT], 1;
    bra END;
READ:
    ld.acquire.gpu.global.u32 b, [OUT];
    setp.ne.u32 p, b, 2;
    @p bra READ;
    ld.global.u32 c, [OUT+64];
END:
)",
     32, 2},
    {"GlobalMemoryByFences", Rule::kGlobalRace, R"(
    @!one bra END;
    @!even bra READ;
    st.global.u32 [OUT+64], tid;
+   fence.acq_rel.gpu;
    red.relaxed.gpu.global.add.u32 [OUT], 1;
    bra END;
READ:
    ld.relaxed.gpu.global.u32 b, [OUT];
    setp.ne.u32 p, b, 2;
    @p bra READ;
    fence.acq_rel.gpu;
    ld.global.u32 c, [OUT+64];
END:
)",
     32, 2},
    {"PeersMemory", Rule::kSharedRace, R"(
    mapa.shared::cluster.u32 far, smem, 0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @!even st.shared::cluster.u32 [far], tid;
+   barrier.cluster.arrive;
-   barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    @even ld.shared.u32 b, [smem];
    barrier.cluster.arrive;
    barrier.cluster.wait;
)",
     1, 2},
    {"StoreReadsWhatThreadsWrote", Rule::kProxyFence, R"(
    @one st.shared.v4.u32 [smem], {1, 2, 3, 4};
+   fence.proxy.async.shared::cta;
    bar.sync 0;
    @!one bra END;
    cp.async.bulk.global.shared::cta.bulk_group [OUT], [smem], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
)"},
    {"FenceByTheReaderWillDo", Rule::kProxyFence, R"(
    setp.eq.u32 p, tid, 32;
    @p st.shared.v4.u32 [smem], {1, 2, 3, 4};
-   @p fence.proxy.async.shared::cta;
-   @p st.shared.v4.u32 [smem], {1, 2, 3, 4};
    bar.sync 0;
    @!one bra END;
+   fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [OUT], [smem], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
)"},
    {"LoadOverWhatThreadsWrote", Rule::kProxyOrder, kBarrier + R"(
    st.shared.u32 [a], tid;
+   fence.proxy.async.shared::cta;
    bar.sync 0;
)" + kLoad + kWait},
};

class Race : public testing::TestWithParam<RuleCase> {};
TEST_P(Race, IsFound) { check_rule(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Judge, Race, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace fa4::emulator::test
