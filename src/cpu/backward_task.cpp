// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward_task.h"

#include <array>

namespace fa4::cpu {
namespace {

using core::Range;

/// Calls body(range, tile) for each tile of `whole`; tiles are numbered from `tile` on.
template <class Body>
void for_each_tile(Range whole, int64_t size, int64_t tile, const Body& body) {
  for (int64_t begin = whole.begin; begin < whole.end; begin += size) {
    body(Range{begin, std::min(begin + size, whole.end)}, tile++);
  }
}

template <class T>
class TaskRun {
 public:
  TaskRun(const BackwardContext<T>& context, const BackwardTask& task,
          const UnitScratch<T>& scratch, const WorkerScratch<T>& worker)
      : context_(context),
        tiling_(context.tiling),
        problem_(context.problem),
        task_(task),
        unit_(task.state->unit),
        scratch_(scratch),
        worker_(worker),
        head_(unit_.head_k * context.problem.group + unit_.head_of_chunk(task.q_chunk)) {}

  void run() const {
    if (task_.first_of_q()) each_q_tile([&](Range rows, int64_t tile) { load_q(rows, tile); });
    if (task_.first_of_q() && context_.exact_delta) complete_deltas();
    if (task_.first_of_k()) each_k_tile([&](Range keys, int64_t tile) { load_k(keys, tile); });
    each_k_tile([&](Range keys, int64_t k_tile) {
      each_q_tile([&](Range rows, int64_t q_tile) { add_tiles(rows, q_tile, keys, k_tile); });
    });
    if (task_.last_of_q()) each_q_tile([&](Range rows, int64_t tile) { store_q(rows, tile); });
    if (task_.last_of_k()) each_k_tile([&](Range keys, int64_t tile) { store_k(keys, tile); });
  }

 private:
  template <class Body>
  void each_q_tile(const Body& body) const {
    // Each head's tiles begin after those of the head before.
    const int64_t chunk = task_.q_chunk % unit_.q_chunks_per_head;
    const int64_t first =
        unit_.head_of_chunk(task_.q_chunk) * divide_up(unit_.rows.size(), tiling_.tile_q);
    for_each_tile(unit_.rows_of_chunk(task_.q_chunk, tiling_.chunks), tiling_.tile_q,
                  first + chunk * (tiling_.chunks.q / tiling_.tile_q), body);
  }
  template <class Body>
  void each_k_tile(const Body& body) const {
    for_each_tile(unit_.keys_of_chunk(task_.k_chunk, tiling_.chunks), tiling_.tile_k,
                  task_.k_chunk * (tiling_.chunks.k / tiling_.tile_k), body);
  }

  T* q_tile(T* base, int64_t tile, int64_t ld) const { return base + tile * tiling_.tile_q * ld; }
  T* k_tile(T* base, int64_t tile, int64_t ld) const { return base + tile * tiling_.tile_k * ld; }

  void load_q(Range rows, int64_t tile) const {
    QueryTile<T> to;
    to.q_rows = q_tile(scratch_.q_rows, tile, tiling_.ld_qk);
    to.q_panels = q_tile(scratch_.q_panels, tile, tiling_.ld_qk);
    to.do_rows = q_tile(scratch_.do_rows, tile, tiling_.ld_v);
    to.do_panels = q_tile(scratch_.do_panels, tile, tiling_.ld_v);
    to.lse = q_tile(scratch_.lse, tile, 1);
    to.delta = q_tile(scratch_.delta, tile, 1);
    to.apart = scratch_.q_apart + tile * tiling_.tile_q;
    load_queries(context_, unit_.sequence, head_, rows, delta_source(context_, false), to, worker_);
    std::fill_n(q_tile(scratch_.dq, tile, tiling_.ld_qk), tiling_.tile_q * tiling_.ld_qk, T{0});
  }

  /// Adds sum(p * dp) to the deltas of the query chunk, over all keys that its rows see.
  void complete_deltas() const {
    const core::Sequence& sequence = unit_.sequence;
    const TileScratch<T>& t = worker_.tile;
    const Range all = sequence.keys_of_rows(unit_.rows_of_chunk(task_.q_chunk, tiling_.chunks));
    for_each_tile(all, tiling_.tile_k, 0, [&](Range keys, int64_t) {
      load_keys(context_, sequence, unit_.head_k, keys, {t.k_columns, nullptr, t.v_columns},
                worker_);
      each_q_tile([&](Range rows, int64_t tile) {
        if (core::intersect(sequence.keys_of_rows(rows), keys).empty()) return;
        BlockOperands<T> operands = operands_of(tile, 0);
        operands.k_columns = t.k_columns;
        operands.v_columns = t.v_columns;
        add_row_sums(context_, {sequence, head_, rows, keys}, operands,
                     q_tile(scratch_.delta, tile, 1), worker_);
      });
    });
    if (context_.deltas == nullptr) return;
    each_q_tile([&](Range rows, int64_t tile) {
      std::copy_n(q_tile(scratch_.delta, tile, 1), rows.size(),
                  &stored_delta(context_, sequence, head_, rows.begin));
    });
  }

  void load_k(Range keys, int64_t tile) const {
    KeyTile<T> to;
    to.k_columns = k_tile(scratch_.k_columns, tile, problem_.dim_qk);
    to.k_panels = k_tile(scratch_.k_panels, tile, tiling_.ld_qk);
    to.v_columns = k_tile(scratch_.v_columns, tile, problem_.dim_v);
    to.apart = scratch_.k_apart + tile * tiling_.tile_k;
    load_keys(context_, unit_.sequence, unit_.head_k, keys, to, worker_);
    std::fill_n(k_tile(scratch_.dk, tile, tiling_.ld_qk), tiling_.tile_k * tiling_.ld_qk, T{0});
    std::fill_n(k_tile(scratch_.dv, tile, tiling_.ld_v), tiling_.tile_k * tiling_.ld_v, T{0});
  }

  void store_q(Range rows, int64_t tile) const {
    context_.kernels.store_rows(
        q_tile(scratch_.dq, tile, tiling_.ld_qk), tiling_.ld_qk, rows.size(), problem_.dim_qk,
        static_cast<T>(problem_.scale),
        head_rows(context_.gradients.dq, unit_.sequence.q, head_, rows.begin));
  }

  void store_k(Range keys, int64_t tile) const {
    const AttentionGradients& g = context_.gradients;
    context_.kernels.store_rows(k_tile(scratch_.dk, tile, tiling_.ld_qk), tiling_.ld_qk,
                                keys.size(), problem_.dim_qk, static_cast<T>(problem_.scale),
                                head_rows(g.dk, unit_.sequence.k, unit_.head_k, keys.begin));
    context_.kernels.store_rows(k_tile(scratch_.dv, tile, tiling_.ld_v), tiling_.ld_v, keys.size(),
                                problem_.dim_v, T{1},
                                head_rows(g.dv, unit_.sequence.k, unit_.head_k, keys.begin));
  }

  /// A pair of tiles, in strips of rows if causal or a window cuts through it, so that less of what
  /// nobody sees is computed.
  void add_tiles(Range rows, int64_t q_index, Range keys, int64_t k_index) const {
    const core::Sequence& sequence = unit_.sequence;
    const Range common = sequence.keys_common_to_rows(rows);
    const bool whole = common.begin <= keys.begin && common.end >= keys.end;
    const int64_t strip = whole ? tiling_.tile_q : tiling_.strip_q;
    for (int64_t begin = rows.begin; begin < rows.end; begin += strip) {
      const Range part{begin, std::min(begin + strip, rows.end)};
      Range seen = core::intersect(sequence.keys_of_rows(part), keys);
      if (seen.empty()) continue;
      const int64_t panel = context_.kernels.panel;
      seen.begin = keys.begin + (seen.begin - keys.begin) / panel * panel;
      add_block({sequence, head_, part, seen}, q_index, part.begin - rows.begin, k_index,
                seen.begin - keys.begin);
    }
  }

  /// A block's left operands.
  BlockOperands<T> operands_of(int64_t q_index, int64_t row) const {
    return {q_tile(scratch_.q_rows, q_index, tiling_.ld_qk) + row * tiling_.ld_qk,
            q_tile(scratch_.do_rows, q_index, tiling_.ld_v) + row * tiling_.ld_v,
            q_tile(scratch_.lse, q_index, 1) + row,
            q_tile(scratch_.delta, q_index, 1) + row,
            nullptr,
            nullptr};
  }

  /// The five products of a block that begins at row `row` of its query tile and at key `key`, a
  /// multiple of the panel, of its key tile.
  void add_block(const Block& block, int64_t q_index, int64_t row, int64_t k_index,
                 int64_t key) const {
    const int64_t panel = context_.kernels.panel;
    BlockOperands<T> operands = operands_of(q_index, row);
    operands.k_columns =
        k_tile(scratch_.k_columns, k_index, problem_.dim_qk) + key * problem_.dim_qk;
    operands.v_columns = k_tile(scratch_.v_columns, k_index, problem_.dim_v) + key * problem_.dim_v;
    score_gradients(context_, block, operands, false, worker_);

    // dv += p^T dout, dk += ds^T q: down the columns of p and ds.
    Product<T> product;
    product.accumulate = true;
    product.a_row_stride = 1;
    product.a_col_stride = tiling_.ld_s;
    product.rows = block.keys.size();
    product.depth = block.rows.size();
    product.panel_depth = tiling_.tile_q;

    product.a = worker_.scores;
    product.b = q_tile(scratch_.do_panels, q_index, tiling_.ld_v) + row * panel;
    product.c = k_tile(scratch_.dv, k_index, tiling_.ld_v) + key * tiling_.ld_v;
    product.c_stride = tiling_.ld_v;
    product.cols = problem_.dim_v;
    context_.kernels.multiply(product);

    product.a = worker_.gradients;
    product.b = q_tile(scratch_.q_panels, q_index, tiling_.ld_qk) + row * panel;
    product.c = k_tile(scratch_.dk, k_index, tiling_.ld_qk) + key * tiling_.ld_qk;
    product.c_stride = tiling_.ld_qk;
    product.cols = problem_.dim_qk;
    context_.kernels.multiply(product);

    // dq += ds k
    std::swap(product.a_row_stride, product.a_col_stride);
    std::swap(product.rows, product.depth);
    product.b = k_tile(scratch_.k_panels, k_index, tiling_.ld_qk) + key * panel;
    product.panel_depth = tiling_.tile_k;
    product.c = q_tile(scratch_.dq, q_index, tiling_.ld_qk) + row * tiling_.ld_qk;
    context_.kernels.multiply(product);

    add_rows_apart(block, operands, q_index, row, k_index, key);
    add_keys_apart(block, q_index, row, k_index, key);
  }

  /// What the products left out of dv and dk: rows that are not finite, for keys that see them.
  void add_rows_apart(const Block& block, const BlockOperands<T>& operands, int64_t q_index,
                      int64_t row, int64_t k_index, int64_t key) const {
    const uint8_t* apart = scratch_.q_apart + q_index * tiling_.tile_q + row;
    T* dv = k_tile(scratch_.dv, k_index, tiling_.ld_v) + key * tiling_.ld_v;
    T* dk = k_tile(scratch_.dk, k_index, tiling_.ld_qk) + key * tiling_.ld_qk;
    for (int64_t r = 0; r < block.rows.size(); ++r) {
      if (apart[r] == 0) continue;
      for (int64_t c = 0; c < block.keys.size(); ++c) {
        add_value(worker_.scores[r * tiling_.ld_s + c], operands.do_rows + r * tiling_.ld_v,
                  problem_.dim_v, dv + c * tiling_.ld_v);
        add_value(worker_.gradients[r * tiling_.ld_s + c], operands.q_rows + r * tiling_.ld_qk,
                  problem_.dim_qk, dk + c * tiling_.ld_qk);
      }
    }
  }

  /// What the product left out of dq: keys that are not finite, for rows that see them.
  void add_keys_apart(const Block& block, int64_t q_index, int64_t row, int64_t k_index,
                      int64_t key) const {
    const uint8_t* apart = scratch_.k_apart + k_index * tiling_.tile_k + key;
    T* dq = q_tile(scratch_.dq, q_index, tiling_.ld_qk) + row * tiling_.ld_qk;
    const int64_t panel = context_.kernels.panel;
    std::array<T, kMaxHeadDim> k;
    for (int64_t c = 0; c < block.keys.size(); ++c) {
      if (apart[c] == 0) continue;
      const int64_t column = key + c;
      const T* packed = k_tile(scratch_.k_columns, k_index, problem_.dim_qk) +
                        column / panel * panel * problem_.dim_qk + column % panel;
      for (int64_t i = 0; i < problem_.dim_qk; ++i) k[i] = packed[i * panel];
      for (int64_t r = 0; r < block.rows.size(); ++r) {
        add_value(worker_.gradients[r * tiling_.ld_s + c], k.data(), problem_.dim_qk,
                  dq + r * tiling_.ld_qk);
      }
    }
  }

  const BackwardContext<T>& context_;
  const BackwardTiling& tiling_;
  const core::Problem& problem_;
  const BackwardTask& task_;
  const BackwardUnit& unit_;
  const UnitScratch<T>& scratch_;
  const WorkerScratch<T>& worker_;
  const int64_t head_;
};

}  // namespace

template <class T>
void run_task(const BackwardContext<T>& context, const BackwardTask& task,
              const UnitScratch<T>& unit, const WorkerScratch<T>& scratch) {
  TaskRun<T>(context, task, unit, scratch).run();
}

template void run_task(const BackwardContext<float>&, const BackwardTask&,
                       const UnitScratch<float>&, const WorkerScratch<float>&);
template void run_task(const BackwardContext<double>&, const BackwardTask&,
                       const UnitScratch<double>&, const WorkerScratch<double>&);

}  // namespace fa4::cpu
