// SPDX-License-Identifier: BSD-3-Clause
// Decode: few query rows against a long cache. Nothing is packed: keys and values are read once,
// where they lie, by all rows together; the cache is cut into chunks that workers share, and their
// partial results are merged.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu/forward_context.h"

namespace fa4::cpu {
namespace {

template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

template <class T>
class DecodeTask {
 public:
  DecodeTask(const ForwardContext<T>& context, const Task& task, const ForwardScratch<T>& scratch)
      : x_(context),
        task_(task),
        s_(scratch),
        sequence_(core::sequence_of(context.problem, context.tensors, task.sequence)),
        positions_(task.rows.size()),
        rows_(positions_ * task.heads),
        rows_of_k_(positions_ * context.problem.group) {}

  void run(const RowState<T>& state) {
    const int64_t dim_qk = x_.problem.dim_qk;
    for (int64_t h = 0; h < task_.heads; ++h) {
      x_.kernels.load_rows(
          rows_of_head(x_.tensors.q, sequence_.q, head_of(h * positions_), task_.rows.begin),
          positions_, dim_qk, T{1}, s_.q + h * positions_ * dim_qk, dim_qk);
    }
    std::fill_n(state.max, rows_, kMinusInfinity<T>);
    std::fill_n(state.sum, rows_, T{0});
    std::fill_n(state.out, rows_ * state.out_stride, T{0});
    for (int64_t key = task_.keys.begin; key < task_.keys.end; key += kDecodeBlock) {
      run_block({key, std::min(key + kDecodeBlock, task_.keys.end)}, state);
    }
  }

  void finish(const RowState<T>& state) const {
    for (int64_t h = 0; h < task_.heads; ++h) {
      const int64_t row = h * positions_;
      finish_rows<T>(
          x_, sequence_, head_of(row), task_.rows,
          {state.max + row, state.sum + row, state.out + row * state.out_stride, state.out_stride});
    }
  }

 private:
  int64_t head_of(int64_t row) const { return task_.head_k * x_.problem.group + row / positions_; }
  int64_t position_of(int64_t row) const { return task_.rows.begin + row % positions_; }

  void run_block(core::Range keys, const RowState<T>& state) {
    const Columns all = score_block(keys);
    if (all.begin >= all.end) return;
    ScoreTile<T> tile;
    tile.s = s_.scores;
    tile.s_stride = kDecodeStride;
    tile.rows = rows_;
    tile.columns = all;
    tile.visible = s_.visible;
    tile.scale = x_.scale;
    tile.approximate = x_.approximate;
    x_.kernels.softmax(tile, {state.max, state.sum, state.out, state.out_stride, state.out_stride});
    if (x_.has_dropout) {
      for (int64_t r = 0; r < rows_; ++r) {
        apply_dropout<T>(x_.dropout, row_at(keys, r), s_.scores + r * kDecodeStride);
      }
    }

    // Keys that are nothing to any row are left out: a mask may hide most of a cache.
    std::array<bool, kDecodeBlock> counts;
    counts.fill(!x_.modifiers.may_hide());
    if (x_.modifiers.may_hide()) find_counting(all, counts);
    const int64_t size = rows_ * state.out_stride;
    std::copy_n(state.out, size, s_.saved);
    each_run(all, counts, [&](Columns run) { add_values(keys, run, state); });
    if (x_.kernels.all_finite(state.out, size)) return;
    std::copy_n(s_.saved, size, state.out);
    each_run(all, counts, [&](Columns run) { add_values_apart(keys, run, state); });
  }

  template <class Body>
  static void each_run(Columns all, const std::array<bool, kDecodeBlock>& counts,
                       const Body& body) {
    for (int64_t begin = all.begin; begin < all.end; ++begin) {
      int64_t end = begin;
      while (end < all.end && counts[end]) ++end;
      if (begin < end) body(Columns{begin, end});
      begin = end;
    }
  }

  void find_counting(Columns all, std::array<bool, kDecodeBlock>& counts) const {
    for (int64_t r = 0; r < rows_; ++r) {
      const T* p = s_.scores + r * kDecodeStride;
      for (int64_t c = all.begin; c < all.end; ++c) counts[c] = counts[c] || p[c] != 0;
    }
  }

  /// Keys of a block that kernels take together: `count` of them, each `step` after the one before.
  struct Piece {
    int64_t first = 0, count = 0, step = 1;
  };

  /// Keys whose rows of `cache` share a page of memory. Heads take such keys one after another, so
  /// that they read each page from its beginning to its end: the processor sees that coming.
  int64_t keys_of_page(const Tensor& cache) const {
    constexpr int64_t kPage = 4096, kMost = 4;
    const int64_t* strides = cache.strides.data() + (cache.rank - 3);
    const int64_t bytes = strides[0] * size_of(cache.dtype);
    const bool whole = bytes >= kPage / kMost && bytes < kPage && kPage % bytes == 0;
    return whole && strides[1] < strides[0] && x_.problem.heads_k > 1 ? kPage / bytes : 1;
  }

  /// Calls body(rows, piece) for the rows of each head of k, and pieces of `columns`. The
  /// order of keys must not depend on the heads that share a task.
  template <class Body>
  void each_piece(const Tensor& cache, Columns columns, const Body& body) const {
    const int64_t step = keys_of_page(cache);
    const bool in_turns = step > 1 || rows_ > rows_of_k_;
    const int64_t size = in_turns ? kDecodePiece * step : kDecodeBlock;
    for (int64_t begin = columns.begin; begin < columns.end; begin += size) {
      const int64_t end = std::min(begin + size, columns.end);
      for (int64_t first = begin; first < std::min(begin + step, end); ++first) {
        for (int64_t row = 0; row < rows_; row += rows_of_k_) {
          body(core::Range{row, row + rows_of_k_}, Piece{first, ceil_div(end - first, step), step});
        }
      }
    }
  }

  Matrix cache_rows(const Tensor& cache, int64_t row, int64_t key, int64_t step = 1) const {
    Matrix m = rows_of_head(cache, sequence_.k, task_.head_k + row / rows_of_k_, key);
    m.row_stride *= step;
    return m;
  }

  /// Scores of all rows; returns the columns that any row sees.
  Columns score_block(core::Range keys) {
    DotRows<T> dot;
    dot.q_stride = dot.depth = x_.problem.dim_qk;
    dot.s_stride = kDecodeStride;
    each_piece(x_.tensors.k, {0, keys.size()}, [&](core::Range rows, Piece piece) {
      dot.q = s_.q + rows.begin * dot.q_stride;
      dot.rows = rows.size();
      dot.k = cache_rows(x_.tensors.k, rows.begin, keys.begin + piece.first, piece.step);
      dot.keys = piece.count;
      dot.s = s_.scores + rows.begin * kDecodeStride + piece.first;
      dot.s_step = piece.step;
      x_.kernels.dot_rows(dot);
    });
    Columns all{keys.size(), 0};
    for (int64_t r = 0; r < rows_; ++r) {
      const core::Range seen = core::intersect(sequence_.keys_of_row(position_of(r)), keys);
      s_.visible[r] = {0, 0};
      if (seen.empty()) continue;
      s_.visible[r] = {seen.begin - keys.begin, seen.end - keys.begin};
      all = {std::min(all.begin, s_.visible[r].begin), std::max(all.end, s_.visible[r].end)};
      if (x_.modifiers.active()) {
        x_.modifiers.apply(row_at(keys, r), {s_.bias, s_.mask}, s_.scores + r * kDecodeStride);
      }
    }
    return all;
  }

  void add_values(core::Range keys, Columns run, const RowState<T>& state) {
    each_piece(x_.tensors.v, run,
               [&](core::Range rows, Piece piece) { add_piece(keys, rows, piece, state); });
  }

  void add_piece(core::Range keys, core::Range rows, Piece piece, const RowState<T>& state) {
    AddRows<T> add;
    add.p = s_.scores + rows.begin * kDecodeStride + piece.first;
    add.p_stride = kDecodeStride;
    add.p_step = piece.step;
    add.rows = rows.size();
    add.v = cache_rows(x_.tensors.v, rows.begin, keys.begin + piece.first, piece.step);
    add.keys = piece.count;
    add.cols = x_.problem.dim_v;
    add.out = state.out + rows.begin * state.out_stride;
    add.out_stride = state.out_stride;
    x_.kernels.add_rows(add);
  }

  /// add_values() where a value may not be finite: as 0 * NaN it would reach rows that give it no
  /// weight.
  void add_values_apart(core::Range keys, Columns run, const RowState<T>& state) {
    const int64_t dim_v = x_.problem.dim_v;
    std::array<T, kMaxHeadDim> value;
    each_piece(x_.tensors.v, run, [&](core::Range rows, Piece piece) {
      const auto key_at = [&](int64_t i) { return piece.first + i * piece.step; };
      int64_t done = 0;
      const auto add_until = [&](int64_t i) {
        if (done < i) add_piece(keys, rows, {key_at(done), i - done, piece.step}, state);
        done = i + 1;
      };
      for (int64_t i = 0; i < piece.count; ++i) {
        x_.kernels.load_rows(cache_rows(x_.tensors.v, rows.begin, keys.begin + key_at(i)), 1, dim_v,
                             T{1}, value.data(), 0);
        if (x_.kernels.all_finite(value.data(), dim_v)) continue;
        add_until(i);
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          add_value(s_.scores[r * kDecodeStride + key_at(i)], value.data(), dim_v,
                    state.out + r * state.out_stride);
        }
      }
      add_until(piece.count);
    });
  }

  typename ScoreModifiers<T>::Row row_at(core::Range keys, int64_t row) const {
    return {sequence_, head_of(row), position_of(row), keys.begin, s_.visible[row]};
  }

  const ForwardContext<T>& x_;
  const Task& task_;
  const ForwardScratch<T>& s_;
  const core::Sequence sequence_;
  const int64_t positions_;
  const int64_t rows_;
  const int64_t rows_of_k_;  ///< Rows of each head of k, one after another.
};

}  // namespace

template <class T>
void run_decode_task(const ForwardContext<T>& context, const Task& task,
                     const Partials<T>& partials, const ForwardScratch<T>& scratch) {
  DecodeTask<T> decode(context, task, scratch);
  const int64_t ld_v = context.tiling.ld_v;
  if (task.slot < 0) {
    const RowState<T> state{scratch.max, scratch.sum, scratch.out, ld_v};
    decode.run(state);
    decode.finish(state);
  } else {
    decode.run({partials.max + task.slot, partials.sum + task.slot, partials.out + task.slot * ld_v,
                ld_v});
  }
}

template <class T>
void combine_chunks(const ForwardContext<T>& context, const Task& task, const Partials<T>& partials,
                    const ForwardScratch<T>& scratch) {
  const int64_t rows = task.rows.size() * task.heads;
  const int64_t ld_v = context.tiling.ld_v;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t end = task.slot + task.chunks * rows;
    T max = kMinusInfinity<T>;
    for (int64_t i = task.slot + r; i < end; i += rows) max = std::max(max, partials.max[i]);
    T sum = 0;
    T* out = scratch.out + r * ld_v;
    std::fill_n(out, ld_v, T{0});
    for (int64_t i = task.slot + r; i < end; i += rows) {
      if (partials.max[i] == kMinusInfinity<T> && partials.sum[i] == 0) continue;  // saw no key
      const auto weight = static_cast<T>(std::exp(
          (static_cast<double>(partials.max[i]) - static_cast<double>(max)) * context.scale));
      sum += weight * partials.sum[i];
      for (int64_t c = 0; c < ld_v; ++c) out[c] += weight * partials.out[i * ld_v + c];
    }
    scratch.max[r] = max;
    scratch.sum[r] = sum;
  }
  DecodeTask<T>(context, task, scratch).finish({scratch.max, scratch.sum, scratch.out, ld_v});
}

template void run_decode_task(const ForwardContext<float>&, const Task&, const Partials<float>&,
                              const ForwardScratch<float>&);
template void run_decode_task(const ForwardContext<double>&, const Task&, const Partials<double>&,
                              const ForwardScratch<double>&);
template void combine_chunks(const ForwardContext<float>&, const Task&, const Partials<float>&,
                             const ForwardScratch<float>&);
template void combine_chunks(const ForwardContext<double>&, const Task&, const Partials<double>&,
                             const ForwardScratch<double>&);

}  // namespace fa4::cpu
