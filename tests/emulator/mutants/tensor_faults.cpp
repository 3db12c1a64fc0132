// SPDX-License-Identifier: BSD-3-Clause
// Faults of the tcgen05 kernels, written by hand.
#include "emulator/mutants/mutant.h"

namespace fa4::emulator::mutants {
namespace {

const std::vector<std::string> kAlone = {"gemm", "gemm_tensor"};
const std::vector<std::string> kAll = {"gemm", "gemm_pair", "gemm_tensor"};
const std::vector<std::string> kPair = {"gemm_pair"};
const std::vector<std::string> kChain = {"chain"};

Mutant fault(const char* name, const char* kind, const std::vector<std::string>& where,
             const char* find, const char* replace, const char* why) {
  Mutant m;
  m.name = name;
  m.kind = kind;
  m.victims = where;
  m.patch = {"", find, replace};
  m.why = why;
  return m;
}

std::vector<Mutant> products() {
  return {
      fault("gemm_no_proxy_fence", "fence", kAll, "fence.proxy.async.shared::cta;\n", "",
            "the product reads by another path what ordinary instructions wrote"),
      fault("gemm_no_sync_of_tiles", "barrier", kAll,
            "fence.proxy.async.shared::cta;\n    bar.sync 0;", "fence.proxy.async.shared::cta;",
            "the address of tensor memory and the barrier may not be there yet"),
      fault("gemm_no_wait_st", "wait", kAll, "tcgen05.wait::st.sync.aligned;", "",
            "the product may run before the stores to tensor memory"),
      fault("gemm_no_fence_before", "fence", kAll,
            "tcgen05.wait::st.sync.aligned;\n    tcgen05.fence::before_thread_sync;",
            "tcgen05.wait::st.sync.aligned;",
            "stores to tensor memory are not ordered before the barrier"),
      fault("gemm_no_fence_after", "fence", kAll, "tcgen05.fence::after_thread_sync;\n    @!leader",
            "@!leader", "products are not ordered after the barrier"),
      fault("gemm_result_not_awaited", "wait", kAll, "@!done bra ISSUED;", "",
            "D is read before the products are complete"),
      fault("gemm_no_fence_of_result", "fence", kAll,
            "@!done bra ISSUED;\n    tcgen05.fence::after_thread_sync;", "@!done bra ISSUED;",
            "loads are not ordered after the wait"),
      fault("gemm_other_parity", "phase", kAll, "done, [bar], 0;", "done, [bar], 1;",
            "waits for the phase before the first, which has passed"),
      fault("gemm_half_freed", "lifetime", kAll, "b32 base, 512;\nFREED", "b32 base, 256;\nFREED",
            "other columns are freed than were allocated"),
      fault("gemm_never_freed", "lifetime", kAll, "@!first bra FREED;", "bra FREED;",
            "the kernel ends with columns allocated"),
      fault("gemm_freed_early", "lifetime", kAlone,
            "tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    @!first bra FREED;",
            "tcgen05.fence::before_thread_sync;\n    @!first bra FREED;",
            "other warps may still load what is freed"),
      fault("gemm_too_few_columns", "lifetime", kAll, "[slot], 512;", "[slot], 128;",
            "columns are used that were not allocated"),
      fault("gemm_lane_lost", "aliasing", kAll, "shl.b32 own, warp, 21;", "mov.u32 own, 0;",
            "a warp reaches its own quarter of the lanes only"),
      fault("gemm_loads_not_awaited", "wait", kAll, "tcgen05.wait::ld.sync.aligned;", "",
            "loads may still run when the columns are freed"),
      fault("pair_commit_to_one", "barrier", kPair, "multicast::cluster.b64 [bar], 3;",
            "multicast::cluster.b64 [bar], 1;", "the other CTA waits for ever"),
      fault("pair_both_issue", "order", kPair, "@!even bra ISSUED;", "",
            "products of a pair are one thread's"),
      fault(
          "pair_freed_early", "lifetime", kPair,
          "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n    @!first bra FREED;",
          "@!first bra FREED;", "other warps and the other CTA may still load what is freed"),
      fault("pair_no_cluster_sync", "barrier", kPair,
            "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n    "
            "tcgen05.fence::after",
            "bar.sync 0;\n    tcgen05.fence::after", "the other CTA's tiles may not be there"),
  };
}

std::vector<Mutant> chain() {
  return {
      fault("chain_no_proxy_fence", "fence", kChain, "ptx::fence_async_shared();", "",
            "the product reads by another path what ordinary instructions wrote"),
      fault("chain_no_fence_of_init", "fence", kChain, "ptx::fence_mbarrier_init();", "",
            "commits complete on barriers whose initialisation they need not see"),
      fault("chain_p_no_fence_before", "fence", kChain,
            "ptx::tensor_fence_before();\n    ptx::mbarrier_arrive(&p_full);",
            "ptx::mbarrier_arrive(&p_full);", "stores of P are not ordered before the arrival"),
      fault("chain_p_no_fence_after", "fence", kChain,
            "ptx::mbarrier_wait(&p_full, 0);\n      ptx::tensor_fence_after();",
            "ptx::mbarrier_wait(&p_full, 0);", "products are not ordered after the wait"),
      fault("chain_s_no_fence_after", "fence", kChain,
            "ptx::mbarrier_wait(&s_full, 0);\n    ptx::tensor_fence_after();",
            "ptx::mbarrier_wait(&s_full, 0);", "loads of S are not ordered after the wait"),
      fault("chain_o_no_fence_after", "fence", kChain,
            "ptx::mbarrier_wait(&o_full, 0);\n    ptx::tensor_fence_after();",
            "ptx::mbarrier_wait(&o_full, 0);", "loads of O are not ordered after the wait"),
      fault("chain_p_arrives_early", "order", kChain,
            "ptx::tensor_wait_store();\n    ptx::tensor_fence_before();\n    "
            "ptx::mbarrier_arrive(&p_full);",
            "ptx::mbarrier_arrive(&p_full);\n    ptx::tensor_wait_store();\n    "
            "ptx::tensor_fence_before();",
            "the product may read P before it is stored"),
      fault("chain_freed_early", "lifetime", kChain,
            "  __syncthreads();\n  if (warp == 4) ptx::tensor_dealloc",
            "  if (warp == 4) ptx::tensor_dealloc", "other warps may still load what is freed"),
      fault("chain_freed_without_fence", "fence", kChain,
            "ptx::tensor_fence_before();\n  }\n  __syncthreads();", "}\n  __syncthreads();",
            "loads are not ordered before the barrier and the freeing after it"),
      fault("chain_relinquished_first", "lifetime", kChain,
            "ptx::tensor_alloc<1>(&slot, kColumns);\n    ptx::tensor_relinquish<1>();",
            "ptx::tensor_relinquish<1>();\n    ptx::tensor_alloc<1>(&slot, kColumns);",
            "allocates after it has given up the right to"),
      fault("chain_tile_rows_shifted", "aliasing", kChain, "load_tile(tile_v, v, tid);",
            "load_tile(tile_k, v, tid);", "V overwrites K, and its own place stays unwritten"),
      fault("chain_no_sync_of_init", "barrier", kChain, "__syncthreads();\n  const u32 memory",
            "const u32 memory",
            "the address of tensor memory and the barriers may not be there yet"),
  };
}

}  // namespace

std::vector<Mutant> tensor_faults() {
  std::vector<Mutant> all = products();
  for (Mutant& m : chain()) all.push_back(std::move(m));
  return all;
}

}  // namespace fa4::emulator::mutants
