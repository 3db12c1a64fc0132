// SPDX-License-Identifier: BSD-3-Clause
// Rings of buffers between one producer and several consumers, and what else hands things on.
#pragma once

#include "ptx/cluster.cuh"
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
/// consumer warp has let go of it, those of all `kCtas` CTAs that fill their rings together.
template <int kStages, int kCtas = 1>
struct RingBarriers {
  u64 full[kStages];
  u64 empty[kStages];

  __device__ void init(int consumer_warps) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], kCtas * consumer_warps);
    }
  }
  /// Producer: waits for a free stage (the first time around there is nothing to wait for) and
  /// announces what will be copied into it.
  __device__ u64* acquire(const RingCursor<kStages>& at, u32 bytes) {
    acquire(at, &full[at.stage], bytes);
    return &full[at.stage];
  }
  /// The same when the copies complete on another barrier than the stage's own.
  __device__ void acquire(const RingCursor<kStages>& at, u64* landed, u32 bytes) {
    ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);
    ptx::mbarrier_arrive_expect(landed, bytes);
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
    if constexpr (kCtas == 1) {
      if (lane == 0) ptx::mbarrier_arrive(&empty[at.stage]);
    } else {
      if (lane >= kCtas) return;
      ptx::mbarrier_arrive_remote_after_reads(ptx::map_shared(&empty[at.stage], lane));
    }
  }
  /// The same, and moves on to the next stage.
  __device__ void leave(RingCursor<kStages>& at, int lane) {
    release(at, lane);
    at.advance();
  }
};

/// Items from one thread to all that follow it, each in the order they were put. Two slots, so that
/// the producer is one ahead. An item stays where it is until everyone has let go of it.
template <class Item>
struct Queue {
  static constexpr int kSlots = 2;
  using Cursor = RingCursor<kSlots>;

  u64 full[kSlots];
  u64 empty[kSlots];
  Item items[kSlots];

  __device__ void init(int takers) {
    for (int i = 0; i < kSlots; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], takers);
    }
  }
  __device__ void put(Cursor& at, const Item& item) {
    ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);
    items[at.stage] = item;
    ptx::mbarrier_arrive(&full[at.stage]);
    at.advance();
  }
  /// Waits for the next item.
  __device__ const Item& get(const Cursor& at) {
    ptx::mbarrier_wait(&full[at.stage], at.parity);
    return items[at.stage];
  }
  /// One thread a taker: lets go of the item.
  __device__ void release(const Cursor& at) { ptx::mbarrier_arrive(&empty[at.stage]); }
};

constexpr int kMailboxSlots = 2;

/// Numbers from one thread to a thread of another CTA of the cluster. `full` and `values` are the
/// receiver's, `empty` is the sender's.
struct Mailbox {
  using Cursor = RingCursor<kMailboxSlots>;

  u64 full[kMailboxSlots];
  u64 empty[kMailboxSlots];
  i32 values[kMailboxSlots];

  __device__ void init() {
    for (int i = 0; i < kMailboxSlots; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], 1);
    }
  }
  __device__ void send(Cursor& at, u32 receiver, i32 value) {
    ptx::mbarrier_wait(&empty[at.stage], at.parity ^ 1);
    ptx::store_remote(ptx::map_shared(&values[at.stage], receiver), value,
                      ptx::map_shared(&full[at.stage], receiver));
    at.advance();
  }
  __device__ i32 receive(Cursor& at, u32 sender) {
    ptx::mbarrier_arrive_expect(&full[at.stage], sizeof(i32));
    ptx::mbarrier_wait(&full[at.stage], at.parity);
    const i32 value = *const_cast<volatile i32*>(&values[at.stage]);
    ptx::mbarrier_arrive_remote(ptx::map_shared(&empty[at.stage], sender));
    at.advance();
    return value;
  }
};

}  // namespace fa4
