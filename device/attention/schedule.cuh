// SPDX-License-Identifier: BSD-3-Clause
// Which tile of queries comes when, and which rows of which sequence it holds.
//
// Sequences of one length: heads are taken in sections whose K and V fit the L2 cache together.
// Within a section all heads' tiles of one position are neighbours; positions run from the last
// (the longest under a causal mask) to the first, so that the shortest tiles fill the gaps at the
// end. Sequences of many lengths: attention/lengths.cuh writes a list of tiles, longest first.
#pragma once

#include "ptx/types.cuh"

namespace fa4 {

struct ScheduleParams {
  i32 tiles;          ///< positions * heads * batch
  i32 positions;      ///< Tiles of queries in a sequence.
  i32 heads;          ///< Heads: of queries, or of keys when a tile holds a group of query heads.
  i32 heads_total;    ///< heads * batch
  i32 section;        ///< Heads in a section.
  i32 section_tiles;  ///< section * positions
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
  i32 position;  ///< Which tile of its sequence; below 0: there is no more work.
  i32 head;
  Sequence sequence;
};

/// What the list of tiles holds: with `heads` heads, tile t is entry t / heads.
struct ListedTile {
  i32 sequence;
  i32 position;
};

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
  return {schedule.positions - 1 - rank,
          head - batch * schedule.heads,
          {batch, 0, rows, 0, rows, 0, 0, keys}};
}

__device__ inline Work listed_work(const TileList& list, i32 heads, i32 index) {
  const i32 entry = index / heads;
  const ListedTile tile = list.tiles[entry];
  return {tile.position, index - entry * heads, list.sequences[tile.sequence]};
}

}  // namespace fa4
