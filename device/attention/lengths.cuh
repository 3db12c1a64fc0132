// SPDX-License-Identifier: BSD-3-Clause
// Sequences of many lengths: reads the lengths where they lie, in device memory, and writes the
// list of tiles that the attention kernel then works off, longest first. One CTA.
//
// The list is sorted by buckets of the tile's cost (its tiles of keys, four buckets an octave).
// Within a bucket the order is whatever the threads make it: it decides when a tile is computed,
// never what it holds.
#pragma once

#include "attention/mask.cuh"
#include "attention/schedule.cuh"
#include "ptx/sync.cuh"

namespace fa4 {

/// A rank-1 tensor of int32 or int64, or none.
struct IndexTensor {
  const void* data;
  i64 stride;
  i64 wide;  ///< 1: int64.

  __device__ bool present() const { return data != nullptr; }
  __device__ i64 at(i32 i) const {
    return wide != 0 ? static_cast<const i64*>(data)[i * stride]
                     : static_cast<const i32*>(data)[i * stride];
  }
};

/// One side of all sequences.
struct SideLengths {
  IndexTensor cu_seqlens, used, start;
  i64 rows;  ///< All rows (packed), or a sequence's.
};

struct LengthsParams {
  SideLengths q, k;
  i32 batch;
  i32 tile_rows;
  i32 block_rows;  ///< A warpgroup's.
  i32 tile_keys;
  i32 top_left;
  i32 left, right;
  TileCounter* counter;  ///< Set to 0.
  i32* count;
  ListedTile* tiles;
  Sequence* sequences;
};

constexpr int kLengthsThreads = 1024;
constexpr int kCostBuckets = 128;
constexpr i32 kFewTiles = 4;  ///< Sequences with more are listed by a whole warp.

struct SideRows {
  i32 first, rows, begin, end;
};

/// Rows of sequence b. Lengths that make no sense are cut so that nothing outside is touched.
__device__ inline SideRows side_rows(const SideLengths& side, i32 b, i32 batch) {
  i64 first = 0, rows = side.rows;
  if (side.cu_seqlens.present()) {
    first = side.cu_seqlens.at(b);
    first = first < 0 ? 0 : first > side.rows ? side.rows : first;
    const i64 next = b < batch ? side.cu_seqlens.at(b + 1) : side.rows;  // the slack: all the rest
    rows = next < first ? 0 : (next > side.rows ? side.rows : next) - first;
  } else if (b == batch) {
    return {0, 0, 0, 0};
  }
  const bool counts = b < batch;
  i64 end = !counts ? 0 : side.used.present() ? side.used.at(b) : rows;
  i64 begin = counts && side.start.present() ? side.start.at(b) : 0;
  end = end < 0 ? 0 : end > rows ? rows : end;
  begin = begin < 0 ? 0 : begin > end ? end : begin;
  return {static_cast<i32>(first), static_cast<i32>(rows), static_cast<i32>(begin),
          static_cast<i32>(end)};
}

__device__ inline Sequence read_sequence(const LengthsParams& p, i32 b) {
  const SideRows q = side_rows(p.q, b, p.batch), k = side_rows(p.k, b, p.batch);
  return {b, q.first, q.rows, q.begin, q.end, k.first, k.begin, k.end};
}

/// Bucket of a tile of queries by its cost.
__device__ inline int cost_bucket(const LengthsParams& p, const Sequence& s, i32 tile_first) {
  const i32 first = max_of(tile_first, s.q_begin);
  const i32 last = min_of(tile_first + p.tile_rows, s.q_end) - 1;
  const i32 diagonal = p.top_left != 0 ? s.k_begin - s.q_begin : s.k_end - s.q_end;
  const Band<true, true, true> band = {{s.k_begin, s.k_end}, diagonal, p.left, p.right};
  const KeyRange keys = band.seen_by_any(first, last);
  if (first > last || keys.begin >= keys.end) return 0;
  const u32 cost = ceil_div(keys.end, p.tile_keys) - keys.begin / p.tile_keys;
  const int octave = 31 - __clz(cost);
  return 1 + 4 * octave + static_cast<int>((u64{cost} << 2 >> octave) & 3);
}

/// Calls visit(sequence, first row) for every tile of queries; all threads of a warp take part.
template <class Visit>
__device__ inline void for_each_tile(const LengthsParams& p, i32 sequences, const Visit& visit) {
  const int lane = threadIdx.x % kWarpThreads;
  for (i32 first = threadIdx.x - lane; first < sequences; first += kLengthsThreads) {
    const i32 mine = first + lane;
    const i32 rows = mine < sequences ? p.sequences[mine].q_rows : 0;
    const i32 tiles = ceil_div(rows, p.tile_rows);
    const i32 begin = first_tile_row(rows, p.tile_rows, p.block_rows);
    for (i32 i = 0; i < tiles && tiles <= kFewTiles; ++i) {
      visit(p.sequences[mine], begin + i * p.tile_rows);
    }
    u32 many = __ballot_sync(0xffffffff, tiles > kFewTiles);
    for (; many != 0; many &= many - 1) {
      const int owner = __ffs(many) - 1;
      const i32 all = __shfl_sync(0xffffffff, tiles, owner);
      const i32 from = __shfl_sync(0xffffffff, begin, owner);
      for (i32 i = lane; i < all; i += kWarpThreads) {
        visit(p.sequences[first + owner], from + i * p.tile_rows);
      }
    }
  }
}

__device__ inline void list_tiles(const LengthsParams& p) {
  __shared__ u32 slots[kCostBuckets];  // tiles of each bucket; then where its next tile goes
  __shared__ u32 counts[kCostBuckets];
  ptx::grid_dependency_release();
  const i32 sequences = p.batch + (p.q.cu_seqlens.present() ? 1 : 0);
  const int thread = threadIdx.x;
  if (thread < kCostBuckets) counts[thread] = 0;
  for (i32 b = thread; b < sequences; b += kLengthsThreads) p.sequences[b] = read_sequence(p, b);
  __syncthreads();
  for_each_tile(p, sequences, [&](const Sequence& s, i32 tile_first) {
    atomicAdd(&counts[cost_bucket(p, s, tile_first)], 1u);
  });
  __syncthreads();
  if (thread < kCostBuckets) {
    u32 before = 0;
    for (int i = thread + 1; i < kCostBuckets; ++i) before += counts[i];
    slots[thread] = before;
    if (thread == 0) {
      *p.count = static_cast<i32>(before + counts[0]);
      p.counter->taken = 0;
    }
  }
  __syncthreads();
  for_each_tile(p, sequences, [&](const Sequence& s, i32 tile_first) {
    p.tiles[atomicAdd(&slots[cost_bucket(p, s, tile_first)], 1u)] = {s.batch, tile_first};
  });
}

}  // namespace fa4
