// SPDX-License-Identifier: BSD-3-Clause
// One tile of the backward pass: loading its operands, its scores and gradients.
#pragma once

#include "core/philox.h"
#include "core/sequence.h"
#include "cpu/backward_layout.h"
#include "cpu/kernels.h"
#include "cpu/scores.h"

namespace fa4::cpu {

/// Whether delta is made from p * dp, at the price of two more products, rather than from out: an
/// out of 16 bits is too coarse where the values have much in common.
inline bool has_exact_delta(const core::Problem& problem) { return size_of(problem.dtype) == 2; }

/// What all tasks of a run share.
template <class T>
struct BackwardContext {
  const Kernels<T>& kernels;
  const core::Problem& problem;
  const AttentionTensors& tensors;
  const AttentionGradients& gradients;
  BackwardTiling tiling;
  ScoreModifiers<T> modifiers;
  core::Dropout dropout;
  bool has_dropout;
  bool exact_delta;     ///< has_exact_delta()
  T* deltas = nullptr;  ///< [heads_q, total_q]: exact ones, kept for the extras; may be null.

  BackwardContext(const Kernels<T>& its_kernels, const core::Problem& its_problem,
                  const AttentionTensors& its_tensors, const AttentionGradients& its_gradients);
};

/// Part of a tile: rows [row, row + rows) and keys [key, key + keys) of a sequence for one query
/// head, all of them a tile's at most.
struct Block {
  const core::Sequence& sequence;
  int64_t head = 0;
  core::Range rows;
  core::Range keys;
};

/// Rows `rows` of one head of q, k, v, out, dq, ... `side` says where the sequence lies.
Matrix head_rows(const Tensor& tensor, const core::SequenceRows& side, int64_t head, int64_t row);

/// Where a query tile goes; what is null is not made.
template <class T>
struct QueryTile {
  T* q_rows = nullptr;
  T* q_panels = nullptr;
  T* do_rows = nullptr;
  T* do_panels = nullptr;
  T* lse = nullptr;
  T* delta = nullptr;
  uint8_t* apart = nullptr;  ///< Given with the panels.
};

/// Where delta = sum(p * dp) - dlse comes from.
enum class DeltaSource {
  kOut,     ///< sum(p * dp) = sum(dout * out)
  kLater,   ///< Only -dlse for now: add_row_sums() adds the rest.
  kStored,  ///< context.deltas
};
template <class T>
DeltaSource delta_source(const BackwardContext<T>& context, bool of_extras) {
  if (!context.exact_delta) return DeltaSource::kOut;
  return of_extras ? DeltaSource::kStored : DeltaSource::kLater;
}
/// context.deltas of row `row` of a sequence.
template <class T>
T& stored_delta(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                int64_t row);

/// Loads rows of dout, their lse and delta. A row that sees no key gets lse -inf (even with a sink)
/// and delta 0.
template <class T>
void load_deltas(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                 core::Range rows, DeltaSource source, T* do_rows, T* lse, T* delta,
                 const WorkerScratch<T>& scratch);

/// Loads rows of q and dout, their lse and delta. Rows that see no key become 0. Those that are not
/// finite become 0 in the panels, whose products would bring them to keys that they don't see as
/// 0 * NaN, and are marked in `apart`.
template <class T>
void load_queries(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                  core::Range rows, DeltaSource source, const QueryTile<T>& to,
                  const WorkerScratch<T>& scratch);

/// Where a tile of keys and values goes; what is null is not made.
template <class T>
struct KeyTile {
  T* k_columns = nullptr;
  T* k_panels = nullptr;
  T* v_columns = nullptr;
  uint8_t* apart = nullptr;  ///< Given with the panels.
};

/// Loads keys and values of a key head. Keys that are not finite become 0 in the panels and are
/// marked in `apart`.
template <class T>
void load_keys(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head_k,
               core::Range keys, const KeyTile<T>& to, const WorkerScratch<T>& scratch);

/// Operands of a block's scores and dp: the first row's, and the first panel's.
template <class T>
struct BlockOperands {
  const T* q_rows;
  const T* do_rows;
  const T* lse;
  const T* delta;
  const T* k_columns;
  const T* v_columns;
};

/// Makes scratch.scores the probabilities (dropped out and rescaled with dropout) of the block and
/// scratch.gradients the gradient of its scores: of the raw ones, or for `of_bias` of those after
/// the softcap. Both begin at element 0; what a row doesn't see is 0.
template <class T>
void score_gradients(const BackwardContext<T>& context, const Block& block,
                     const BlockOperands<T>& operands, bool of_bias,
                     const WorkerScratch<T>& scratch);

/// Adds each row's sum of p * dp over the block's keys to `sums`.
template <class T>
void add_row_sums(const BackwardContext<T>& context, const Block& block,
                  const BlockOperands<T>& operands, T* sums, const WorkerScratch<T>& scratch);

}  // namespace fa4::cpu
