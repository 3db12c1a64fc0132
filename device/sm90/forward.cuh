// SPDX-License-Identifier: BSD-3-Clause
// Attention forward for Hopper (sm_90a): O = softmax(scale * Q K^T) V, and LSE.
//
// One CTA takes tiles of query rows, one tile after another. A producer warpgroup copies Q, K and V
// to shared memory (forward_producer.cuh); each consumer warpgroup owns 64 rows and walks the keys
// from the last tile to the first, S and P and O in registers (forward_consumer.cuh):
//
//   consumer 0:  [Q K(n)] softmax(n) [P V(n), Q K(n-1)] softmax(n-1) [P V(n-1), Q K(n-2)] ...
//   consumer 1:      ...  [P V(n), Q K(n-1)] softmax(n-1) ...
//
// With `pair`, two CTAs of a cluster share K and V of a tile twice as high, or of two heads: each
// copies half of them to both. That halves what is read from the L2, which costs energy, and so
// time.
//
// Within a warpgroup products and softmax alternate; across warpgroups they overlap: while one is
// in its softmax, another's products keep the tensor cores busy.
//
// Glossary: tile = rows of Q or keys handled at once; position = place of a row in its sequence
// (several query heads share one when they are packed in a tile); stage = one buffer of a ring;
// S = scores, P = probabilities before division by l, l = sum of P, reference = what stands for the
// maximum (see attention/softmax.cuh); LSE = log of the sum of exp of the row's scores.
#pragma once

#include "sm90/forward_consumer.cuh"
#include "sm90/forward_producer.cuh"

namespace fa4::sm90 {

template <ForwardConfig C>
__device__ inline void init_barriers(Shared<C>& shared) {
  for (int w = 0; w < C.warpgroups; ++w) {
    ptx::mbarrier_init(&shared.q_full[w], 1);
    ptx::mbarrier_init(&shared.q_empty[w], 4);
  }
  shared.k_ring.init(4 * C.warpgroups);
  shared.v_ring.init(4 * C.warpgroups);
  for (u64& barrier : shared.v_raw) ptx::mbarrier_init(&barrier, 1);
  shared.queue.init(Shapes<C>::kQueueTakers);
  if constexpr (C.pair) shared.next_tile.init();
  ptx::fence_mbarrier_init();
}

/// Rows of Q that no copy will fill must hold numbers: NaN would slow their warp down.
template <ForwardConfig C>
__device__ inline void clear_queries(Shared<C>& shared) {
  for (int w = 0; w < C.warpgroups; ++w) {
    u64x2* pieces = reinterpret_cast<u64x2*>(shared.query[w].q.elements);
    for (int i = threadIdx.x; i < Shapes<C>::QTile::kBytes / 16; i += Shapes<C>::kThreads) {
      pieces[i] = {0, 0};
    }
  }
  ptx::fence_async_shared();
}

template <class Element, ForwardConfig C>
__device__ inline void forward(const ForwardParams& p) {
  extern __shared__ __align__(1024) u8 storage[];
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(storage);
  const int warpgroup = ptx::broadcast(threadIdx.x / kWarpgroupThreads, 0);
  const Role role = warpgroup == C.warpgroups ? Role::kProducer : Role::kConsumer;

  ptx::grid_dependency_release();  // the next kernel may come as CTAs leave, and wait like this one
  if (threadIdx.x == 0) init_barriers(shared);
  if (threadIdx.x == kWarpgroupThreads) {
    for (const TensorMap* map : {&p.q, &p.k, &p.v, &p.o}) ptx::tensormap_prefetch(map);
  }
  if constexpr (C.packed) {
    if (p.pack_rows * p.pack_heads < kRowsPerWarpgroup) clear_queries(shared);
  }
  if constexpr (C.pair) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }

  if (role == Role::kProducer) {
    ptx::registers_give<C.producer_registers>();
    const int thread = threadIdx.x - C.warpgroups * kWarpgroupThreads;
    if (thread == kWarpKeys * kWarpThreads) produce_keys<C>(p, shared);
    if (thread == kWarpQueries * kWarpThreads) produce_queries<C>(p, shared);
    if constexpr (C.cleans()) {
      if (thread / kWarpThreads == kWarpClean) clean_values<Element, C>(p, shared);
    }
  } else {
    ptx::registers_take<C.consumer_registers>();
    consume<Element, C>(p, shared, warpgroup);
  }
  if constexpr (C.pair) {  // until then the other CTA copies to this one and arrives here
    __syncwarp();
    ptx::cluster_sync();
  }
}

}  // namespace fa4::sm90
