// SPDX-License-Identifier: BSD-3-Clause
// Which rows belong to a sequence, and which keys a row may see: the geometry of every mask but the
// boolean one. Pure functions of lengths and options, shared by all backends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"

namespace fa4::core {

/// A half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return std::max<int64_t>(0, end - begin); }
  bool empty() const { return end <= begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

inline Range intersect(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// One side (q or k) of one sequence. Row r of the sequence, 0 <= r < capacity, lies at row
/// `first_row + r` of batch entry `batch_index` of its tensor. Rows in `used` count.
struct SequenceRows {
  int64_t batch_index = 0;  ///< 0 when packed.
  int64_t first_row = 0;    ///< cu_seqlens[b] when packed, else 0.
  int64_t capacity = 0;
  Range used;
};

/// One sequence of the batch and the keys that its rows may see. Row and key indices count from the
/// sequence's first row, padding included.
struct Sequence {
  int64_t index = 0;
  SequenceRows q;
  SequenceRows k;
  int64_t diagonal = 0;  ///< Row i stands at key i + diagonal.
  int64_t left = 0;      ///< Keys before the diagonal that are visible; clamped to the lengths.
  int64_t right = 0;     ///< Keys after it.

  /// Keys that row i (in q.used) may see; may be empty. Both ends never decrease with i.
  Range keys_of_row(int64_t i) const {
    return {std::max(k.used.begin, i + diagonal - left),
            std::min(k.used.end, i + diagonal + right + 1)};
  }
  /// Keys that any row of `rows` may see.
  Range keys_of_rows(Range rows) const {
    if (rows.empty()) return {};
    return {keys_of_row(rows.begin).begin, keys_of_row(rows.end - 1).end};
  }
  /// Keys that every row of `rows` may see.
  Range keys_common_to_rows(Range rows) const {
    if (rows.empty()) return {};
    return {keys_of_row(rows.end - 1).begin, keys_of_row(rows.begin).end};
  }
  /// Rows that may see key j (in k.used); may be empty. Both ends never decrease with j.
  Range rows_of_key(int64_t j) const {
    return {std::max(q.used.begin, j - diagonal - right),
            std::min(q.used.end, j - diagonal + left + 1)};
  }
  /// Rows that may see any key of `keys`.
  Range rows_of_keys(Range keys) const {
    if (keys.empty()) return {};
    return {rows_of_key(keys.begin).begin, rows_of_key(keys.end - 1).end};
  }
};

/// Sequence b of the problem; lengths are read from the tensors, which must be valid CPU memory.
Sequence sequence_of(const Problem& problem, const AttentionTensors& tensors, int64_t b);

/// Element i of an int32 or int64 tensor of rank 1.
int64_t read_index(const Tensor& tensor, int64_t i);

}  // namespace fa4::core
