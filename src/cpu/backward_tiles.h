// SPDX-License-Identifier: BSD-3-Clause
// One tile of the backward pass: loading its operands, its scores and gradients.
#pragma once

#include "core/philox.h"
#include "core/sequence.h"
#include "cpu/backward_layout.h"
#include "cpu/kernels.h"
#include "cpu/scores.h"

namespace fa4::cpu {

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

  BackwardContext(const Kernels<T>& kernels_, const core::Problem& problem_,
                  const AttentionTensors& tensors_, const AttentionGradients& gradients_);
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
};

/// Loads rows of dout, their lse and delta = sum(dout * out) - dlse. A row that sees no key gets
/// lse -inf (even with a sink) and delta 0.
template <class T>
void load_deltas(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                 core::Range rows, T* do_rows, T* lse, T* delta, const WorkerScratch<T>& scratch);

/// Loads rows of q and dout, their lse and delta. Rows that see no key become 0.
template <class T>
void load_queries(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                  core::Range rows, const QueryTile<T>& to, const WorkerScratch<T>& scratch);

/// Where a tile of keys and values goes; what is null is not made.
template <class T>
struct KeyTile {
  T* k_columns = nullptr;
  T* k_panels = nullptr;
  T* v_columns = nullptr;
};

/// Loads keys and values of a key head. Those that no row of the sequence may see become 0.
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

}  // namespace fa4::cpu
