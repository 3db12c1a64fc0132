// SPDX-License-Identifier: BSD-3-Clause
// What all tasks of a forward run share, and how rows begin and end.
#pragma once

#include "cpu/forward_layout.h"
#include "cpu/scores.h"

namespace fa4::cpu {

template <class T>
struct ForwardContext {
  const Kernels<T>& kernels;
  const core::Problem& problem;
  const AttentionTensors& tensors;
  const ForwardTiling& tiling;
  ScoreModifiers<T> modifiers;
  core::Dropout dropout;
  bool has_dropout;
  bool approximate;  ///< The outputs have 16 bits.
  double scale;      ///< What is left to do to scores after the modifiers.

  ForwardContext(const Kernels<T>& kernels, const core::Problem& problem,
                 const AttentionTensors& tensors, const ForwardTiling& tiling);

  /// The sink's logit of a query head; -inf without one.
  double sink(int64_t head) const;
};

/// Rows of one head of q, k, v or out from row `row` of the sequence on; `side` is q's or k's.
Matrix rows_of_head(const Tensor& tensor, const core::SequenceRows& side, int64_t head,
                    int64_t row);

/// The running softmax of some rows of one head.
template <class T>
struct RowState {
  T* max;
  T* sum;
  T* out;  ///< Overwritten.
  int64_t out_stride;
};

/// Normalises rows [rows.begin, rows.end) of a head and writes their out and lse, sink included.
template <class T>
void finish_rows(const ForwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                 core::Range rows, const RowState<T>& state);

/// Writes out 0 and lse -inf to rows of all heads: those that are no sequence's or not used.
/// `side` is where `rows` counts from.
template <class T>
void clear_rows(const ForwardContext<T>& context, const core::SequenceRows& side, core::Range rows);

/// Rows of a task that see its keys through causal and windows, in tiles of packed keys and values.
template <class T>
void run_tile_task(const ForwardContext<T>& context, const Task& task, const Partials<T>& partials,
                   const ForwardScratch<T>& scratch);

/// Few rows against a chunk of keys where they lie.
template <class T>
void run_decode_task(const ForwardContext<T>& context, const Task& task,
                     const Partials<T>& partials, const ForwardScratch<T>& scratch);

/// Merges the partial results of the chunks that begin with `first` and finishes their rows.
template <class T>
void combine_chunks(const ForwardContext<T>& context, const Task& first,
                    const Partials<T>& partials, const ForwardScratch<T>& scratch);

}  // namespace fa4::cpu
