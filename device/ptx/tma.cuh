// SPDX-License-Identifier: BSD-3-Clause
// The bulk tensor copy engine. Coordinates are elements, innermost dimension first; what a box
// covers outside the tensor reads as zero and is not written.
#pragma once

#include "ptx/types.cuh"

namespace fa4::ptx {

// 9.7.9.27 prefetch.tensormap
__device__ inline void tensormap_prefetch(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// 9.7.9.27.1.2 cp.async.bulk.tensor: global to shared, completing on an mbarrier
__device__ inline void tma_load_4d(void* shared, const TensorMap* map, u64* barrier, i32 c0, i32 c1,
                                   i32 c2, i32 c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// The same into the same place of every CTA of the cluster that `ctas` has a bit of.
__device__ inline void tma_load_4d_multicast(void* shared, const TensorMap* map, u64* barrier,
                                             u16 ctas, i32 c0, i32 c1, i32 c2, i32 c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "h"(ctas), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ inline void tma_load_5d(void* shared, const TensorMap* map, u64* barrier, i32 c0, i32 c1,
                                   i32 c2, i32 c3, i32 c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// 9.7.9.27.1.2 cp.async.bulk.tensor: shared to global, in the thread's current bulk group
__device__ inline void tma_store_5d(const TensorMap* map, const void* shared, i32 c0, i32 c1,
                                    i32 c2, i32 c3, i32 c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// 9.7.9.27.2.1 cp.async.bulk.commit_group
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// 9.7.9.27.2.2 cp.async.bulk.wait_group.read: all groups have read their shared memory
__device__ inline void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// 9.7.9.27.2.2 cp.async.bulk.wait_group: all groups are complete
__device__ inline void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace fa4::ptx
