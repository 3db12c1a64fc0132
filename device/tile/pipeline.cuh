// SPDX-License-Identifier: BSD-3-Clause
// A ring of buffers between one producer and several consumers.
#pragma once

#include "ptx/sync.cuh"

namespace fa4 {

/// Where one side of a ring stands: a stage, and how often it has gone around (its parity).
template <int kStages>
struct RingCursor {
  u32 stage = 0;
  u32 parity = 0;

  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// A ring's barriers. `full` completes when the copies into a stage have landed; `empty` when every
/// consumer warp has let go of it.
template <int kStages>
struct RingBarriers {
  u64 full[kStages];
  u64 empty[kStages];

  __device__ void init(int consumer_warps) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], consumer_warps);
    }
  }
  /// Producer: waits for a free stage (the first time around there is nothing to wait for) and
  /// announces what will be copied into it.
  __device__ u64* acquire(const RingCursor<kStages>& at, u32 bytes) {
    ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);
    ptx::mbarrier_arrive_expect(&full[at.stage], bytes);
    return &full[at.stage];
  }
  /// Consumer: waits for the stage's data.
  __device__ void wait(const RingCursor<kStages>& at) {
    ptx::mbarrier_wait(&full[at.stage], at.parity);
  }
  /// Consumer: asks early whether the data is there, so that the answer's latency hides under other
  /// work; wait() with the answer later.
  __device__ bool peek(const RingCursor<kStages>& at) {
    return ptx::mbarrier_test_wait(&full[at.stage], at.parity);
  }
  __device__ void wait(const RingCursor<kStages>& at, bool peeked) {
    if (!peeked) wait(at);
  }
  /// Consumer warp: lets go of the stage.
  __device__ void release(const RingCursor<kStages>& at, int lane) {
    if (lane == 0) ptx::mbarrier_arrive(&empty[at.stage]);
  }
};

/// Which tile comes next, from one thread to all that follow it. Two slots, so that
/// the producer is a tile ahead.
struct TileQueue {
  static constexpr int kSlots = 2;
  using Cursor = RingCursor<kSlots>;

  u64 full[kSlots];
  u64 empty[kSlots];
  i32 index[kSlots];

  __device__ void init(int takers) {
    for (int i = 0; i < kSlots; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], takers);
    }
  }
  __device__ void put(Cursor& at, i32 tile) {
    ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);
    *const_cast<volatile i32*>(&index[at.stage]) = tile;
    ptx::mbarrier_arrive(&full[at.stage]);
    at.advance();
  }
  /// For a warp that takes as a whole.
  __device__ i32 take_warp(Cursor& at, int lane) {
    ptx::mbarrier_wait(&full[at.stage], at.parity);
    const i32 tile = *const_cast<volatile i32*>(&index[at.stage]);
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&empty[at.stage]);
    at.advance();
    return tile;
  }
  /// For a thread that takes alone.
  __device__ i32 take(Cursor& at) {
    ptx::mbarrier_wait(&full[at.stage], at.parity);
    const i32 tile = *const_cast<volatile i32*>(&index[at.stage]);
    ptx::mbarrier_arrive(&empty[at.stage]);
    at.advance();
    return tile;
  }
};

}  // namespace fa4
