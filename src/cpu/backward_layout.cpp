// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward_layout.h"

#include <numeric>

namespace fa4::cpu {
namespace {

// About as many rows as keep the operands of a tile's five products in a 512 KB cache at head
// dim 128, and long enough for the products' loops.
constexpr int64_t kTileRows = 96;
constexpr int64_t kStripRows = 24;
// Enough tasks at once for this many threads before chunks become larger than a tile.
constexpr int64_t kWantedWidth = 64;
constexpr int64_t kMaxChunkTiles = 4;
constexpr int64_t kBatchInvariantChunkTiles = 2;

int64_t nearest_multiple(int64_t x, int64_t step) {
  return std::max<int64_t>(1, (x + step / 2) / step) * step;
}

/// Tiles along each side of a chunk. Large chunks mean fewer switches between chunks, small ones
/// more tasks that can run at once.
int64_t chunk_tiles(const core::Problem& problem, int64_t tile_q, int64_t tile_k) {
  // Lengths and units tell of the rest of the batch too, and sums follow the chunks.
  if (problem.spec.options.batch_invariant) return kBatchInvariantChunkTiles;
  const int64_t units = problem.batch * problem.heads_k;
  for (int64_t tiles = kMaxChunkTiles; tiles > 1; tiles /= 2) {
    const int64_t q_chunks = divide_up(problem.max_rows_q(), tiles * tile_q) * problem.group;
    const int64_t k_chunks = divide_up(problem.max_rows_k(), tiles * tile_k);
    const int64_t width = std::max<int64_t>(1, std::min(q_chunks, k_chunks));
    if (width >= kWantedWidth || units >= divide_up(kWantedWidth, width)) return tiles;
  }
  return 1;
}

}  // namespace

template <class T>
BackwardTiling make_tiling(const Kernels<T>& kernels, const core::Problem& problem) {
  BackwardTiling tiling;
  // Both sides of a tile are rows of one product and columns of another.
  const int64_t step = std::lcm(kernels.row_step, kernels.panel);
  tiling.tile_q = tiling.tile_k = nearest_multiple(kTileRows, step);
  tiling.strip_q = round_up(kStripRows, kernels.row_step);
  const int64_t tiles = chunk_tiles(problem, tiling.tile_q, tiling.tile_k);
  tiling.chunks = {tiles * tiling.tile_q, tiles * tiling.tile_k};
  tiling.ld_qk = round_up(problem.dim_qk, kernels.panel);
  tiling.ld_v = round_up(problem.dim_v, kernels.panel);
  // One panel more than a tile has: products read probabilities down their columns, and rows a
  // power of two apart would fall into few sets of the cache.
  tiling.ld_s = tiling.tile_k + kernels.panel;
  return tiling;
}

template <class T>
UnitScratch<T> UnitScratch<T>::carve(Carver& carver, const BackwardTiling& tiling,
                                     const core::Problem& problem, int64_t rows_q, int64_t rows_k) {
  const int64_t q_rows = round_up(rows_q, tiling.tile_q);
  const int64_t k_rows = round_up(rows_k, tiling.tile_k);
  const int64_t q_width = problem.group * tiling.ld_qk;
  const int64_t v_width = problem.group * tiling.ld_v;
  UnitScratch s;
  s.q_rows = carver.take<T>(q_rows, q_width);
  s.q_panels = carver.take<T>(q_rows, q_width);
  s.dq = carver.take<T>(q_rows, q_width);
  s.do_rows = carver.take<T>(q_rows, v_width);
  s.do_panels = carver.take<T>(q_rows, v_width);
  s.lse = carver.take<T>(q_rows, problem.group);
  s.delta = carver.take<T>(q_rows, problem.group);
  s.k_columns = carver.take<T>(k_rows, problem.dim_qk);
  s.k_panels = carver.take<T>(k_rows, tiling.ld_qk);
  s.dk = carver.take<T>(k_rows, tiling.ld_qk);
  s.v_columns = carver.take<T>(k_rows, problem.dim_v);
  s.dv = carver.take<T>(k_rows, tiling.ld_v);
  s.q_apart = carver.take<uint8_t>(q_rows, problem.group);
  s.k_apart = carver.take<uint8_t>(k_rows);
  s.state = carver.take<UnitState>(1);
  s.q_chunks = carver.take<ChunkState>(divide_up(rows_q, tiling.chunks.q), problem.group);
  s.k_chunks = carver.take<ChunkState>(divide_up(rows_k, tiling.chunks.k));
  return s;
}

template <class T>
TileScratch<T> TileScratch<T>::carve(Carver& carver, const BackwardTiling& tiling,
                                     const core::Problem& problem) {
  TileScratch s;
  s.q_rows = carver.take<T>(tiling.tile_q, tiling.ld_qk);
  s.do_rows = carver.take<T>(tiling.tile_q, tiling.ld_v);
  s.lse = carver.take<T>(tiling.tile_q);
  s.delta = carver.take<T>(tiling.tile_q);
  s.k_columns = carver.take<T>(tiling.tile_k, problem.dim_qk);
  s.v_columns = carver.take<T>(tiling.tile_k, problem.dim_v);
  s.sum = carver.take<double>(problem.spec.has_dbias ? tiling.tile_q : 0, tiling.ld_s);
  return s;
}

template <class T>
WorkerScratch<T> WorkerScratch<T>::carve(Carver& carver, const BackwardTiling& tiling,
                                         const core::Problem& problem) {
  const int64_t rows = std::max(tiling.tile_q, tiling.tile_k);
  const auto optional = [&](bool needed) { return needed ? tiling.tile_q : 0; };
  WorkerScratch s;
  s.scores = carver.take<T>(tiling.tile_q, tiling.ld_s);
  s.gradients = carver.take<T>(tiling.tile_q, tiling.ld_s);
  s.slopes = carver.take<T>(optional(problem.spec.options.softcap > 0), tiling.ld_s);
  s.bias = carver.take<T>(tiling.ld_s);
  s.mask = carver.take<uint8_t>(tiling.ld_s);
  s.keep = carver.take<T>(optional(problem.spec.options.dropout_p > 0), tiling.ld_s);
  s.rows = carver.take<T>(rows, std::max(tiling.ld_qk, tiling.ld_v));
  s.visible = carver.take<Columns>(tiling.tile_q);
  s.tile = TileScratch<T>::carve(carver, tiling, problem);
  return s;
}

template BackwardTiling make_tiling(const Kernels<float>&, const core::Problem&);
template BackwardTiling make_tiling(const Kernels<double>&, const core::Problem&);
template struct UnitScratch<float>;
template struct UnitScratch<double>;
template struct WorkerScratch<float>;
template struct WorkerScratch<double>;
template struct TileScratch<float>;
template struct TileScratch<double>;

}  // namespace fa4::cpu
