// SPDX-License-Identifier: BSD-3-Clause
// The forward pass over packed tiles: for each tile of keys and each block of rows, scores,
// softmax, and the product with the values.
#include <algorithm>
#include <array>
#include <limits>

#include "cpu/forward_context.h"

namespace fa4::cpu {
namespace {

template <class T>
class TileTask {
 public:
  TileTask(const ForwardContext<T>& context, const Task& task, const ForwardScratch<T>& scratch)
      : x_(context),
        task_(task),
        s_(scratch),
        sequence_(core::sequence_of(context.problem, context.tensors, task.sequence)),
        dim_qk_(context.problem.dim_qk),
        ld_v_(context.tiling.ld_v),
        positions_(task.rows.size()),
        rows_(positions_ * task.heads) {}

  void run(const Partials<T>& partials) {
    begin();
    core::Range keys = sequence_.keys_of_rows(task_.rows);
    const int64_t step = x_.tiling.tile_keys;
    int64_t origin = sequence_.k.used.begin;  // of the grid of tiles, wherever a window begins
    if (task_.slot >= 0) {
      keys = task_.keys;
      const int64_t chunk = x_.tiling.chunk_keys(rows_);
      origin += (keys.begin - origin) / chunk * chunk;
    }
    if (!keys.empty()) {
      for (int64_t key = origin + (keys.begin - origin) / step * step; key < keys.end;
           key += step) {
        run_tile({key, std::min(key + step, keys.end)});
      }
    }
    end(partials);
  }

 private:
  // Rows of the task follow one another head by head.
  int64_t head_of(int64_t row) const {
    return task_.head_k * x_.problem.group + task_.first_head + row / positions_;
  }
  int64_t position_of(int64_t row) const { return task_.rows.begin + row % positions_; }

  void begin() {
    for (int64_t h = 0; h < task_.heads; ++h) {
      const int64_t row = h * positions_;
      x_.kernels.load_rows(rows_of_head(x_.tensors.q, sequence_.q, head_of(row), task_.rows.begin),
                           positions_, dim_qk_, T{1}, s_.q + row * dim_qk_, dim_qk_);
    }
    std::fill_n(s_.max, rows_, -std::numeric_limits<T>::infinity());
    std::fill_n(s_.sum, rows_, T{0});
    std::fill_n(s_.out, rows_ * ld_v_, T{0});
  }

  void end(const Partials<T>& partials) {
    if (task_.slot >= 0) {
      std::copy_n(s_.max, rows_, partials.max + task_.slot);
      std::copy_n(s_.sum, rows_, partials.sum + task_.slot);
      std::copy_n(s_.out, rows_ * ld_v_, partials.out + task_.slot * ld_v_);
      return;
    }
    for (int64_t h = 0; h < task_.heads; ++h) {
      const int64_t row = h * positions_;
      finish_rows<T>(x_, sequence_, head_of(row), task_.rows,
                     {s_.max + row, s_.sum + row, s_.out + row * ld_v_, ld_v_});
    }
  }

  void run_tile(core::Range keys) {
    const Matrix k = rows_of_head(x_.tensors.k, sequence_.k, task_.head_k, keys.begin);
    x_.kernels.pack(k.transposed(), dim_qk_, keys.size(), dim_qk_, s_.k);
    x_.kernels.pack(values_of(keys.begin), keys.size(), x_.problem.dim_v, x_.tiling.tile_keys,
                    s_.v);
    set_values_apart(keys);
    for (int64_t row = 0; row < rows_; row += x_.tiling.block_rows) {
      run_block(keys, row, std::min(x_.tiling.block_rows, rows_ - row));
    }
  }

  void run_block(core::Range keys, int64_t first, int64_t count) {
    const Columns all = find_visible(keys, first, count);
    if (all.begin >= all.end) return;
    const int64_t ld_s = x_.tiling.tile_keys;
    score_block(keys, first, count, all);

    ScoreTile<T> tile;
    tile.s = s_.scores;
    tile.s_stride = ld_s;
    tile.rows = count;
    tile.columns = all;
    tile.visible = s_.visible;
    tile.scale = x_.scale;
    tile.approximate = x_.approximate;
    T* out = s_.out + first * ld_v_;
    x_.kernels.softmax(tile, {s_.max + first, s_.sum + first, out, ld_v_, ld_v_});
    if (x_.has_dropout) {
      for (int64_t r = 0; r < count; ++r) {
        apply_dropout<T>(x_.dropout, row_at(keys, first + r, s_.visible[r]), s_.scores + r * ld_s);
      }
    }

    Product<T> product;
    product.a = s_.scores + all.begin;
    product.a_row_stride = ld_s;
    product.b = s_.v + all.begin * x_.kernels.panel;
    product.panel_depth = x_.tiling.tile_keys;
    product.c = out;
    product.c_stride = ld_v_;
    product.rows = count;
    product.cols = x_.problem.dim_v;
    product.depth = all.end - all.begin;
    product.accumulate = true;
    x_.kernels.multiply(product);
    if (any_apart_) add_values_apart(keys, first, count, all);
  }

  /// Each row's visible columns, and the range that holds them all.
  Columns find_visible(core::Range keys, int64_t first, int64_t count) {
    const core::Range common = sequence_.keys_common_to_rows(task_.rows);
    if (common.begin <= keys.begin && keys.end <= common.end) {  // most tiles
      const Columns whole{0, keys.size()};
      std::fill_n(s_.visible, count, whole);
      return whole;
    }
    Columns all{keys.size(), 0};
    for (int64_t r = 0; r < count; ++r) {
      const core::Range seen = core::intersect(sequence_.keys_of_row(position_of(first + r)), keys);
      s_.visible[r] = {seen.begin - keys.begin, seen.end - keys.begin};
      if (seen.empty()) {
        s_.visible[r] = {0, 0};
        continue;
      }
      all.begin = std::min(all.begin, s_.visible[r].begin);
      all.end = std::max(all.end, s_.visible[r].end);
    }
    return all;
  }

  void score_block(core::Range keys, int64_t first, int64_t count, Columns all) {
    const int64_t ld_s = x_.tiling.tile_keys;
    const int64_t skipped = all.begin / x_.kernels.panel * x_.kernels.panel;
    Product<T> product;
    product.a = s_.q + first * dim_qk_;
    product.a_row_stride = dim_qk_;
    product.b = s_.k + skipped * dim_qk_;
    product.panel_depth = dim_qk_;
    product.c = s_.scores + skipped;
    product.c_stride = ld_s;
    product.rows = count;
    product.cols = all.end - skipped;
    product.depth = dim_qk_;
    x_.kernels.multiply(product);
    if (!x_.modifiers.active()) return;
    for (int64_t r = 0; r < count; ++r) {
      x_.modifiers.apply(row_at(keys, first + r, s_.visible[r]), {s_.bias, s_.mask},
                         s_.scores + r * ld_s);
    }
  }

  typename ScoreModifiers<T>::Row row_at(core::Range keys, int64_t row, Columns columns) const {
    return {sequence_, head_of(row), position_of(row), keys.begin, columns};
  }

  Matrix values_of(int64_t key) const {
    return rows_of_head(x_.tensors.v, sequence_.k, task_.head_k, key);
  }

  /// A value that is not finite would reach rows that give it no weight, as 0 * NaN. It becomes 0
  /// in the tile; add_values_apart() brings it to the rows that do.
  void set_values_apart(core::Range keys) {
    const int64_t dim_v = x_.problem.dim_v;
    any_apart_ = !x_.kernels.all_finite(s_.v, ld_v_ * x_.tiling.tile_keys);
    if (!any_apart_) return;
    std::array<T, kMaxHeadDim> value;
    for (int64_t c = 0; c < keys.size(); ++c) {
      x_.kernels.load_rows(values_of(keys.begin + c), 1, dim_v, T{1}, value.data(), 0);
      s_.apart[c] = x_.kernels.all_finite(value.data(), dim_v) ? 0 : 1;
      if (s_.apart[c]) clear_packed_row(x_.kernels, s_.v, x_.tiling.tile_keys, dim_v, c);
    }
  }

  void add_values_apart(core::Range keys, int64_t first, int64_t count, Columns all) {
    const int64_t dim_v = x_.problem.dim_v;
    std::array<T, kMaxHeadDim> value;
    for (int64_t r = 0; r < count; ++r) {
      const T* p = s_.scores + r * x_.tiling.tile_keys;
      int any = 0;  // mostly none: these are keys that a mask or causal hides
      for (int64_t c = all.begin; c < all.end; ++c) any |= (p[c] != 0) & s_.apart[c];
      for (int64_t c = all.begin; any != 0 && c < all.end; ++c) {
        if (s_.apart[c] == 0 || p[c] == 0) continue;
        x_.kernels.load_rows(values_of(keys.begin + c), 1, dim_v, T{1}, value.data(), 0);
        add_value(p[c], value.data(), dim_v, s_.out + (first + r) * ld_v_);
      }
    }
  }

  const ForwardContext<T>& x_;
  const Task& task_;
  const ForwardScratch<T>& s_;
  const core::Sequence sequence_;
  const int64_t dim_qk_;
  const int64_t ld_v_;
  const int64_t positions_;
  const int64_t rows_;
  bool any_apart_ = false;  ///< Whether scratch.apart counts for the tile at hand.
};

}  // namespace

template <class T>
void run_tile_task(const ForwardContext<T>& context, const Task& task, const Partials<T>& partials,
                   const ForwardScratch<T>& scratch) {
  TileTask<T>(context, task, scratch).run(partials);
}

template void run_tile_task(const ForwardContext<float>&, const Task&, const Partials<float>&,
                            const ForwardScratch<float>&);
template void run_tile_task(const ForwardContext<double>&, const Task&, const Partials<double>&,
                            const ForwardScratch<double>&);

}  // namespace fa4::cpu
