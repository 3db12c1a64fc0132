// SPDX-License-Identifier: BSD-3-Clause
// Sizes of the forward pass: tiles, tasks and where they keep their scratch in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/problem.h"
#include "core/sequence.h"
#include "cpu/carver.h"
#include "cpu/kernels.h"

namespace fa4::cpu {

/// A part of the work that one worker does at a stretch, for one sequence and one head of k, or for
/// decode some heads of k.
struct Task {
  int64_t sequence = 0;
  int64_t cost = 0;  ///< About proportional to its time.
  int32_t head_k = 0;
  int32_t first_head = 0;  ///< Query heads [first_head, first_head + heads) of head_k's group, or
                           ///< of those of head_k and the heads after it.
  int32_t heads = 0;
  bool decode = false;
  int32_t chunks = 0;  ///< First of several chunks of keys: their number.
  core::Range rows;    ///< Query rows of each head.
  core::Range keys;    ///< A chunk of keys; empty = all that the rows see.
  int64_t slot = -1;   ///< Where the first row's partial result goes; -1: straight to out.
};

/// Row-independent sizes. Everything that can change a result's bits (tile_keys, what counts as
/// decode, decode chunks) depends on the problem and the processor, never on threads.
struct ForwardTiling {
  int64_t tile_keys = 0;    ///< Keys of a packed tile, on a grid that begins at the first used key.
  int64_t block_rows = 0;   ///< Rows whose scores are in flight.
  int64_t task_rows = 0;    ///< Rows (of all its heads) that a task is meant to have.
  int64_t ld_v = 0;         ///< d_v rounded up to whole panels.
  int64_t decode_rows = 0;  ///< Sequences with no more rows a head of k take the decode path.
  int64_t split_rows = 0;   ///< With no more rows a head of k the keys are split into chunks.
  int64_t decode_heads = 1;  ///< The most heads of k that share a decode task.

  /// Keys of a chunk: more for more rows, so that partial results stay small beside the keys.
  int64_t chunk_keys(int64_t rows) const;
};

constexpr int64_t kDecodeRows = 8;       ///< More rows a head of k than this pay for packing.
constexpr int64_t kDecodeTaskRows = 64;  ///< The most rows of a decode task, of all its heads.
// Keys that a decode task scores at a time: with few rows the longer a stretch of memory the
// better, with many rows their scores should stay in a cache. Then, from a row of scores to the
// next.
constexpr int64_t kDecodeBlock = 480, kDecodeBlockOfMany = 120;
constexpr int64_t kDecodeStride = 496, kDecodeStrideOfMany = 128;
constexpr int64_t kDecodeChunk = 480;  ///< Keys of a chunk, for each kDecodeRows rows.

template <class T>
ForwardTiling make_forward_tiling(const Kernels<T>& kernels, const core::Problem& problem,
                                  int threads);

/// The most tasks that any lengths can give; none if 64 bits can't count them.
std::optional<int64_t> max_forward_tasks(const ForwardTiling& tiling, const core::Problem& problem);

/// Scratch of one worker.
template <class T>
struct ForwardScratch {
  T* q;    ///< [task_rows, d_qk]
  T* out;  ///< [task_rows, ld_v]
  T* max;  ///< [task_rows], as sum
  T* sum;
  T* k;              ///< packed, tile_keys columns
  T* v;              ///< packed, tile_keys deep
  T* scores;         ///< [block_rows, tile_keys] or [kDecodeTaskRows, kDecodeStride]
  Columns* visible;  ///< [block_rows] or [kDecodeTaskRows]
  T* bias;           ///< [tile_keys]
  uint8_t* mask;     ///< [tile_keys]
  uint8_t* apart;    ///< [tile_keys]: keys whose values are not all finite
  T* saved;          ///< [kDecodeTaskRows, ld_v]: decode's out before a block's values

  static ForwardScratch carve(Carver& carver, const Kernels<T>& kernels,
                              const ForwardTiling& tiling, const core::Problem& problem);
};

/// Partial results of decode chunks: a slot is one row's.
template <class T>
struct Partials {
  T* out = nullptr;  ///< [slots, ld_v], not normalised
  T* max = nullptr;  ///< [slots], as sum
  T* sum = nullptr;
};

/// The workspace of a forward run.
template <class T>
struct ForwardWorkspace {
  Task* tasks = nullptr;
  Partials<T> partials;
  ForwardScratch<T>* scratch = nullptr;  ///< [threads]

  static ForwardWorkspace carve(Carver& carver, const Kernels<T>& kernels,
                                const ForwardTiling& tiling, const core::Problem& problem,
                                int threads, bool fill);
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace fa4::cpu
