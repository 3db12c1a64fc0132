// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's configuration, parameters and shared memory. See sm90/forward.cuh.
#pragma once

#include "attention/mask.cuh"
#include "attention/modify.cuh"
#include "attention/schedule.cuh"
#include "ptx/cluster.cuh"
#include "tile/pipeline.cuh"
#include "tile/shared_tile.cuh"

namespace fa4::sm90 {

/// What is fixed when a kernel is compiled. The host's ForwardConfig names the same things.
struct ForwardConfig {
  int dim_qk;      ///< Multiple of 16.
  int dim_v;       ///< Multiple of 16.
  int tile_keys;   ///< Multiple of 16.
  int warpgroups;  ///< Consumers.
  int stages;      ///< Of the ring of K and V tiles.
  int consumer_registers;
  int producer_registers;
  bool left;             ///< The band has a left side.
  bool right;            ///< The band has a right side (causal has).
  bool varlen;           ///< Lengths and tiles come from a list in device memory.
  bool packed;           ///< A tile's rows are those of a key head's whole group of query heads.
  int output_panels;     ///< Panels of 64 columns that a warpgroup's O is staged in on its way out.
  int order;             ///< Order of warpgroups: see Order.
  bool overlap;          ///< A warpgroup's O += P V runs under its next softmax.
  bool pair;             ///< Two CTAs of a cluster share K and V where they can; each brings half.
  bool dynamic;          ///< CTAs take the next tile when they are done, by a counter; else every
                         ///< gridDim.x-th one.
  bool q_registers;      ///< Q stays in registers: less shared memory traffic, more registers.
  bool always_rescale;   ///< Takes the maximum of every tile and rescales O, to compare with.
  int polynomial_share;  ///< Sixteenths of the exponentials taken by the polynomial.
  ScoreConfig score;

  /// Some of V may have to be set to 0 before it is multiplied: see sm90/forward_producer.cuh.
  __device__ constexpr bool cleans() const { return varlen || score.hides(); }
  /// CTAs a tile of queries.
  __device__ constexpr int ctas() const { return pair ? 2 : 1; }
};

/// What a warpgroup waits its turn for.
enum Order { kOrderNone = 0, kOrderProducts = 1, kOrderSoftmax = 2 };

/// The roles of a CTA's warpgroups: the producer is the last one. Its warps have their own roles.
enum class Role { kConsumer, kProducer };
constexpr int kWarpKeys = 0;     ///< Brings K and V, says which tile comes next.
constexpr int kWarpQueries = 1;  ///< Brings Q.
constexpr int kWarpClean = 2;    ///< Sets to 0 what no row may see of V.

struct ForwardParams {
  TensorMap q, o;  ///< (d, query heads a tile, s, heads, b); boxes of 64 columns; a warpgroup's
                   ///< rows of Q, a warp's of O.
  TensorMap k, v;  ///< (d, s, h, b); boxes of 64 columns.
  void* out;
  i64 out_batch, out_row, out_head;  ///< Strides, in elements.
  float* lse;                        ///< [b, h, s_q] or null.
  i64 lse_batch, lse_head, lse_row;
  const u8* sink;        ///< [h] or null.
  i64 sink_head;         ///< Stride, in bytes.
  TileCounter* counter;  ///< Dynamic.
  u64 launch;            ///< Dynamic, not varlen: see TileCounter.
  TileList list;
  ScoreParams score;
  ScheduleParams schedule;
  i32 sink_type;  ///< A Scalar.
  i32 rows_q;
  i32 rows_k;
  i32 group;     ///< Query heads a key head.
  i32 diagonal;  ///< Row i stands at key i + diagonal. Varlen: of each sequence, by top_left.
  i32 top_left;
  i32 left;
  i32 right;
  i32 pack_heads;    ///< Packed: query heads a tile (the group), else 1.
  i32 pack_rows;     ///< Positions a warpgroup: 64 / pack_heads, rounded down.
  i32 pack_inverse;  ///< 65536 / pack_heads, rounded up.
  i32 dim_v;
  i32 q_batched, k_batched;  ///< 0: packed, all sequences lie in batch entry 0; else 1.
  float scale;               ///< From a score to log2 units.
  float hidden;              ///< What a hidden score is set to: -inf once scaled.
};

constexpr int kRowsPerWarpgroup = 64;
constexpr int kRowsPerWarp = 16;
constexpr float kLn2 = 0.693147180559945309f;
constexpr float kLog2E = 1.44269504088896341f;

/// Named barriers. 0 belongs to __syncthreads.
constexpr int kBarrierTurn = 1;  ///< + warpgroup: its turn.

template <ForwardConfig C>
struct Shapes {
  using QTile = SharedTile<kRowsPerWarpgroup, C.dim_qk>;
  using KTile = SharedTile<C.tile_keys, C.dim_qk>;
  using VTile = SharedTile<C.tile_keys, C.dim_v>;
  /// What is staged of O at a time.
  using OTile = SharedTile<kRowsPerWarpgroup, C.output_panels * kPanelCols>;
  static constexpr int kThreads = (C.warpgroups + 1) * kWarpgroupThreads;
  /// Registers are handed out in eights, the same number to each thread at first; what warpgroups
  /// take later must come from what the CTA got then, or the last one waits for ever.
  static constexpr int kRegistersAtLaunch = 65536 / kThreads / 8 * 8;
  static_assert(C.warpgroups * C.consumer_registers + C.producer_registers <=
                (C.warpgroups + 1) * kRegistersAtLaunch);
  /// Under a product scores go straight into the exponentials, against the reference that is there.
  static_assert(!C.overlap || !(C.score.any() || C.always_rescale));
  static constexpr int kScores = C.tile_keys / 2;  ///< Registers of S a thread.
  static constexpr int kOutputs = C.dim_v / 2;
  /// Who follows the queue of tiles: the consumers' warps, Q's warp, the cleaning warp.
  static constexpr int kQueueTakers = 4 * C.warpgroups + (C.cleans() ? 2 : 1);
};

/// A warpgroup's Q, and what it stages of O.
template <class QTile, class OTile>
struct QueryStorage {
  QTile q;
  OTile o;
};

/// Everything in a CTA's shared memory.
template <ForwardConfig C>
struct Shared {
  using S = Shapes<C>;
  QueryStorage<typename S::QTile, typename S::OTile> query[C.warpgroups];
  typename S::KTile k[C.stages];
  typename S::VTile v[C.stages];
  u64 q_full[C.warpgroups];
  u64 q_empty[C.warpgroups];
  RingBarriers<C.stages, C.ctas()> k_ring;
  RingBarriers<C.stages, C.ctas()> v_ring;
  u64 v_raw[C.stages];  ///< V has landed and wants cleaning.
  Queue<Work> queue;
  Mailbox next_tile;  ///< From a pair's first CTA to its second.
};

template <ForwardConfig C>
using BandOf = Band<C.left, C.right, C.varlen>;

/// The band of a sequence.
template <ForwardConfig C>
__device__ inline BandOf<C> band_of(const ForwardParams& p, const Sequence& s) {
  if constexpr (C.varlen) {
    const i32 diagonal = p.top_left != 0 ? s.k_begin - s.q_begin : s.k_end - s.q_end;
    return {{s.k_begin, s.k_end}, diagonal, p.left, p.right};
  } else {
    return {{0, p.rows_k}, p.diagonal, p.left, p.right};
  }
}

/// Positions of a sequence's rows: first <= position < end; may be empty.
struct RowRange {
  i32 first;
  i32 end;
};

/// The rows that count among `rows` from `first` on.
template <ForwardConfig C>
__device__ inline RowRange counting_rows(const ForwardParams& p, const Sequence& s, i32 first,
                                         i32 rows) {
  if constexpr (C.varlen) return {max_of(first, s.q_begin), min_of(first + rows, s.q_end)};
  return {max_of(first, 0), min_of(first + rows, p.rows_q)};
}

/// This CTA's number among those that share a tile of queries.
template <ForwardConfig C>
__device__ inline int cta_rank() {
  return C.pair ? static_cast<int>(ptx::cluster_rank()) : 0;
}

/// Positions a warpgroup's tile holds.
template <ForwardConfig C>
__device__ inline i32 warpgroup_rows(const ForwardParams& p) {
  return C.packed ? p.pack_rows : kRowsPerWarpgroup;
}

/// Tiles of keys that some row of `rows` sees: begin <= n < end.
template <ForwardConfig C>
__device__ inline KeyRange key_tiles(const BandOf<C>& band, RowRange rows) {
  if (rows.first >= rows.end) return {0, 0};
  const KeyRange keys = band.seen_by_any(rows.first, rows.end - 1);
  const i32 begin = keys.begin / C.tile_keys;
  if (C.varlen && keys.begin >= keys.end) return {begin, begin};
  return {begin, max_of(begin, ceil_div(keys.end, C.tile_keys))};
}

/// The same for all rows of a tile of queries: of both CTAs of a pair.
template <ForwardConfig C>
__device__ inline KeyRange key_tiles(const ForwardParams& p, const Work& work) {
  i32 first = work.first, rows = C.warpgroups * warpgroup_rows<C>(p);
  if (C.pair && work.sharing == Sharing::kRows) {
    first -= cta_rank<C>() * rows;
    rows *= 2;
  }
  return key_tiles<C>(band_of<C>(p, work.sequence),
                      counting_rows<C>(p, work.sequence, first, rows));
}

/// Position and query head of row `row` of a warpgroup's tile whose first position is `first`.
template <ForwardConfig C>
__device__ inline i32 position_of(const ForwardParams& p, i32 first, i32 row) {
  return C.packed ? first + (row * p.pack_inverse >> 16) : first + row;
}
template <ForwardConfig C>
__device__ inline i32 head_of(const ForwardParams& p, i32 head, i32 row) {
  if constexpr (!C.packed) return head;
  return head * p.group + row - (row * p.pack_inverse >> 16) * p.pack_heads;
}
/// The key head of a tile.
template <ForwardConfig C>
__device__ inline i32 key_head(const ForwardParams& p, i32 head) {
  return C.packed ? head : head / p.group;
}

/// The same value, told to the compiler to be one for the warp: it then stays in uniform registers.
__device__ inline i32 uniform(i32 x) { return __shfl_sync(0xffffffff, x, 0); }
__device__ inline KeyRange uniform(KeyRange x) { return {uniform(x.begin), uniform(x.end)}; }

}  // namespace fa4::sm90
