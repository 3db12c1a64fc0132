// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/rules.h"

namespace fa4::emulator {
namespace {

using enum Level;

constexpr RuleText kTable[] = {
    {Rule::kRegisterUndefined, "register-undefined", kError,
     "a register or predicate that nothing defined is computed with, is an address, or is stored "
     "to "
     "global memory",
     "5.1"},
    {Rule::kLocalUndefined, "local-undefined", kError,
     "a value from local memory that nobody wrote is used", "5.1.5"},
    {Rule::kSharedUndefined, "shared-undefined", kError,
     "a value from shared memory that nobody wrote is used, or read by a copy or a product",
     "5.1.7"},
    {Rule::kTensorUndefined, "tensor-undefined", kError,
     "a value from tensor memory that nobody wrote is used, or read by a product", "9.7.16.1"},
    {Rule::kSharedRace, "shared-race", kError,
     "two accesses to shared memory, one of them a write, that nothing orders", "8.9"},
    {Rule::kWarpRace, "warp-race", kError,
     "a shared-race between two lanes of a warp: bar.warp.sync is missing", "8.9"},
    {Rule::kGlobalRace, "global-race", kError,
     "two accesses to global memory, one of them a write, that nothing orders", "8.9"},
    {Rule::kProxyFence, "proxy-fence", kError,
     "an asynchronous copy or a product reads what threads wrote, with no fence.proxy.async "
     "between",
     "9.7.13.4, 8.6"},
    {Rule::kProxyOrder, "proxy-order", kWarning,
     "an asynchronous copy overwrites what threads wrote, with no fence.proxy.async between",
     "9.7.13.4, 8.6"},
    {Rule::kMbarrierInitFence, "mbarrier-init-fence", kError,
     "an asynchronous operation or another CTA uses an mbarrier after whose initialisation there "
     "was "
     "neither fence.mbarrier_init, nor fence.proxy.async, nor a cluster barrier",
     "9.7.13.15.9"},
    {Rule::kMbarrierOvertaken, "mbarrier-overtaken", kError,
     "a phase that a thread waits for is over, and the next one too, before the thread has seen it",
     "9.7.13.15.16"},
    {Rule::kMbarrierSkipped, "mbarrier-skipped", kWarning,
     "a thread that has waited at an mbarrier missed two phases or more: the parity is ambiguous",
     "9.7.13.15.16"},
    {Rule::kMbarrierScope, "mbarrier-scope", kWarning,
     "an arrival of .cta scope at an mbarrier of another CTA orders nothing for that CTA",
     "9.7.13.15.13"},
    {Rule::kMbarrierBytesAtExit, "mbarrier-bytes-at-exit", kError,
     "a CTA exits while one of its mbarriers awaits bytes", "9.7.13.15"},
    {Rule::kWgmmaFence, "wgmma-fence", kError,
     "a wgmma without wgmma.fence before the first one, or after its registers were written",
     "9.7.15.7.1"},
    {Rule::kWgmmaRegisters, "wgmma-registers", kError,
     "registers of a wgmma in flight are touched before its wgmma.wait_group", "9.7.15.7.1"},
    {Rule::kTensorRace, "tensor-race", kError,
     "two accesses to tensor memory, one of them a write, that nothing orders", "9.7.16.6"},
    {Rule::kTensorLoadWait, "tensor-load-wait", kWarning,
     "tensor memory is overwritten after a tcgen05.ld for which no tcgen05.wait::ld was done",
     "9.7.16.8.5"},
    {Rule::kTensorStoreWait, "tensor-store-wait", kError,
     "tensor memory is used after a tcgen05.st for which no tcgen05.wait::st was done",
     "9.7.16.8.5"},
    {Rule::kTensorFence, "tensor-fence", kWarning,
     "tcgen05 operations of two threads are ordered by a barrier, but without "
     "tcgen05.fence::before_thread_sync or ::after_thread_sync",
     "9.7.16.11"},
    {Rule::kTensorDealloc, "tensor-dealloc", kError,
     "tensor memory is deallocated while an access to it may still be under way", "9.7.16.7"},
    {Rule::kExitBulkStore, "exit-bulk-store", kWarning,
     "a thread exits while its bulk stores may still read shared memory", "9.7.9.25.2"},
    {Rule::kExitCopy, "exit-copy", kError,
     "a CTA exits and none of its threads has waited for a copy into its shared memory",
     "9.7.9.25"},
    {Rule::kExitProduct, "exit-product", kError,
     "a warp or CTA exits before its wgmma or tcgen05 operations were waited for",
     "9.7.15, 9.7.16"},
    {Rule::kExitPeer, "exit-peer", kError,
     "a CTA exits while another one of the cluster may still access its shared memory", "5.1.7"},
};
static_assert(sizeof kTable / sizeof kTable[0] == kRules);

}  // namespace

std::span<const RuleText> all_rules() { return kTable; }
const RuleText& text_of(Rule rule) { return kTable[static_cast<int>(rule)]; }

}  // namespace fa4::emulator
