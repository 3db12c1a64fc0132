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

// Many rows leave the scores of a block room for as many weights: AddRows::scratch.
static_assert(kDecodeStrideOfMany + kMostInterleavedKeys <= kDecodeStride);
static_assert(kDecodeBlockOfMany <= kMostInterleavedKeys);

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
        rows_of_k_(positions_ * context.problem.group),
        few_(rows_of_k_ < kManyDecodeRows),
        interleaved_(context.kernels.interleaves(context.tensors.k.dtype, rows_of_k_)),
        s_stride_(few_ ? kDecodeStride : kDecodeStrideOfMany) {}

  void run(const RowState<T>& state) {
    const int64_t dim_qk = x_.problem.dim_qk;
    for (int64_t h = 0; h < task_.heads; ++h) {
      x_.kernels.load_rows(
          rows_of_head(x_.tensors.q, sequence_.q, head_of(h * positions_), task_.rows.begin),
          positions_, dim_qk, T{1}, s_.q + h * positions_ * dim_qk, dim_qk);
    }
    arrange(x_.tensors.k, rows_, dim_qk, s_.q, dim_qk, false);
    std::fill_n(state.max, rows_, kMinusInfinity<T>);
    std::fill_n(state.sum, rows_, T{0});
    std::fill_n(state.out, rows_ * state.out_stride, T{0});
    const int64_t block = few_ ? kDecodeBlock : kDecodeBlockOfMany;
    for (int64_t key = task_.keys.begin; key < task_.keys.end; key += block) {
      run_block({key, std::min(key + block, task_.keys.end)}, state);
    }
    arrange(x_.tensors.v, rows_, x_.problem.dim_v, state.out, state.out_stride, true);
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
  using Counting = std::array<bool, kDecodeBlock>;  ///< Of each key of a block.

  int64_t head_of(int64_t row) const { return task_.head_k * x_.problem.group + row / positions_; }
  int64_t position_of(int64_t row) const { return task_.rows.begin + row % positions_; }

  void run_block(core::Range keys, const RowState<T>& state) {
    const Columns all = score_block(keys);
    if (all.begin >= all.end) return;
    ScoreTile<T> tile;
    tile.s = s_.scores;
    tile.s_stride = s_stride_;
    tile.rows = rows_;
    tile.columns = all;
    tile.visible = s_.visible;
    tile.scale = x_.scale;
    tile.approximate = x_.approximate;
    const int64_t cols = interleaved_ ? x_.problem.dim_v : state.out_stride;
    x_.kernels.softmax(tile,
                       {state.max, state.sum, state.out, state.out_stride, cols, interleaved_});
    if (x_.has_dropout) {
      for (int64_t r = 0; r < rows_; ++r) {
        apply_dropout<T>(x_.dropout, row_at(keys, r), s_.scores + r * s_stride_);
      }
    }

    // Keys that are nothing to any row are left out: a mask may hide most of a cache.
    Counting counts;
    counts.fill(true);
    if (x_.modifiers.may_hide()) find_counting(all, counts);
    const int64_t size = rows_ * state.out_stride;
    std::copy_n(state.out, size, s_.saved);
    if (x_.modifiers.may_hide()) {
      add_in_turns(keys, all, counts, false, state);
    } else {
      add_values(keys, all, state);
    }
    if (x_.kernels.all_finite(state.out, size)) return;
    std::copy_n(s_.saved, size, state.out);
    add_in_turns(keys, all, counts, true, state);
  }

  void find_counting(Columns all, Counting& counts) const {
    std::fill(counts.begin() + all.begin, counts.begin() + all.end, false);
    for (int64_t r = 0; r < rows_; ++r) {
      const T* p = s_.scores + r * s_stride_;
      for (int64_t c = all.begin; c < all.end; ++c) counts[c] = counts[c] || p[c] != 0;
    }
  }

  /// Keys [begin, begin + count) of the task's heads of k or v, or of one of them.
  CacheBlock cache_block(const Tensor& cache, int64_t key, int64_t count) const {
    const Matrix first = rows_of_head(cache, sequence_.k, task_.head_k, key);
    return {first, rows_ / rows_of_k_, cache.strides[cache.rank - 2], count};
  }

  /// Scores of all rows; returns the columns that any row sees.
  Columns score_block(core::Range keys) {
    DotRows<T> dot;
    dot.q = s_.q;
    dot.q_stride = dot.depth = x_.problem.dim_qk;
    dot.rows = rows_of_k_;
    dot.k = cache_block(x_.tensors.k, keys.begin, keys.size());
    dot.s = s_.scores;
    dot.s_stride = s_stride_;
    x_.kernels.dot_rows(dot);
    Columns all{keys.size(), 0};
    for (int64_t r = 0; r < rows_; ++r) {
      const core::Range seen = core::intersect(sequence_.keys_of_row(position_of(r)), keys);
      s_.visible[r] = {0, 0};
      if (seen.empty()) continue;
      s_.visible[r] = {seen.begin - keys.begin, seen.end - keys.begin};
      all = {std::min(all.begin, s_.visible[r].begin), std::max(all.end, s_.visible[r].end)};
      if (x_.modifiers.active()) {
        x_.modifiers.apply(row_at(keys, r), {s_.bias, s_.mask}, s_.scores + r * s_stride_);
      }
    }
    return all;
  }

  void add_values(core::Range keys, Columns all, const RowState<T>& state) {
    AddRows<T> add = rows_of_values(0, all.begin, state);
    add.v = cache_block(x_.tensors.v, keys.begin + all.begin, all.end - all.begin);
    x_.kernels.add_rows(add);
  }

  AddRows<T> rows_of_values(int64_t row, int64_t key, const RowState<T>& state) const {
    AddRows<T> add;
    add.p = s_.scores + row * s_stride_ + key;
    add.p_stride = s_stride_;
    add.rows = rows_of_k_;
    add.cols = x_.problem.dim_v;
    add.out = state.out + row * state.out_stride;
    add.out_stride = state.out_stride;
    add.scratch = s_.scores + rows_ * s_stride_;
    return add;
  }

  /// Keys `first`, `first + step`, ... of a block, for the rows of a head of k.
  struct Turn {
    int64_t row, first, count, step;

    int64_t key(int64_t i) const { return first + i * step; }
  };

  /// add_values() without the keys that do not count, and with `apart` where a value may not be
  /// finite: as 0 * NaN it would reach rows that give it no weight. The order is that of
  /// add_values() for all keys: whoever shares the task, a row's bits stay the same.
  void add_in_turns(core::Range keys, Columns all, const Counting& counts, bool apart,
                    const RowState<T>& state) {
    const int64_t count = all.end - all.begin,
                  step = decode_stream_step(rows_of_k_, count, interleaved_);
    for (int64_t i = 0; i < std::min(step, count); ++i) {
      for (int64_t row = 0; row < rows_; row += rows_of_k_) {
        const Turn turn{row, all.begin + i, ceil_div(count - i, step), step};
        add_turn(keys, turn, counts, apart, state);
      }
    }
  }

  void add_turn(core::Range keys, const Turn& turn, const Counting& counts, bool apart,
                const RowState<T>& state) {
    int64_t done = 0;
    const auto add_until = [&](int64_t i) {
      if (done < i) {
        AddRows<T> add = rows_of_values(turn.row, turn.key(done), state);
        add.p_step = turn.step;
        add.v = {values_of(turn, keys.begin + turn.key(done)), 1, 0, i - done};
        x_.kernels.add_rows(add);
      }
      done = i + 1;
    };
    for (int64_t i = 0; i < turn.count; ++i) {
      const int64_t key = turn.key(i);
      const bool alone = apart && counts[key] && !is_finite(values_of(turn, keys.begin + key));
      if (counts[key] && !alone) continue;
      add_until(i);
      if (alone) add_alone(turn, keys, key, state);
    }
    add_until(turn.count);
  }

  Matrix values_of(const Turn& turn, int64_t key) const {
    const int64_t head = task_.head_k + turn.row / rows_of_k_;
    Matrix m = rows_of_head(x_.tensors.v, sequence_.k, head, key);
    m.row_stride *= turn.step;
    return m;
  }

  bool is_finite(const Matrix& value) {
    x_.kernels.load_rows(value, 1, x_.problem.dim_v, T{1}, value_.data(), 0);
    return x_.kernels.all_finite(value_.data(), x_.problem.dim_v);
  }

  void add_alone(const Turn& turn, core::Range keys, int64_t key, const RowState<T>& state) {
    const int64_t dim_v = x_.problem.dim_v;
    x_.kernels.load_rows(values_of(turn, keys.begin + key), 1, dim_v, T{1}, value_.data(), 0);
    arrange(x_.tensors.v, 1, dim_v, value_.data(), 0, false);
    T* out = state.out + turn.row * state.out_stride;
    for (int64_t r = 0; r < rows_of_k_; ++r) {
      const T p = s_.scores[(turn.row + r) * s_stride_ + key];
      if (interleaved_) {
        add_value(p, value_.data(), dim_v, out + r, kInterleavedRows);
      } else {
        add_value(p, value_.data(), dim_v, out + r * state.out_stride);
      }
    }
  }

  /// Puts columns into the order in which the kernels take those of `cache`, or back.
  void arrange(const Tensor& cache, int64_t rows, int64_t cols, T* values, int64_t stride,
               bool back) const {
    x_.kernels.arrange(rows_of_head(cache, sequence_.k, 0, 0), rows_of_k_, rows, cols, values,
                       stride, back);
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
  const bool few_;           ///< Of those: memory binds, not products.
  const bool interleaved_;   ///< How arrange() leaves q and out.
  const int64_t s_stride_;   ///< From a row of scores to the next.
  std::array<T, kMaxHeadDim> value_;
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
