// SPDX-License-Identifier: BSD-3-Clause
// Products on the tensor core: what nobody wrote, what nothing orders, fences between threads.
#include "emulator/judge/rule_case.h"

namespace fa4::emulator::test {
namespace {

/// A and B are the data, of which all is written: DA is their descriptor, b the instruction's: 128
/// x 16 x 16, bfloat16 to float32. p: not accumulating. Column 16 of the allocation is A's in
/// tensor memory.
const std::string kOperands = kBarrier + R"(
    mov.b64 DA, 0x0000401000080040;
)" + kFill + R"(
    mov.u32 b, 0x08040490;
    setp.ne.u32 p, 0, 0;
)" + kAllocated;
const std::string kMma = R"(
    @one tcgen05.mma.cta_group::1.kind::f16 [base], DA, DA, b, p;
)";
const std::string kCommit = R"(
    @one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
)";
const std::string kAfter = "    tcgen05.fence::after_thread_sync;\n";
const std::string kEnd = kCommit + kWait + kAfter + kFree;

const RuleCase kCases[] = {
    {"AddsToWhatNobodyWrote", Rule::kTensorUndefined, kOperands + R"(
-   setp.eq.u32 p, 0, 0;
)" + kMma + kEnd,
     128},
    {"AOfTensorMemoryThatNobodyWrote", Rule::kTensorUndefined, kOperands + R"(
+   tcgen05.st.sync.aligned.32x32b.x8.b32 [own+16], {tid, tid, tid, tid, tid, tid, tid, tid};
-   tcgen05.st.sync.aligned.32x32b.x4.b32 [own+16], {tid, tid, tid, tid};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    add.u32 c, base, 16;
    @one tcgen05.mma.cta_group::1.kind::f16 [base], [c], DA, b, p;
)" + kEnd,
     128},
    {"ResultReadBeforeItIsThere", Rule::kTensorRace, kOperands + kMma + kCommit + R"(
+WAIT:
+   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
+   @!done bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {c}, [own];
    tcgen05.wait::ld.sync.aligned;
-WAIT:
-   mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
-   @!done bra WAIT;
)" + kFree,
     128},
    {"StoreThatNothingOrders", Rule::kTensorRace, kOperands + R"(
    tcgen05.st.sync.aligned.32x32b.x8.b32 [own+16], {tid, tid, tid, tid, tid, tid, tid, tid};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
-   @!first tcgen05.st.sync.aligned.32x32b.x1.b32 [own+16], {tid};
-   @!first tcgen05.wait::st.sync.aligned;
    add.u32 c, base, 16;
    @one tcgen05.mma.cta_group::1.kind::f16 [base], [c], DA, b, p;
)" + kEnd,
     128},
    {"NoFenceBefore", Rule::kTensorFence, kOperands + R"(
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {tid};
    tcgen05.wait::st.sync.aligned;
+   tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
)" + kMma + kEnd,
     128},
    {"NoFenceAfter", Rule::kTensorFence, kOperands + R"(
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {tid};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
+   tcgen05.fence::after_thread_sync;
)" + kMma + kEnd,
     128},
    {"NoFenceBehindACommit", Rule::kTensorFence, kOperands + kMma + kCommit + kWait + R"(
+   tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {c}, [own];
    tcgen05.wait::ld.sync.aligned;
)" + kFree,
     128},
};

class Tensor : public testing::TestWithParam<RuleCase> {};
TEST_P(Tensor, IsFound) { check_rule(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Judge, Tensor, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace fa4::emulator::test
