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

// 9.7.9.23 mapa: the shared::cluster address of what lies at the same place in another CTA
__device__ inline u32 map_shared(const void* p, u32 rank) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(p)), "r"(rank));
  return address;
}

// 9.7.13.15.13 mbarrier.arrive at another CTA's barrier, by its shared::cluster address
__device__ inline void mbarrier_arrive_remote(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

}  // namespace fa4::ptx
