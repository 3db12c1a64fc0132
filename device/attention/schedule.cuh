// SPDX-License-Identifier: BSD-3-Clause
// Which tile of queries comes when.
//
// Heads are taken in sections whose K and V fit the L2 cache together. Within a section all heads'
// tiles of one position are neighbours; positions run from the last (the longest under a causal
// mask) to the first, so that the shortest tiles fill the gaps at the end.
#pragma once

#include "ptx/types.cuh"

namespace fa4 {

struct ScheduleParams {
  i32 tiles;          ///< positions * heads * batch
  i32 positions;      ///< Tiles of queries in a sequence.
  i32 heads;          ///< Query heads.
  i32 heads_total;    ///< heads * batch
  i32 section;        ///< Heads in a section.
  i32 section_tiles;  ///< section * positions
};

struct TileIndex {
  i32 position;
  i32 head;
  i32 batch;
};

__device__ inline TileIndex tile_at(const ScheduleParams& schedule, i32 index) {
  const i32 section = index / schedule.section_tiles;
  const i32 first_head = section * schedule.section;
  const i32 heads = min_of(schedule.section, schedule.heads_total - first_head);
  const i32 within = index - section * schedule.section_tiles;
  const i32 rank = within / heads;
  const i32 head = first_head + within - rank * heads;
  const i32 batch = head / schedule.heads;
  return {schedule.positions - 1 - rank, head - batch * schedule.heads, batch};
}

}  // namespace fa4
