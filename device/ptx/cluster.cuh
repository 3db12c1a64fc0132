// SPDX-License-Identifier: BSD-3-Clause
// Clusters: CTAs that reach each other's shared memory.
#pragma once

#include "ptx/types.cuh"

namespace fa4::ptx {

// 10.12 %cluster_ctarank: this CTA's number in its cluster
__device__ inline u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// 9.7.13.3 barrier.cluster.arrive
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// 9.7.13.3 barrier.cluster.wait
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// All threads of the cluster meet.
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// 9.7.9.23 mapa: the shared::cluster address of what lies at the same place in another CTA
__device__ inline u32 map_shared(const void* p, u32 rank) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(p)), "r"(rank));
  return address;
}

// 9.7.13.15.13 mbarrier.arrive at a barrier of the cluster, by its shared::cluster address
__device__ inline void mbarrier_arrive_remote(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/// The same without .cluster scope, which costs a MEMBAR a warp. By the letter of PTX it orders
/// nothing for another CTA; enough where what came before were reads that are over, as an arrival
/// cannot overtake them.
__device__ inline void mbarrier_arrive_remote_after_reads(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// 9.7.9.12 st.async: a word to another CTA's shared memory, which completes on an mbarrier there
__device__ inline void store_remote(u32 address, u32 x, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
          address),
      "r"(x), "r"(barrier)
      : "memory");
}

}  // namespace fa4::ptx
