// SPDX-License-Identifier: BSD-3-Clause
// Which tile of queries comes when, and which rows of which sequence it holds.
//
// Sequences of one length: heads are taken in sections whose K and V fit the L2 cache together.
// Within a section all heads' tiles of one position are neighbours; positions run from the last
// (the longest under a causal mask) to the first, so that the shortest tiles fill the gaps at the
// end. A sequence's last tile ends with it and its first one may begin before it, at row -64 or so:
// under a causal mask the last rows see the most keys, and a tile lasts as long as its longest
// rows. A pair of CTAs that share K and V takes a tile twice as high, or two heads' at once.
// Sequences of many lengths: attention/lengths.cuh writes a list of tiles, longest first.
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
  i32 cta_rows;       ///< Of a pair: positions a CTA.
  i32 sharing;  ///< Of a pair: a Sharing. Of heads: `heads_total`, `section` count two as one.
  i32 halves;   ///< Of a pair that shares rows: every head has one more tile, before the
                ///< others and half as high; a pair takes two heads' at once.
};

/// What the two CTAs of a pair have of one tile.
enum class Sharing : i32 {
  kRows,     ///< Rows of one head, CTA 1's behind CTA 0's, and so K and V.
  kHeads,    ///< The same rows of two query heads with one key head, and so K and V.
  kNothing,  ///< The same rows of two heads: each brings K and V of its own.
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

/// One tile of queries, or a CTA's part of a pair's: its work for a while.
struct Work {
  i32 first;        ///< Its first row's position in the sequence; may be below 0.
  i32 head;         ///< Below 0: there is no more work.
  Sharing sharing;  ///< Of a pair.
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

/// CTA `cta` of a pair takes its part of the tile `work`, of rows or of heads.
__device__ inline void take_part(const ScheduleParams& schedule, u32 cta, Work& work) {
  if (work.sharing == Sharing::kRows) {
    work.first += static_cast<i32>(cta) * schedule.cta_rows;
  } else {
    work.head += static_cast<i32>(cta);
  }
}

/// The work of CTA `cta` of the pair, or of a CTA alone.
template <bool kPair>
__device__ inline Work dense_work(const ScheduleParams& schedule, i32 index, i32 rows, i32 keys,
                                  u32 cta) {
  const i32 section = index / schedule.section_tiles;
  const i32 first_head = section * schedule.section;
  const i32 heads = min_of(schedule.section, schedule.heads_total - first_head);
  const i32 within = index - section * schedule.section_tiles;
  const i32 rank = within / heads;
  Work work{};
  work.head = first_head + within - rank * heads;
  work.first = schedule.first_row + (schedule.positions - 1 - rank) * schedule.tile_rows;
  if constexpr (kPair) {
    work.sharing = static_cast<Sharing>(schedule.sharing);
    if (work.sharing == Sharing::kHeads) work.head *= 2;
    if (rank >= schedule.positions) {  // halves
      const i32 head = 2 * (within - schedule.positions * heads);
      const bool last = head + 1 == heads;
      work.head = first_head + head;
      work.first = schedule.first_row - (last ? 2 : 1) * schedule.cta_rows;
      if (!last) work.sharing = Sharing::kNothing;
    }
    take_part(schedule, cta, work);
  }
  const i32 batch = work.head / schedule.heads;
  work.head -= batch * schedule.heads;
  work.sequence = {batch, 0, rows, 0, rows, 0, 0, keys};
  return work;
}

template <bool kPair>
__device__ inline Work listed_work(const TileList& list, const ScheduleParams& schedule, i32 index,
                                   u32 cta) {
  const i32 entry = index / schedule.heads;
  const ListedTile tile = list.tiles[entry];
  Work work = {tile.first, index - entry * schedule.heads, Sharing::kRows,
               list.sequences[tile.sequence]};
  if constexpr (kPair) take_part(schedule, cta, work);
  return work;
}

}  // namespace fa4
