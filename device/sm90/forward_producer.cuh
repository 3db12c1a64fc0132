// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's producer warps: one keeps K and V coming and says which tile is next, one
// brings Q, one cleans V.
//
// Why V is cleaned: a hidden key has probability 0, but 0 * NaN is NaN. Beyond the end of a tensor
// the copy engine writes zeros. What lies beyond a sequence's used keys, or is hidden from all of
// the tile's rows by a mask, may hold anything; such rows of V are set to 0 after they have landed
// and before the consumers are told. K needs no such thing: hidden scores are replaced, not added
// to.
#pragma once

#include "ptx/tma.cuh"
#include "sm90/forward_config.cuh"

namespace fa4::sm90 {

/// Rows of K or V into shared memory. Where a pair shares them each CTA brings half to both.
template <ForwardConfig C, class Tile>
__device__ inline void load_tile(Tile& tile, const TensorMap& map, u64* barrier, bool shared,
                                 i32 row, i32 head, i32 batch) {
  constexpr int kRows = Tile::kRows / C.ctas();  // of a copy
  if (C.pair && shared) {
    const int first = cta_rank<C>() * kRows;
#pragma unroll
    for (int panel = 0; panel < Tile::kPanels; ++panel) {
      ptx::tma_load_4d_multicast(tile.panel(panel) + first * kPanelCols, &map, barrier, 0b11,
                                 panel * kPanelCols, row + first, head, batch);
    }
    return;
  }
#pragma unroll
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
#pragma unroll
    for (int first = 0; first < Tile::kRows; first += kRows) {
      ptx::tma_load_4d(tile.panel(panel) + first * kPanelCols, &map, barrier, panel * kPanelCols,
                       row + first, head, batch);
    }
  }
}

/// This CTA's part of a tile of queries.
template <ForwardConfig C>
__device__ inline Work work_at(const ForwardParams& p, i32 index) {
  const u32 cta = cta_rank<C>();
  if constexpr (C.varlen) return listed_work<C.pair>(p.list, p.schedule, index, cta);
  return dense_work<C.pair>(p.schedule, index, p.rows_q, p.rows_k, cta);
}

/// The tile of queries after one, by the counter. Of a pair the first CTA asks, and tells the
/// second. Everyone asks until there is nothing left, once more than it gets tiles beyond its
/// first.
template <ForwardConfig C>
__device__ inline i32 next_tile(const ForwardParams& p, Shared<C>& shared, Mailbox::Cursor& mail,
                                i32 tiles, bool first) {
  if (cta_rank<C>() > 0) return shared.next_tile.receive(mail, 0);
  if (!C.varlen && first) p.counter->claim(p.launch);
  const i32 index = static_cast<i32>(gridDim.x) / C.ctas() + p.counter->next(tiles);
  if (C.pair) shared.next_tile.send(mail, 1, index);
  return index;
}

/// Keys that some row of the sequence sees. Values outside may be anything.
template <ForwardConfig C>
__device__ inline KeyRange clean_keys(const ForwardParams& p, const Sequence& s) {
  return band_of<C>(p, s).seen_by_any(s.q_begin, s.q_end - 1);
}

/// Whether tile n of V must be looked at.
template <ForwardConfig C>
__device__ inline bool wants_cleaning(KeyRange clean, i32 n) {
  if constexpr (C.score.hides()) return true;
  if constexpr (!C.cleans()) return false;
  return n * C.tile_keys < clean.begin || (n + 1) * C.tile_keys > clean.end;
}

/// One thread: keeps the ring of K and V full, and says which tile comes next.
template <ForwardConfig C>
__device__ inline void produce_keys(const ForwardParams& p, Shared<C>& shared) {
  using S = Shapes<C>;
  RingCursor<C.stages> at;
  Queue<Work>::Cursor queue_at;
  // For whatever the kernel before writes: the list, or somebody's inputs.
  ptx::grid_dependency_wait();
  const i32 tiles = C.varlen ? *p.list.count * p.schedule.heads : p.schedule.tiles;
  Mailbox::Cursor mail;
  const i32 self = blockIdx.x / C.ctas();
  for (i32 index = self; index < tiles;) {
    const Work work = work_at<C>(p, index);
    const bool both = work.sharing != Sharing::kNothing;
    shared.queue.put(queue_at, work);
    const KeyRange range = key_tiles<C>(p, work);
    const KeyRange clean = C.cleans() ? clean_keys<C>(p, work.sequence) : KeyRange{};
    const i32 first_key = C.varlen ? work.sequence.k_first : 0;
    const i32 head = key_head<C>(p, work.head), batch = p.k_batched * work.sequence.batch;
    for (i32 n = range.end - 1; n >= range.begin; --n) {
      const i32 row = first_key + n * C.tile_keys;
      u64* k_full = shared.k_ring.acquire(at, S::KTile::kBytes);
      load_tile<C>(shared.k[at.stage], p.k, k_full, both, row, head, batch);
      u64* v_full = &shared.v_ring.full[at.stage];
      if (wants_cleaning<C>(clean, n)) v_full = &shared.v_raw[at.stage];
      shared.v_ring.acquire(at, v_full, S::VTile::kBytes);
      load_tile<C>(shared.v[at.stage], p.v, v_full, both, row, head, batch);
      at.advance();
    }
    if constexpr (C.dynamic) {
      index = next_tile<C>(p, shared, mail, tiles, index == self);
    } else {
      index += gridDim.x / C.ctas();
    }
  }
  Work none{};
  none.head = -1;
  shared.queue.put(queue_at, none);
}

/// One thread: brings each warpgroup its rows of Q, as soon as it has done with those before.
template <ForwardConfig C>
__device__ inline void produce_queries(const ForwardParams& p, Shared<C>& shared) {
  using QTile = typename Shapes<C>::QTile;
  const i32 rows = warpgroup_rows<C>(p);
  const u32 bytes =
      C.packed ? QTile::kPanels * kPanelCols * 2 * rows * p.pack_heads : QTile::kBytes;
  Queue<Work>::Cursor queue_at;
  u32 parity = 1;
  for (;; queue_at.advance()) {
    const Work work = shared.queue.get(queue_at);
    shared.queue.release(queue_at);
    if (work.head < 0) break;
    const i32 first = (C.varlen ? work.sequence.q_first : 0) + work.first;
    for (int w = 0; w < C.warpgroups; ++w) {
      ptx::mbarrier_wait(&shared.q_empty[w], parity);
      ptx::mbarrier_arrive_expect(&shared.q_full[w], bytes);
#pragma unroll
      for (int panel = 0; panel < QTile::kPanels; ++panel) {
        ptx::tma_load_5d(shared.query[w].q.panel(panel), &p.q, &shared.q_full[w],
                         panel * kPanelCols, 0, first + w * rows, work.head,
                         p.q_batched * work.sequence.batch);
      }
    }
    parity ^= 1;
  }
}

/// Whether some row of this CTA's tile of queries sees the key. A whole warp.
template <ForwardConfig C>
__device__ inline bool seen_by_tile(const ForwardParams& p, const Work& work, i32 key) {
  const i32 rows = C.warpgroups * warpgroup_rows<C>(p);
  const RowRange counting = counting_rows<C>(p, work.sequence, work.first, rows);
  const BandOf<C> band = band_of<C>(p, work.sequence);
  const i32 heads = C.packed ? p.pack_heads : 1;
  bool seen = false;
  for (i32 i = threadIdx.x % kWarpThreads; i < (counting.end - counting.first) * heads;
       i += kWarpThreads) {
    const i32 row = counting.first + i / heads;
    const i32 head = C.packed ? work.head * p.group + i % heads : work.head;
    if (key < band.begin_of(row) || key >= band.end_of(row)) continue;
    seen = seen || shows<C.score>(p.score, work.sequence.batch, head, row, key);
  }
  return __any_sync(0xffffffff, seen);
}

/// Whether eight elements are free of infinity and NaN.
template <class Element>
__device__ inline bool is_finite(const u64x2& piece) {
  constexpr u32 kExponent = kSame<Element, Bf16> ? 0x7f80 : 0x7c00;
  bool finite = true;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 word = static_cast<u32>((i < 2 ? piece.low : piece.high) >> (i % 2 * 32));
    finite = finite && (word & kExponent) != kExponent && (word >> 16 & kExponent) != kExponent;
  }
  return finite;
}

/// Whether a tile in shared memory is free of infinity and NaN. A whole warp.
template <class Element, class Tile>
__device__ inline bool is_finite(const Tile& tile) {
  const u64x2* pieces = reinterpret_cast<const u64x2*>(tile.elements);
  bool finite = true;
#pragma unroll 8
  for (int i = threadIdx.x % kWarpThreads; i < Tile::kBytes / 16; i += kWarpThreads) {
    finite = finite && is_finite<Element>(pieces[i]);
  }
  return __all_sync(0xffffffff, finite);
}

/// Sets rows of a tile of V to 0 that no row may see. A whole warp.
template <class Element, ForwardConfig C>
__device__ inline void clean_tile(const ForwardParams& p, const Work& work, KeyRange clean,
                                  typename Shapes<C>::VTile& tile, i32 first_key) {
  constexpr int kPieces = Shapes<C>::VTile::kPanels * 8;
  const int lane = threadIdx.x % kWarpThreads;
  const bool inside = first_key >= clean.begin && first_key + C.tile_keys <= clean.end;
  if (C.score.hides() && inside) {
    if (is_finite<Element>(tile)) return;
    __syncwarp();  // what lanes have read here, others may set to 0
  }
  for (int row = 0; row < C.tile_keys; ++row) {
    const i32 key = first_key + row;
    bool hidden = key < clean.begin || key >= clean.end;
    if constexpr (C.score.hides()) {
      bool finite = true;
      if (!hidden && lane < kPieces) {
        finite = is_finite<Element>(*reinterpret_cast<const u64x2*>(tile.piece(row, lane)));
      }
      if (!__all_sync(0xffffffff, finite)) hidden = !seen_by_tile<C>(p, work, key);
    }
    if (hidden && lane < kPieces) *reinterpret_cast<u64x2*>(tile.piece(row, lane)) = u64x2{};
  }
}

/// One warp: follows the producer, and cleans the tiles of V that want it.
template <class Element, ForwardConfig C>
__device__ inline void clean_values(const ForwardParams& p, Shared<C>& shared) {
  const int lane = threadIdx.x % kWarpThreads;
  RingCursor<C.stages> at;
  Queue<Work>::Cursor queue_at;
  u32 parities = 0;  // a bit a stage
  for (;; queue_at.advance()) {
    const Work work = shared.queue.get(queue_at);
    __syncwarp();
    if (lane == 0) shared.queue.release(queue_at);
    if (work.head < 0) break;
    const KeyRange range = key_tiles<C>(p, work);
    const KeyRange clean = clean_keys<C>(p, work.sequence);
    for (i32 n = range.end - 1; n >= range.begin; --n, at.advance()) {
      if (!wants_cleaning<C>(clean, n)) continue;
      ptx::mbarrier_wait(&shared.v_raw[at.stage], parities >> at.stage & 1);
      parities ^= 1u << at.stage;
      clean_tile<Element, C>(p, work, clean, shared.v[at.stage], n * C.tile_keys);
      ptx::fence_async_shared();
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(&shared.v_ring.full[at.stage]);
    }
  }
}

}  // namespace fa4::sm90
