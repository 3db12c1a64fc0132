// SPDX-License-Identifier: BSD-3-Clause
// Where the backward pass keeps its scratch: tile sizes, and the pointers into the workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/problem.h"
#include "core/sequence.h"
#include "cpu/backward_schedule.h"
#include "cpu/carver.h"
#include "cpu/kernels.h"

namespace fa4::cpu {

/// Sizes of tiles and of rows in scratch. A function of the problem and the processor's kernels.
struct BackwardTiling {
  int64_t tile_q = 0;  ///< Query rows of a tile.
  int64_t tile_k = 0;  ///< Keys of a tile.
  ChunkSizes chunks;   ///< Rows and keys of a chunk: whole tiles.
  int64_t strip_q =
      0;              ///< Rows of a tile that are computed together where a mask's edge crosses it.
  int64_t ld_qk = 0;  ///< Elements of a scratch row of q or k: whole panels.
  int64_t ld_v = 0;
  int64_t ld_s = 0;  ///< Elements of a row of scores, off a power of two: see make_tiling().
};

/// Tiles for `problem`: a function of it and of the processor's kernels, never of thread counts.
template <class T>
BackwardTiling make_tiling(const Kernels<T>& kernels, const core::Problem& problem);

/// Scratch of one unit (a sequence and a key head with its group of query heads) while it is in
/// flight. Query tiles of all heads of the group follow one another.
template <class T>
struct UnitScratch {
  T* q_rows;         ///< [tiles_q][tile_q, ld_qk]: left operand of the scores
  T* q_panels;       ///< the same packed, right operand of dk
  T* do_rows;        ///< [tiles_q][tile_q, ld_v]
  T* do_panels;      ///< the same packed, right operand of dv
  T* dq;             ///< [tiles_q][tile_q, ld_qk], accumulates
  T* lse;            ///< [tiles_q][tile_q]: -inf for rows that give nothing
  T* delta;          ///< [tiles_q][tile_q]: sum(dout * out) - dlse
  T* k_columns;      ///< [tiles_k]: k transposed and packed, right operand of the scores
  T* v_columns;      ///< [tiles_k]: v transposed and packed, right operand of dp
  T* k_panels;       ///< [tiles_k]: k packed, right operand of dq
  T* dk;             ///< [tiles_k][tile_k, ld_qk], accumulates
  T* dv;             ///< [tiles_k][tile_k, ld_v], accumulates
  uint8_t* q_apart;  ///< [tiles_q][tile_q]: rows whose q or dout is not all finite,
  uint8_t* k_apart;  ///< [tiles_k][tile_k]: keys whose k is not; 0 in the packed operands
  UnitState* state;
  ChunkState* q_chunks;
  ChunkState* k_chunks;

  static UnitScratch carve(Carver& carver, const BackwardTiling& tiling,
                           const core::Problem& problem, int64_t rows_q, int64_t rows_k);
};

/// One tile of each operand, for work outside the main loop.
template <class T>
struct TileScratch {
  T* q_rows;
  T* do_rows;
  T* lse;
  T* delta;
  T* k_columns;
  T* v_columns;
  double* sum;  ///< [tile_q, ld_s]

  static TileScratch carve(Carver& carver, const BackwardTiling& tiling,
                           const core::Problem& problem);
};

/// Scratch of one worker.
template <class T>
struct WorkerScratch {
  T* scores;         ///< [tile_q, ld_s]: scores, then probabilities
  T* gradients;      ///< [tile_q, ld_s]: dp, then the gradient of the scores
  T* slopes;         ///< [tile_q, ld_s]: the softcap's derivative; only with one
  T* bias;           ///< [ld_s]: a row of the bias
  uint8_t* mask;     ///< [ld_s]: a row of the mask
  T* keep;           ///< [tile_q, ld_s]: dropout factors; only with dropout
  T* rows;           ///< [max(tile_q, tile_k), max(ld_qk, ld_v)]: input rows on their way to panels
  Columns* visible;  ///< [tile_q]
  TileScratch<T> tile;

  static WorkerScratch carve(Carver& carver, const BackwardTiling& tiling,
                             const core::Problem& problem);
};

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

}  // namespace fa4::cpu
