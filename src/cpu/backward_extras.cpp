// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward_extras.h"

#include <cmath>
#include <cstring>

namespace fa4::cpu {
namespace {

using core::Range;

constexpr int64_t kClearRows = 64;

/// Rows of dq, dk or dv, over all sequences.
int64_t row_count(const Tensor& t) { return t.rank == 4 ? t.dims[0] * t.dims[1] : t.dims[0]; }

/// Clears rows [first, end) for all heads.
void clear_rows(const Tensor& t, int64_t first, int64_t end) {
  const int64_t heads = t.dims[t.rank - 2], dim = t.dims[t.rank - 1];
  const int64_t head_stride = t.strides[t.rank - 2], dim_stride = t.strides[t.rank - 1];
  const int64_t size = size_of(t.dtype);
  for (int64_t row = first; row < end; ++row) {
    const int64_t offset = t.rank == 4
                               ? row / t.dims[1] * t.strides[0] + row % t.dims[1] * t.strides[1]
                               : row * t.strides[0];
    for (int64_t h = 0; h < heads; ++h) {
      char* head = static_cast<char*>(t.data) + (offset + h * head_stride) * size;
      if (dim_stride == 1) {
        std::memset(head, 0, static_cast<size_t>(dim * size));
        continue;
      }
      for (int64_t c = 0; c < dim; ++c) {
        std::memset(head + c * dim_stride * size, 0, static_cast<size_t>(size));
      }
    }
  }
}

void clear_part(const Tensor& t, int64_t job) {
  const int64_t first = job * kClearRows;
  clear_rows(t, first, std::min(first + kClearRows, row_count(t)));
}

template <class T>
Matrix element_of(const Tensor& t, int64_t index) {
  char* data = static_cast<char*>(t.data) + index * t.strides[0] * size_of(t.dtype);
  return {data, t.dtype, 0, 0};
}

/// dsink[h] = -sum over rows of p_sink * delta, where p_sink = exp(sink - lse).
template <class T>
void add_up_sink(const BackwardContext<T>& context, int64_t head, const WorkerScratch<T>& worker) {
  const TileScratch<T>& tile = worker.tile;
  const Kernels<T>& kernels = context.kernels;
  T sink = 0;
  kernels.load_rows(element_of<T>(context.tensors.sink, head), 1, 1, T{1}, &sink, 1);
  double sum = 0;
  for (int64_t b = 0; b < context.problem.batch; ++b) {
    const core::Sequence sequence = core::sequence_of(context.problem, context.tensors, b);
    const Range used = sequence.q.used;
    for (int64_t begin = used.begin; begin < used.end; begin += context.tiling.tile_q) {
      const Range rows{begin, std::min(begin + context.tiling.tile_q, used.end)};
      load_deltas(context, sequence, head, rows, delta_source(context, true), tile.do_rows,
                  tile.lse, tile.delta, worker);
      for (int64_t r = 0; r < rows.size(); ++r) {
        if (std::isinf(tile.lse[r])) continue;  // sees no key
        sum -= std::exp(static_cast<double>(sink) - static_cast<double>(tile.lse[r])) *
               static_cast<double>(tile.delta[r]);
      }
    }
  }
  const T result = static_cast<T>(sum);
  kernels.store_rows(&result, 1, 1, 1, T{1}, element_of<T>(context.gradients.dsink, head));
}

/// Sums one tile of dbias over all that the bias is broadcast over.
template <class T>
class BiasTile {
 public:
  BiasTile(const BackwardContext<T>& context, int64_t job, const WorkerScratch<T>& worker)
      : context_(context), dbias_(context.gradients.dbias), worker_(worker), tile_(worker.tile) {
    const int64_t k_tiles = divide_up(dbias_.dims[3], context.tiling.tile_k);
    const int64_t q_tiles = divide_up(dbias_.dims[2], context.tiling.tile_q);
    keys_ = tile_range(job % k_tiles, context.tiling.tile_k, dbias_.dims[3]);
    rows_ = tile_range(job / k_tiles % q_tiles, context.tiling.tile_q, dbias_.dims[2]);
    head_ = job / k_tiles / q_tiles % dbias_.dims[1];
    batch_ = job / k_tiles / q_tiles / dbias_.dims[1];
  }

  void run() const {
    const core::Problem& problem = context_.problem;
    std::fill_n(tile_.sum, context_.tiling.tile_q * context_.tiling.ld_s, 0.0);
    const Range batches = own_or_all(dbias_.dims[0], batch_, problem.batch);
    const Range heads = own_or_all(dbias_.dims[1], head_, problem.heads_q);
    for (int64_t b = batches.begin; b < batches.end; ++b) {
      const core::Sequence sequence = core::sequence_of(problem, context_.tensors, b);
      for (int64_t h = heads.begin; h < heads.end; ++h) add_head(sequence, h);
    }
    store();
  }

 private:
  static Range tile_range(int64_t tile, int64_t size, int64_t end) {
    return {tile * size, std::min((tile + 1) * size, end)};
  }
  /// A dim of size 1 sums over everything.
  static Range own_or_all(int64_t dim, int64_t own, int64_t all) {
    return dim == 1 ? Range{0, all} : Range{own, own + 1};
  }

  void add_head(const core::Sequence& sequence, int64_t head) const {
    const int64_t tile_q = context_.tiling.tile_q, tile_k = context_.tiling.tile_k;
    Range rows = visible_rows(sequence), keys = visible_keys(sequence);
    if (dbias_.dims[2] > 1) rows = core::intersect(rows, rows_);
    if (dbias_.dims[3] > 1) keys = core::intersect(keys, keys_);
    for (int64_t i = rows.begin; i < rows.end; i += tile_q) {
      const Range row_tile{i, std::min(i + tile_q, rows.end)};
      const Range seen = core::intersect(sequence.keys_of_rows(row_tile), keys);
      if (seen.empty()) continue;
      load_queries(context_, sequence, head, row_tile, delta_source(context_, true),
                   {tile_.q_rows, nullptr, tile_.do_rows, nullptr, tile_.lse, tile_.delta},
                   worker_);
      for (int64_t j = seen.begin; j < seen.end; j += tile_k) {
        add_block({sequence, head, row_tile, {j, std::min(j + tile_k, seen.end)}});
      }
    }
  }

  void add_block(const Block& block) const {
    load_keys(context_, block.sequence, block.head / context_.problem.group, block.keys,
              {tile_.k_columns, nullptr, tile_.v_columns}, worker_);
    score_gradients(
        context_, block,
        {tile_.q_rows, tile_.do_rows, tile_.lse, tile_.delta, tile_.k_columns, tile_.v_columns},
        true, worker_);
    const int64_t ld = context_.tiling.ld_s;
    for (int64_t r = 0; r < block.rows.size(); ++r) {
      const T* ds = worker_.gradients + r * ld;
      const int64_t row = dbias_.dims[2] > 1 ? block.rows.begin + r - rows_.begin : 0;
      double* sum = tile_.sum + row * ld;
      if (dbias_.dims[3] > 1) {
        sum += block.keys.begin - keys_.begin;
        for (int64_t c = 0; c < block.keys.size(); ++c) sum[c] += static_cast<double>(ds[c]);
      } else {
        for (int64_t c = 0; c < block.keys.size(); ++c) *sum += static_cast<double>(ds[c]);
      }
    }
  }

  void store() const {
    const int64_t ld = context_.tiling.ld_s;
    const int64_t offset = batch_ * dbias_.strides[0] + head_ * dbias_.strides[1] +
                           rows_.begin * dbias_.strides[2] + keys_.begin * dbias_.strides[3];
    const Matrix to{static_cast<char*>(dbias_.data) + offset * size_of(dbias_.dtype), dbias_.dtype,
                    dbias_.strides[2], dbias_.strides[3]};
    for (int64_t r = 0; r < rows_.size(); ++r) {
      T* row = worker_.scores;
      for (int64_t c = 0; c < keys_.size(); ++c) row[c] = static_cast<T>(tile_.sum[r * ld + c]);
      context_.kernels.store_rows(row, ld, 1, keys_.size(), T{1}, to.at(r, 0));
    }
  }

  const BackwardContext<T>& context_;
  const Tensor& dbias_;
  const WorkerScratch<T>& worker_;
  const TileScratch<T>& tile_;
  Range rows_, keys_;  ///< Of dbias.
  int64_t head_ = 0, batch_ = 0;
};

}  // namespace

template <class T>
ExtraJobs clearing_jobs(const BackwardContext<T>& context, bool q, bool k) {
  ExtraJobs jobs;
  if (q) jobs.clear_q = divide_up(row_count(context.gradients.dq), kClearRows);
  if (k) jobs.clear_k = divide_up(row_count(context.gradients.dk), kClearRows);
  return jobs;
}

template <class T>
ExtraJobs sink_and_bias_jobs(const BackwardContext<T>& context) {
  const AttentionGradients& g = context.gradients;
  ExtraJobs jobs;
  if (g.dsink.present()) jobs.sink = context.problem.heads_q;
  if (g.dbias.present()) {
    jobs.bias = g.dbias.dims[0] * g.dbias.dims[1] *
                divide_up(g.dbias.dims[2], context.tiling.tile_q) *
                divide_up(g.dbias.dims[3], context.tiling.tile_k);
  }
  return jobs;
}

template <class T>
void run_extra_job(const BackwardContext<T>& context, const ExtraJobs& jobs, int64_t job,
                   const WorkerScratch<T>& worker) {
  if (job < jobs.bias) return BiasTile<T>(context, job, worker).run();
  job -= jobs.bias;
  if (job < jobs.sink) return add_up_sink(context, job, worker);
  job -= jobs.sink;
  if (job < jobs.clear_q) return clear_part(context.gradients.dq, job);
  job -= jobs.clear_q;
  clear_part(context.gradients.dk, job);
  clear_part(context.gradients.dv, job);
}

#define FA4_INSTANTIATE(T)                                                          \
  template ExtraJobs clearing_jobs(const BackwardContext<T>&, bool, bool);          \
  template ExtraJobs sink_and_bias_jobs(const BackwardContext<T>&);                 \
  template void run_extra_job(const BackwardContext<T>&, const ExtraJobs&, int64_t, \
                              const WorkerScratch<T>&);
FA4_INSTANTIATE(float)
FA4_INSTANTIATE(double)
#undef FA4_INSTANTIATE

}  // namespace fa4::cpu
