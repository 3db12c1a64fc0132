// SPDX-License-Identifier: BSD-3-Clause
// Cuts a workspace into its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace fa4::cpu {

/// Hands out aligned pieces of a block of memory and counts them; with no block it only counts.
class Carver {
 public:
  explicit Carver(void* base = nullptr) : base_(reinterpret_cast<uintptr_t>(base)) {}

  /// Room for rows * cols elements of X.
  template <class X>
  X* take(int64_t rows, int64_t cols = 1) {
    const uintptr_t begin = base_ + offset_;
    size_t bytes = 0;
    overflow_ =
        overflow_ || __builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(X), &bytes) ||  // NOLINT(bugprone-sizeof-expression)
        __builtin_add_overflow(bytes, kAlign - 1, &bytes) ||
        __builtin_add_overflow(offset_, bytes / kAlign * kAlign, &offset_);
    return reinterpret_cast<X*>(begin);
  }
  /// Bytes handed out; none if their count passed 63 bits.
  std::optional<size_t> bytes() const {
    if (overflow_ || offset_ > static_cast<size_t>(INT64_MAX)) return std::nullopt;
    return offset_;
  }

 private:
  static constexpr size_t kAlign = 64;
  uintptr_t base_;
  size_t offset_ = 0;
  bool overflow_ = false;
};

}  // namespace fa4::cpu
