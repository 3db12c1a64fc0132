// SPDX-License-Identifier: BSD-3-Clause
// Which tile of queries comes when, and which rows of which sequence it holds.
//
// Sequences of one length: heads are taken in sections whose K and V fit the L2 cache together.
// Within a section all heads' tiles of one position are neighbours; positions run from the last
// (the longest under a causal mask) to the first, so that the shortest tiles fill the gaps at the
// end. A sequence's last tile ends with it and its first one may begin before it, at row -64 or so:
// under a causal mask the last rows see the most keys, and a tile lasts as long as its longest
// rows. Sequences of many lengths: attention/lengths.cuh writes a list of tiles, longest first.
#pragma once

#include "ptx/sync.cuh"

namespace fa4 {

struct ScheduleParams {
  i32 tiles;          ///< positions * heads * batch
  i32 positions;      ///< Tiles of queries in a sequence.
  i32 heads;          ///< Heads: of queries, or of keys when a tile holds a group of query heads.
  i32 heads_total;    ///< heads * batch
  i32 section;        ///< Heads in a section.
  i32 section_tiles;  ///< section * positions
  i32 tile_rows;      ///< Positions a tile.
  i32 first_row;      ///< Where a sequence's first tile begins: 0 or below.
};

/// The rows of one sequence. Rows and keys count from the sequence's first, padding included.
struct Sequence {
  i32 batch;    ///< Its number.
  i32 q_first;  ///< Its first row in a packed tensor, else 0.
  i32 q_rows;
  i32 q_begin, q_end;  ///< Rows that count.
  i32 k_first;
  i32 k_begin, k_end;  ///< Keys that count.
};

/// One tile of queries: a CTA's work for a while.
struct Work {
  i32 first;  ///< Its first row's position in the sequence; may be below 0.
  i32 head;   ///< Below 0: there is no more work.
  Sequence sequence;
};

/// How many tiles the CTAs of a launch have asked for, in a workspace that may hold anything
/// before. Whoever comes first makes it its launch's: `launch` is a number that no other launch
/// has, and the last question of a launch sets `taken` to 0 again, for when a graph repeats it. So
/// no launch waits for one before it that does nothing but write a zero.
struct TileCounter {
  u64 launch;  ///< Even; one more while `taken` is being set.
  u32 taken;
  u32 unused;

  __device__ void claim(u64 mine) {
    for (u64 seen = ptx::load_acquire(&launch); seen != mine; seen = ptx::load_acquire(&launch)) {
      if (seen == mine + 1 || ptx::atomic_exchange_if(&launch, seen, mine + 1) != seen) continue;
      ptx::store_relaxed(&taken, 0);
      ptx::store_release(&launch, mine);
    }
  }
  /// `questions`: how many a launch asks in all.
  __device__ u32 next(u32 questions) { return ptx::atomic_increment(&taken, questions - 1); }
};

/// What the list of tiles holds: with `heads` heads, tile t is entry t / heads.
struct ListedTile {
  i32 sequence;
  i32 first;
};

/// Where the first tile of a sequence begins, of tiles and their blocks (a warpgroup's rows each).
__device__ inline i32 first_tile_row(i32 rows, i32 tile_rows, i32 block_rows) {
  return ceil_div(rows, block_rows) * block_rows - ceil_div(rows, tile_rows) * tile_rows;
}

/// A list of tiles in device memory.
struct TileList {
  const i32* count;  ///< Entries.
  const ListedTile* tiles;
  const Sequence* sequences;
};

__device__ inline Work dense_work(const ScheduleParams& schedule, i32 index, i32 rows, i32 keys) {
  const i32 section = index / schedule.section_tiles;
  const i32 first_head = section * schedule.section;
  const i32 heads = min_of(schedule.section, schedule.heads_total - first_head);
  const i32 within = index - section * schedule.section_tiles;
  const i32 rank = within / heads;
  const i32 head = first_head + within - rank * heads;
  const i32 batch = head / schedule.heads;
  return {schedule.first_row + (schedule.positions - 1 - rank) * schedule.tile_rows,
          head - batch * schedule.heads,
          {batch, 0, rows, 0, rows, 0, 0, keys}};
}

__device__ inline Work listed_work(const TileList& list, i32 heads, i32 index) {
  const i32 entry = index / heads;
  const ListedTile tile = list.tiles[entry];
  return {tile.first, index - entry * heads, list.sequences[tile.sequence]};
}

}  // namespace fa4
