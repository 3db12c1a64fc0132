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
//
// T, the type of all arithmetic, is float, and double for float64 tensors.
#pragma once

#include <fa4/status.h>
#include <fa4/types.h>

#include <cstdint>
#include <span>

namespace fa4::cpu {

constexpr int64_t kMaxHeadDim = 256;

/// A matrix inside an input or output tensor: element (r, c) is data[r * row_stride + c *
/// col_stride].
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t row_stride = 0;
  int64_t col_stride = 1;

  Matrix transposed() const { return {data, dtype, col_stride, row_stride}; }
  /// The matrix that begins at element (r, c).
  Matrix at(int64_t r, int64_t c) const {
    const int64_t offset = (r * row_stride + c * col_stride) * size_of(dtype);
    return {static_cast<char*>(data) + offset, dtype, row_stride, col_stride};
  }
};

/// Operands of one product. B is a matrix that pack() wrote with the same `panel_depth`: its rows
/// [0, depth) take part, so that a product can use the first rows alone. To begin at row r of B
/// pass b + r * panel; to begin at panel p pass b + p * panel_depth * panel.
template <class T>
struct Product {
  const T* a = nullptr;
  int64_t a_row_stride = 0;  ///< Element (i, p) of A is a[i * a_row_stride + p * a_col_stride], so
  int64_t a_col_stride = 1;  ///< that a transposed A needs no copy.
  const T* b = nullptr;
  int64_t panel_depth = 0;  ///< Rows that each panel of B was packed with (>= depth).
  T* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0, cols = 0, depth = 0;
  bool accumulate =
      false;  ///< C += A * B, else C = A * B. C's columns past `cols`, up to the end of the
              ///< last panel, are written too (with what B's zero padding gives).
};

/// Half-open range of columns of a tile.
struct Columns {
  int64_t begin = 0, end = 0;
};

/// One row of a score tile: dot products in, scores out, in units of the natural logarithm:
///   s = scale * s;  s = softcap * tanh(s / softcap);  s += bias + alibi;  s = -inf where hidden
template <class T>
struct ScoreRow {
  T* s = nullptr;
  Columns columns;  ///< Columns to work on; all pointers below are to column 0.
  T scale = 1;
  T softcap = 0;               ///< 0 = off.
  T* softcap_slope = nullptr;  ///< If given: receives 1 - tanh(s / softcap)^2.
  const T* bias = nullptr;     ///< -inf hides the key, whatever s is.
  T alibi_slope = 0;           ///< Adds alibi_slope * (alibi_first + column).
  T alibi_first = 0;
  const uint8_t* mask = nullptr;  ///< 0 hides the key, whatever s is.
};

/// Rows of a score tile on their way to probabilities. Columns [begin, end) of s are read by the
/// product that follows, so those that a row does not see become 0. Reads and writes of s go up to
/// the next multiple of `panel` around [begin, end).
template <class T>
struct ScoreTile {
  T* s = nullptr;
  int64_t s_stride = 0;
  int64_t rows = 0;
  Columns columns;
  const Columns* visible = nullptr;  ///< Of each row, within `columns`; null = all of them.
  double scale = 1;                  ///< Turns s into units of the natural logarithm; > 0.
  bool approximate = false;          ///< A shorter exp2, whose error vanishes in 16-bit outputs.
};

/// Rows of a backward tile: scores and dp = dout v^T in, probabilities and the scores' gradient
/// out, 0 in columns that a row does not see:
///   p = exp(scale * s - lse);  ds = p * (keep * dp - delta) * slope;  s becomes keep * p
/// Reads and writes go up to the next multiple of `panel`.
template <class T>
struct GradientTile {
  T* s = nullptr;
  T* dp = nullptr;     ///< ds, when done
  int64_t stride = 0;  ///< Of all that has rows and columns.
  int64_t rows = 0, cols = 0;
  const Columns* visible = nullptr;  ///< Of each row; null = all columns.
  T scale = 1;                       ///< > 0
  const T* lse = nullptr;            ///< Of each row; -inf makes all of it 0.
  const T* delta = nullptr;
  const T* slopes = nullptr;  ///< The softcap's; may be null.
  const T* keep = nullptr;    ///< Dropout's factors; may be null.
  T* sums = nullptr;          ///< If given: receives += the sum of p * keep * dp of each row, and
                              ///< s and dp are left alone but for their padding.
  bool approximate = false;   ///< A shorter exp2, whose error vanishes in 16-bit outputs.
};

/// The running softmax of the rows of a ScoreTile: sum and output are those of exp(scale * (s -
/// max)). `max` need not be the row's maximum: it follows it when that has moved by more than 8 in
/// units of log2, which is when `sum` and `out` are rescaled. It starts as -inf, with sum 0.
template <class T>
struct SoftmaxState {
  T* max = nullptr;
  T* sum = nullptr;
  T* out = nullptr;  ///< out_cols columns of each row
  int64_t out_stride = 0, out_cols = 0;
  bool interleaved = false;  ///< Each kInterleavedRows rows of out, as arrange() leaves them.
};

/// Keys or values of some heads, where they lie in a cache.
struct CacheBlock {
  Matrix first;  ///< keys x columns: those of the first head
  int64_t heads = 1, head_stride = 0;
  int64_t keys = 0;
};

/// Few query rows against a cache (decode): each head of it has `rows` of them. The rows of one
/// head follow one another, and those of the next head follow them. Columns of q and out are in the
/// order that `arrange` gives them. At most kMostInterleavedKeys keys where interleaves() says yes.
template <class T>
struct DotRows {
  const T* q = nullptr;  ///< heads * rows x depth
  int64_t q_stride = 0, rows = 0, depth = 0;
  CacheBlock k;
  T* s = nullptr;  ///< heads * rows x keys: dot products
  int64_t s_stride = 0;
};
template <class T>
struct AddRows {
  const T* p = nullptr;              ///< heads * rows x keys
  int64_t p_stride = 0, p_step = 1;  ///< From a row to the next, from a key to the next.
  int64_t rows = 0, cols = 0;
  CacheBlock v;
  T* out = nullptr;  ///< heads * rows x cols: out += p * v
  int64_t out_stride = 0;
  T* scratch = nullptr;  ///< Room for p without gaps, where interleaves() says yes.
};

/// With fewer rows a head than this, decode is bound by memory, else by its products.
constexpr int64_t kManyDecodeRows = 4;

/// With this many rows a head arrange() may interleave those of q and out: they are the lanes of a
/// vector then.
constexpr int64_t kInterleavedRows = 8;
constexpr int64_t kMostInterleavedKeys = 120;
constexpr int64_t kStreamsOfInterleaved = 6;

/// Decode reads a block of keys as several streams in turns, each in the order of memory: the
/// processor sees that coming, and the misses of one stream hide those of another. Keys i, i +
/// step, ... are the i-th of each stream; this is the step. Odd, lest all streams fall into the
/// same set of the first-level cache where rows are a power of two apart.
inline int64_t decode_stream_step(int64_t rows, int64_t keys, bool interleaved) {
  constexpr int64_t kStreamsOfFew = 8, kStreamsOfMany = 3;
  if (rows < kManyDecodeRows) return (keys + kStreamsOfFew - 1) / kStreamsOfFew | 1;
  if (interleaved) return (keys + kStreamsOfInterleaved - 1) / kStreamsOfInterleaved;
  return (keys + kStreamsOfMany - 1) / kStreamsOfMany;
}

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

  void (*finish_scores)(const ScoreRow<T>& row);
  /// s becomes exp(scale * (s - max)); the state moves on.
  void (*softmax)(const ScoreTile<T>& tile, const SoftmaxState<T>& state);
  void (*gradients)(const GradientTile<T>& tile);

  /// Whether arrange() interleaves q and out for `rows` rows a head and a cache of this type.
  bool (*interleaves)(DType cache, int64_t rows);
  /// Puts the columns of `count` rows into the order in which dot_rows and add_rows take them from
  /// the cache `from` for `rows` rows a head; or, `back`, into their own order again. Where rows
  /// are interleaved, element c of row r of a head moves to r + c * kInterleavedRows from the
  /// head's first.
  void (*arrange)(Matrix from, int64_t rows, int64_t count, int64_t cols, T* values, int64_t stride,
                  bool back);
  void (*dot_rows)(const DotRows<T>& dot);
  void (*add_rows)(const AddRows<T>& add);

  /// Whether all n values are finite.
  bool (*all_finite)(const T* values, int64_t n);
};

/// Elements that pack() writes.
template <class T>
int64_t packed_size(const Kernels<T>& kernels, int64_t panel_depth, int64_t cols) {
  return (cols + kernels.panel - 1) / kernels.panel * kernels.panel * panel_depth;
}

/// Sets row `row` of a matrix that pack() wrote to 0.
template <class T>
void clear_packed_row(const Kernels<T>& kernels, T* packed, int64_t panel_depth, int64_t cols,
                      int64_t row) {
  for (int64_t first = 0; first < cols; first += kernels.panel) {
    T* values = packed + first * panel_depth + row * kernels.panel;
    for (int64_t c = 0; c < kernels.panel; ++c) values[c] = 0;
  }
}

/// out += p * value for a value that may not be finite: without weight it adds nothing.
template <class T>
void add_value(T p, const T* value, int64_t dim, T* out, int64_t out_step = 1) {
  for (int64_t c = 0; p != 0 && c < dim; ++c) out[c * out_step] += p * value[c];
}

/// One set of micro-kernels that this processor can run.
struct Target {
  const char* name;
  const Kernels<float>* single;
  const Kernels<double>* twice;

  template <class T>
  const Kernels<T>& kernels() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return *single;
    } else {
      return *twice;
    }
  }
};

/// What this processor can run, best first. Never empty.
std::span<const Target> available_targets();

/// The best target, or the one that the environment variable FA4_CPU_TARGET names; an error if that
/// is none of available_targets().
Result<const Target*> choose_target();

}  // namespace fa4::cpu
