// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/forward_layout.h"

#include <algorithm>

namespace fa4::cpu {
namespace {

constexpr int64_t kTileBytes = 128 * 1024;  // of packed k and v: they stay in the L2 cache
constexpr int64_t kMostTileKeys = 256;
constexpr int64_t kMinTaskRows = 96;
// Each task packs its keys anew. Its q and out come from further away than the L2 cache, but a
// block of them is small beside what is computed with it.
constexpr int64_t kMostTaskRows = 1024;
constexpr int64_t kMostStateBytes = 1024 * 1024;  // of q and out of a task

int64_t round_to(int64_t x, int64_t step) { return ceil_div(x, step) * step; }

/// Rows of partial results of chunks, for any lengths. A sequence of n keys that is split has at
/// most 2 n / chunk_keys(rows) chunks, and rows / chunk_keys(rows) <= kDecodeRows / kDecodeChunk.
int64_t max_slots(const ForwardTiling& tiling, const core::Problem& p) {
  const bool same_rows = !p.packed_q && !p.spec.seqused_q.present() && !p.spec.start_q.present();
  const int64_t least_rows = p.group * (same_rows ? p.rows_q : 1);
  if (p.max_rows_k() <= kDecodeChunk || least_rows > tiling.split_rows) return 0;
  const int64_t rows = std::min({kDecodeRows, tiling.split_rows, p.group * p.max_rows_q()});
  int64_t slots = 0;
  if (__builtin_mul_overflow(p.total_k(), 2 * rows * p.heads_k, &slots)) return INT64_MAX;
  return slots / kDecodeChunk + 1;
}

}  // namespace

std::optional<int64_t> max_forward_tasks(const ForwardTiling& tiling, const core::Problem& p) {
  // A sequence is cut into at most rows / task_rows + 1 parts for each query head, or keys / chunk
  // + 1 for each key head.
  // Those without query rows make no task.
  if (p.total_q() == 0) return 0;
  const int64_t sequences = std::min(p.batch, p.total_q());
  const int64_t tiles = sequences + p.total_q() / tiling.task_rows;
  const int64_t chunks = sequences + p.total_k() / kDecodeChunk;
  int64_t tile_tasks = 0, decode_tasks = 0, all = 0;
  if (__builtin_mul_overflow(tiles, p.heads_q, &tile_tasks) ||
      __builtin_mul_overflow(chunks, p.heads_k, &decode_tasks) ||
      __builtin_add_overflow(tile_tasks, decode_tasks, &all)) {
    return std::nullopt;
  }
  return all;
}

int64_t ForwardTiling::chunk_keys(int64_t rows) const {
  return kDecodeChunk * std::max<int64_t>(ceil_div(rows, kDecodeRows), 1);
}

template <class T>
ForwardTiling make_forward_tiling(const Kernels<T>& kernels, const core::Problem& p, int threads) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  ForwardTiling t;
  const int64_t ld_qk = round_to(p.dim_qk, kernels.panel);
  t.ld_v = round_to(p.dim_v, kernels.panel);
  const int64_t row_bytes = (ld_qk + t.ld_v) * kSize;
  t.tile_keys = kTileBytes / row_bytes / 64 * 64;
  t.tile_keys = std::clamp<int64_t>(t.tile_keys, 64, kMostTileKeys);
  t.block_rows = round_to(48, kernels.row_step);
  // Enough tasks for the threads to share evenly; then as many rows as share a tile.
  const int64_t rows_each = p.total_q() * p.heads_q / (4 * int64_t{threads});
  const int64_t rows_fit = std::min(kMostStateBytes / row_bytes, kMostTaskRows);
  t.task_rows =
      round_to(std::clamp(rows_each, kMinTaskRows, std::max(rows_fit, kMinTaskRows)), t.block_rows);
  if (!p.spec.options.batch_invariant) {
    t.decode_rows = kDecodeRows;
    t.split_rows = kMinTaskRows;
  }
  // Heads of k share a decode task as long as there are enough tasks; more than that don't count.
  const int64_t wanted = 4 * int64_t{threads};
  const int64_t chunks = std::min(p.batch + p.total_k() / kDecodeChunk, wanted);
  t.decode_heads =
      std::max<int64_t>(chunks * std::min(p.heads_k, wanted * kDecodeRows) / wanted, 1);
  return t;
}

template <class T>
ForwardScratch<T> ForwardScratch<T>::carve(Carver& carver, const Kernels<T>& kernels,
                                           const ForwardTiling& t, const core::Problem& p) {
  const int64_t panel = kernels.panel;
  ForwardScratch s;
  s.q = carver.take<T>(t.task_rows, p.dim_qk);
  s.out = carver.take<T>(t.task_rows, t.ld_v);
  s.max = carver.take<T>(t.task_rows);
  s.sum = carver.take<T>(t.task_rows);
  s.k = carver.take<T>(packed_size(kernels, p.dim_qk, t.tile_keys));
  s.v = carver.take<T>(packed_size(kernels, t.tile_keys, p.dim_v));
  const int64_t decode_rows = t.decode_rows > 0 ? kDecodeTaskRows : 0;
  s.scores = carver.take<T>(
      std::max(t.block_rows * round_to(t.tile_keys, panel), decode_rows * kDecodeStride));
  s.visible = carver.take<Columns>(std::max(t.block_rows, decode_rows));
  s.bias = carver.take<T>(std::max(t.tile_keys, kDecodeStride));
  s.mask = carver.take<uint8_t>(std::max(t.tile_keys, kDecodeStride));
  s.apart = carver.take<uint8_t>(t.tile_keys);
  s.saved = carver.take<T>(decode_rows, t.ld_v);
  return s;
}

template <class T>
ForwardWorkspace<T> ForwardWorkspace<T>::carve(Carver& carver, const Kernels<T>& kernels,
                                               const ForwardTiling& tiling,
                                               const core::Problem& problem, int threads,
                                               bool fill) {
  ForwardWorkspace w;
  w.tasks = carver.take<Task>(max_forward_tasks(tiling, problem).value_or(INT64_MAX));
  const int64_t slots = max_slots(tiling, problem);
  w.partials.out = carver.take<T>(slots, tiling.ld_v);
  w.partials.max = carver.take<T>(slots);
  w.partials.sum = carver.take<T>(slots);
  w.scratch = carver.take<ForwardScratch<T>>(threads);
  for (int i = 0; i < threads; ++i) {
    const auto scratch = ForwardScratch<T>::carve(carver, kernels, tiling, problem);
    if (fill) w.scratch[i] = scratch;
  }
  return w;
}

template ForwardTiling make_forward_tiling(const Kernels<float>&, const core::Problem&, int);
template ForwardTiling make_forward_tiling(const Kernels<double>&, const core::Problem&, int);
template struct ForwardScratch<float>;
template struct ForwardScratch<double>;
template struct ForwardWorkspace<float>;
template struct ForwardWorkspace<double>;

}  // namespace fa4::cpu
