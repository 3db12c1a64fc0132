// SPDX-License-Identifier: BSD-3-Clause
// The micro-kernels: all that depends on the processor, behind one table of functions.
//
// The algorithms (forward.cpp, backward.cpp, decode.cpp) are written once over this table. A target
// (AVX2, AVX-512, NEON, ...) is one instance of it, compiled from the same source by Highway and
// chosen at run time; a family with other operands (bf16 dot products, AMX) is one more instance:
// the algorithms treat packed operands as opaque bytes whose sizes they ask for.
//
//   C[m, n] (+)= A[m, k] * B[k, n]
//     A ("rows"): any strides, elements of T    -> load_rows() makes one from an input tensor
//     B ("panels"): packed, n cut into panels   -> pack() makes one from an input tensor
//     C: row-major T
#pragma once

#include <fa4/types.h>

#include <cstdint>

namespace fa4::cpu {

/// A matrix inside an input or output tensor: element (r, c) is data[r * row_stride + c *
/// col_stride].
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t row_stride = 0;
  int64_t col_stride = 1;

  Matrix transposed() const { return {data, dtype, col_stride, row_stride}; }
  /// The matrix that begins at element (r, c).
  Matrix at(int64_t r, int64_t c) const;
};

/// Operands of one product. B is the `depth` x `cols` matrix that pack() wrote with the same
/// `panel_depth`: rows [0, depth) of it take part, so that a product can use the first rows alone.
template <class T>
struct Product {
  const T* a = nullptr;
  int64_t a_row_stride =
      0;  ///< Element (i, p) of A is a[i * a_row_stride + p * a_col_stride], so that
  int64_t a_col_stride = 1;  ///< a transposed A needs no copy.
  const T* b = nullptr;
  int64_t panel_depth = 0;  ///< Rows that each panel of B was packed with (>= depth).
  T* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0, cols = 0, depth = 0;
  bool accumulate =
      false;  ///< C += A * B, else C = A * B. C's columns past `cols`, up to the end of the
              ///< last panel, are written too (with what B's zero padding gives).
};

template <class T>
struct Kernels {
  const char* target;  ///< "AVX2", "AVX3", ...
  int64_t panel;       ///< Columns of a panel of B. C rows need room for a multiple of it.
  int64_t row_step;    ///< Rows that a product handles best in multiples of.

  /// dst[r * dst_stride + c] = factor * src(r, c), converted to T.
  void (*load_rows)(Matrix src, int64_t rows, int64_t cols, T factor, T* dst, int64_t dst_stride);
  /// dst(r, c) = factor * src[r * src_stride + c], rounded to dst's dtype.
  void (*store_rows)(const T* src, int64_t src_stride, int64_t rows, int64_t cols, T factor,
                     Matrix dst);
  /// Packs a depth x cols matrix into panels: panel p holds columns [p * panel, (p + 1) * panel) as
  /// dst[(p * panel_depth + r) * panel + c]. Columns past `cols` and rows from `depth` to
  /// `panel_depth` become 0.
  void (*pack)(Matrix src, int64_t depth, int64_t cols, int64_t panel_depth, T* dst);
  void (*multiply)(const Product<T>& product);
};

/// Elements that pack() writes.
template <class T>
int64_t packed_size(const Kernels<T>& kernels, int64_t panel_depth, int64_t cols) {
  return (cols + kernels.panel - 1) / kernels.panel * kernels.panel * panel_depth;
}

/// The table of the best target that this processor has, or of the one that FA4_CPU_TARGET names.
template <class T>
const Kernels<T>& kernels();

}  // namespace fa4::cpu
