// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/rules.h"

namespace fa4::emulator {
namespace {

using enum Level;

constexpr RuleText kTable[] = {
    {Rule::kRegisterUndefined, "register-undefined", kError,
     "a register or predicate that nothing defined is computed with, is an address, or is stored "
     "to global memory",
     "5.1"},
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
    {Rule::kTensorMapFence, "tensor-map-fence", kError,
     "a tensor copy uses a map in global memory that a thread of the launch wrote, and no thread "
     "of "
     "its CTA has done fence.proxy.tensormap::generic.acquire of the map since",
     "9.7.13.4, 9.7.13.16"},
    {Rule::kMbarrierInitFence, "mbarrier-init-fence", kError,
     "another CTA, or a copy that it started, uses an mbarrier, and nothing orders that after the "
     "initialisation: neither fence.mbarrier_init before a relaxed cluster barrier, nor release "
     "and "
     "acquire",
     "9.7.13.4"},
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
    {Rule::kDeadlock, "deadlock", kError, "nothing can run and nothing is in flight", "9.7.13",
     true},
    {Rule::kOutOfBounds, "out-of-bounds", kError,
     "an access outside of an allocation, of shared or local memory, of the parameters", "5.1",
     true},
    {Rule::kMisaligned, "misaligned", kError, "an address that is no multiple of the access's size",
     "6.4.1.1", true},
    {Rule::kReadOnly, "read-only", kError, "a write to parameters or constant memory", "5.1", true},
    {Rule::kMbarrierMissing, "mbarrier-missing", kError,
     "use of an mbarrier that was not initialised", "9.7.13.15.9", true},
    {Rule::kMbarrierReinit, "mbarrier-reinit", kError,
     "an mbarrier in use is initialised again without mbarrier.inval", "9.7.13.15.9", true},
    {Rule::kMbarrierOverwritten, "mbarrier-overwritten", kError,
     "something else was written over an mbarrier", "9.7.13.15", true},
    {Rule::kMbarrierCount, "mbarrier-count", kError,
     "an mbarrier for a number of arrivals that it can't have, or more arrivals than are pending",
     "9.7.13.15.4", true},
    {Rule::kMbarrierBytes, "mbarrier-bytes", kError,
     "a transaction count beyond 2^20 - 1 in either direction", "9.7.13.15.5", true},
    {Rule::kNamedBarrier, "named-barrier", kError,
     "a number beyond 15, or thread counts that disagree or are exceeded", "9.7.13.1", true},
    {Rule::kTensorAllocation, "tensor-allocation", kError,
     "tensor memory freed twice, never freed, allocated after relinquish_alloc_permit or with a "
     "number of columns that is not allowed",
     "9.7.16.7", true},
    {Rule::kTensorUnallocated, "tensor-unallocated", kError,
     "an access to columns of tensor memory that are not allocated", "9.7.16.7", true},
    {Rule::kTensorForeignLanes, "tensor-lanes", kError,
     "tcgen05.ld or st of lanes that belong to another warp", "9.7.16.8.1", true},
    {Rule::kWgmmaDiffers, "wgmma-differs", kError,
     "the warps of a warpgroup issue different products", "9.7.15", true},
};
static_assert(sizeof kTable / sizeof kTable[0] == kRules);

}  // namespace

std::span<const RuleText> all_rules() { return kTable; }
const RuleText& text_of(Rule rule) { return kTable[static_cast<int>(rule)]; }

}  // namespace fa4::emulator
