// SPDX-License-Identifier: BSD-3-Clause
// From dot products to scores: scale, softcap, bias, ALiBi and boolean mask, row by row, for tiles
// and decode, forward and backward. Which keys lengths, causal and windows leave to a row is
// core/sequence.h's matter.
#pragma once

#include <array>

#include "core/philox.h"
#include "core/sequence.h"
#include "cpu/kernels.h"

namespace fa4::cpu {

/// A bias or mask seen as [batch, heads, rows, keys]: dims of 1 are broadcast.
struct Broadcast {
  const void* data = nullptr;
  DType dtype = DType::kBool;
  std::array<int64_t, 4> strides{};

  static Broadcast of(const Tensor& tensor);
  bool present() const { return data != nullptr; }
  /// Keys from `key` on of one row, as a matrix of one row.
  Matrix row(int64_t sequence, int64_t head, int64_t row, int64_t key) const;
};

/// What a problem does to its scores.
template <class T>
class ScoreModifiers {
 public:
  /// Rows of the bias and the mask on their way: `size` elements each.
  struct Buffers {
    T* bias = nullptr;
    uint8_t* mask = nullptr;
  };
  /// Columns of a tile: column c is key first_key + c of the sequence.
  struct Row {
    const core::Sequence& sequence;
    int64_t head = 0;
    int64_t row = 0;
    int64_t first_key = 0;
    Columns columns;
  };

  ScoreModifiers(const Kernels<T>& kernels, const core::Problem& problem,
                 const AttentionTensors& tensors);

  /// Whether apply() does more than multiply with a positive scale.
  bool active() const { return active_; }
  /// Whether apply() may hide keys.
  bool may_hide() const { return bias_.present() || mask_.present(); }

  /// Turns the row's dot products into scores in units of the natural logarithm. If given, `slope`
  /// receives the softcap's derivative.
  void apply(const Row& row, const Buffers& buffers, T* s, T* slope = nullptr) const;
  /// Whether bias or mask hide `key` from the row.
  bool hides(const core::Sequence& sequence, int64_t head, int64_t row, int64_t key) const;

 private:
  const Kernels<T>& kernels_;
  Broadcast bias_, mask_;
  Tensor slopes_;
  T scale_, softcap_;
  bool active_;
};

/// Multiplies with 1 / (1 - p) or 0, as the generator says; a dropped NaN becomes 0.
template <class T>
void apply_dropout(const core::Dropout& dropout, const typename ScoreModifiers<T>::Row& row, T* p);

}  // namespace fa4::cpu
