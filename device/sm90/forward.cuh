// SPDX-License-Identifier: BSD-3-Clause
// Attention forward for Hopper (sm_90a): O = softmax(scale * Q K^T) V, and LSE.
//
// One CTA takes tiles of kWarpgroups * 64 query rows of one head, one tile after another. A
// producer warp copies Q, K and V to shared memory; each consumer warpgroup owns 64 rows and walks
// the keys from the last tile to the first, S and P and O in registers:
//
//   consumer 0:  [Q K(n)] softmax(n) [P V(n), Q K(n-1)] softmax(n-1) [P V(n-1), Q K(n-2)] ...
//   consumer 1:      ...  [P V(n), Q K(n-1)] softmax(n-1) ...
//
// Within a warpgroup products and softmax alternate; across warpgroups they overlap: while one is
// in its softmax, another's products keep the tensor cores busy.
//
// Glossary: tile = rows of Q or keys handled at once; stage = one buffer of a ring; S = scores,
// P = probabilities before division by l, l = sum of P, reference = what stands for the maximum
// (see attention/softmax.cuh); LSE = log of the sum of exp of the row's scaled scores.
#pragma once

#include "attention/mask.cuh"
#include "attention/schedule.cuh"
#include "attention/softmax.cuh"
#include "ptx/math.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
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
  bool own_output;       ///< O has its own shared memory, so that the next Q can land early.
  int order;             ///< Order of warpgroups: see Order.
  bool dynamic;          ///< CTAs take the next tile when they are done, by a counter; else every
                         ///< gridDim.x-th one.
  bool q_registers;      ///< Q stays in registers: less shared memory traffic, more registers.
  int polynomial_share;  ///< Sixteenths of the exponentials taken by the polynomial.
};

/// What a warpgroup waits its turn for.
enum Order { kOrderNone = 0, kOrderProducts = 1, kOrderSoftmax = 2 };

/// The roles of a CTA's warpgroups: the producer is the last one.
enum class Role { kConsumer, kProducer };

struct ForwardParams {
  TensorMap q, k, v, o;              ///< [b, h, s, d] as (d, s, h, b); boxes of 64 columns.
  float* lse;                        ///< [b, h, s_q] or null.
  i64 lse_batch, lse_head, lse_row;  ///< Strides, in floats.
  i32 rows_q;
  i32 rows_k;
  i32 group;     ///< Query heads a key head.
  i32 diagonal;  ///< Row i stands at key i + diagonal.
  i32 left;
  i32 right;
  float scale;   ///< scale * log2(e)
  float hidden;  ///< What a hidden score is set to: -inf once scaled.
  u32* counter;  ///< Dynamic: zero at launch.
  ScheduleParams schedule;
};

static_assert(sizeof(ForwardParams) == 640);  // as the host's

constexpr int kRowsPerWarpgroup = 64;
constexpr float kLn2 = 0.693147180559945309f;

/// Named barriers. 0 belongs to __syncthreads.
constexpr int kBarrierOutput = 1;  ///< + warpgroup: O is in shared memory.
constexpr int kBarrierTurn = 5;    ///< + warpgroup: its turn.

template <ForwardConfig C>
struct Shapes {
  using QTile = SharedTile<kRowsPerWarpgroup, C.dim_qk>;
  using KTile = SharedTile<C.tile_keys, C.dim_qk>;
  using VTile = SharedTile<C.tile_keys, C.dim_v>;
  using OTile = SharedTile<kRowsPerWarpgroup, C.dim_v>;
  static constexpr int kTileRows = C.warpgroups * kRowsPerWarpgroup;
  static constexpr int kThreads = (C.warpgroups + 1) * kWarpgroupThreads;
  /// Registers are handed out in eights, the same number to each thread at first; what warpgroups
  /// take later must come from what the CTA got then, or the last one waits for ever.
  static constexpr int kRegistersAtLaunch = 65536 / kThreads / 8 * 8;
  static_assert(C.warpgroups * C.consumer_registers + C.producer_registers <=
                (C.warpgroups + 1) * kRegistersAtLaunch);
  static constexpr int kScores = C.tile_keys / 2;  ///< Registers of S a thread.
  static constexpr int kOutputs = C.dim_v / 2;
};

/// A warpgroup's Q, and its O: beside it where there is room, else in the same place, once the last
/// product has read Q.
template <class QTile, class OTile, bool kOwnOutput>
struct QueryStorage {
  QTile q;
  OTile o;
};
template <class QTile, class OTile>
struct QueryStorage<QTile, OTile, false> {
  union {
    QTile q;
    OTile o;
  };
};

/// Everything in a CTA's shared memory.
template <ForwardConfig C>
struct Shared {
  using S = Shapes<C>;
  QueryStorage<typename S::QTile, typename S::OTile, C.own_output> query[C.warpgroups];
  typename S::KTile k[C.stages];
  typename S::VTile v[C.stages];
  u64 q_full[C.warpgroups];
  u64 q_empty[C.warpgroups];
  RingBarriers<C.stages> k_ring;
  RingBarriers<C.stages> v_ring;
  TileQueue queue;
};

template <ForwardConfig C>
using BandOf = Band<C.left, C.right>;

/// Tiles of keys that some row of [first, last] sees: begin <= n < end.
template <ForwardConfig C>
__device__ inline KeyRange key_tiles(const BandOf<C>& band, i32 first, i32 last) {
  const KeyRange keys = band.seen_by_any(first, last);
  const i32 begin = keys.begin / C.tile_keys;
  return {begin, max_of(begin, ceil_div(keys.end, C.tile_keys))};
}

/// One tile of queries.
struct Work {
  TileIndex tile;
  i32 first_row;
  KeyRange tiles;  ///< Tiles of keys that some of its rows see.
};

template <ForwardConfig C>
__device__ inline Work work_at(const ForwardParams& p, const BandOf<C>& band, i32 index) {
  Work work;
  work.tile = tile_at(p.schedule, index);
  work.first_row = work.tile.position * Shapes<C>::kTileRows;
  work.tiles = key_tiles<C>(band, work.first_row,
                            min_of(work.first_row + Shapes<C>::kTileRows, p.rows_q) - 1);
  return work;
}

template <ForwardConfig C>
__device__ inline BandOf<C> band_of(const ForwardParams& p) {
  return {p.rows_k, p.diagonal, p.left, p.right};
}

/// The same value, told to the compiler to be one for the warp: it then stays in uniform registers.
__device__ inline i32 uniform(i32 x) { return __shfl_sync(0xffffffff, x, 0); }
__device__ inline KeyRange uniform(KeyRange x) { return {uniform(x.begin), uniform(x.end)}; }

// ---- producer ----------------------------------------------------------------------------------

template <class Tile>
__device__ inline void load_tile(Tile& tile, const TensorMap& map, u64* barrier, i32 row, i32 head,
                                 i32 batch) {
#pragma unroll
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
    ptx::tma_load_4d(tile.panel(panel), &map, barrier, panel * kPanelCols, row, head, batch);
  }
}

/// One thread: keeps the ring of K and V full, and says which tile comes next.
template <ForwardConfig C>
__device__ inline void produce_keys(const ForwardParams& p, Shared<C>& shared) {
  using S = Shapes<C>;
  const BandOf<C> band = band_of<C>(p);
  RingCursor<C.stages> at;
  TileQueue::Cursor queue_at;
  i32 next;
  for (i32 index = blockIdx.x; index < p.schedule.tiles; index = next) {
    if constexpr (C.dynamic) {
      next = gridDim.x + ptx::atomic_add(p.counter, 1);
      shared.queue.put(queue_at, next);
    } else {
      next = index + gridDim.x;
    }
    const Work work = work_at<C>(p, band, index);
    const i32 head = work.tile.head / p.group, batch = work.tile.batch;
    for (i32 n = work.tiles.end - 1; n >= work.tiles.begin; --n) {
      u64* k_full = shared.k_ring.acquire(at, S::KTile::kBytes);
      load_tile(shared.k[at.stage], p.k, k_full, n * C.tile_keys, head, batch);
      u64* v_full = shared.v_ring.acquire(at, S::VTile::kBytes);
      load_tile(shared.v[at.stage], p.v, v_full, n * C.tile_keys, head, batch);
      at.advance();
    }
  }
}

/// One thread: brings each warpgroup its rows of Q, as soon as it has done with those before.
template <ForwardConfig C>
__device__ inline void produce_queries(const ForwardParams& p, Shared<C>& shared) {
  using S = Shapes<C>;
  const BandOf<C> band = band_of<C>(p);
  TileQueue::Cursor queue_at;
  u32 parity = 1;
  for (i32 index = blockIdx.x; index < p.schedule.tiles;
       index = C.dynamic ? shared.queue.take(queue_at) : index + gridDim.x) {
    const Work work = work_at<C>(p, band, index);
    if (work.tiles.begin == work.tiles.end) continue;
    for (int w = 0; w < C.warpgroups; ++w) {
      ptx::mbarrier_wait(&shared.q_empty[w], parity);
      ptx::mbarrier_arrive_expect(&shared.q_full[w], S::QTile::kBytes);
      load_tile(shared.query[w].q, p.q, &shared.q_full[w], work.first_row + w * kRowsPerWarpgroup,
                work.tile.head, work.tile.batch);
    }
    parity ^= 1;
  }
}

// ---- consumer ----------------------------------------------------------------------------------

/// A warpgroup's Q as the first operand of Q K^T: a descriptor, or registers.
template <ForwardConfig C>
struct QOperand {
  u64 descriptor;
  u32 registers[C.q_registers ? C.dim_qk / 4 : 1];

  __device__ void load(typename Shapes<C>::QTile& tile) {
    if constexpr (C.q_registers) {
      const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
      const int lane = threadIdx.x % kWarpThreads;
#pragma unroll
      for (int step = 0; step < C.dim_qk / 16; ++step) {
        ptx::load_matrix_x4(tile.piece(warp * 16 + lane % 16, 2 * step + lane / 16),
                            &registers[4 * step]);
      }
    }
  }
};

/// S = Q K^T, issued, not awaited.
template <class Element, ForwardConfig C, int kScores>
__device__ inline void issue_scores(float (&scores)[kScores], QOperand<C>& q, u64 k) {
  using S = Shapes<C>;
  static_assert(kScores == S::kScores);
  ptx::pin(scores);
  if constexpr (C.q_registers) ptx::pin(q.registers);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < C.dim_qk / 16; ++step) {
    const u64 k_step = k + step_k_major<typename S::KTile>(step);
    if constexpr (C.q_registers) {
      ptx::wgmma_registers<0>(Element{}, scores, &q.registers[4 * step], k_step, step > 0);
    } else {
      ptx::wgmma_shared<0>(Element{}, scores, q.descriptor + step_k_major<typename S::QTile>(step),
                           k_step, step > 0);
    }
  }
  ptx::wgmma_commit();
}

/// O += P V, issued, not awaited.
template <class Element, ForwardConfig C, int kProbabilities, int kOutputs>
__device__ inline void issue_output(float (&output)[kOutputs], u32 (&probabilities)[kProbabilities],
                                    u64 v) {
  ptx::pin(output);
  ptx::pin(probabilities);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kProbabilities / 4; ++step) {
    ptx::wgmma_registers<1>(Element{}, output, &probabilities[4 * step], v + step_mn_major(step),
                            true);
  }
  ptx::wgmma_commit();
}

/// Divides O by l, writes it through shared memory, and LSE.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void finish(const ForwardParams& p, Shared<C>& shared, SoftmaxRows& rows,
                              float (&output)[kOutputs], const TileIndex& tile, int warpgroup,
                              i32 first_row) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_row(rows.sum[half]);
    inverse[half] = sum == 0.0f ? 0.0f : 1.0f / sum;
    const i32 row = first_row + warp * 16 + lane / 4 + 8 * half;
    if (p.lse != nullptr && lane % 4 == 0 && row < p.rows_q) {
      p.lse[tile.batch * p.lse_batch + tile.head * p.lse_head + row * p.lse_row] =
          sum == 0.0f ? -kInfinity : (rows.reference[half] + ptx::log2_approx(sum)) * kLn2;
    }
  }
  if (thread == 0) ptx::bulk_wait_read();  // of this warpgroup's tile before
  ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
  auto& staged = shared.query[warpgroup].o;
#pragma unroll
  for (int block = 0; block < C.dim_v / 16; ++block) {
    const float* o = &output[8 * block];
    void* row = staged.piece(warp * 16 + lane % 16, 2 * block + lane / 16);
    ptx::store_matrix_x4(row, ptx::pack(Element{}, o[0] * inverse[0], o[1] * inverse[0]),
                         ptx::pack(Element{}, o[2] * inverse[1], o[3] * inverse[1]),
                         ptx::pack(Element{}, o[4] * inverse[0], o[5] * inverse[0]),
                         ptx::pack(Element{}, o[6] * inverse[1], o[7] * inverse[1]));
  }
  ptx::fence_async_shared();
  ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
  if (thread == 0) {
#pragma unroll
    for (int panel = 0; panel < staged.kPanels; ++panel) {
      ptx::tma_store_4d(&p.o, staged.panel(panel), panel * kPanelCols, first_row, tile.head,
                        tile.batch);
    }
    ptx::bulk_commit();
    if constexpr (!C.own_output) ptx::bulk_wait_read();
  }
}

/// Waits for this warpgroup's turn; every warpgroup takes one turn a tile of keys.
template <ForwardConfig C, int kWhich>
__device__ inline void begin_turn(int warpgroup) {
  if constexpr (C.order == kWhich && kWhich != kOrderNone) {
    ptx::barrier_sync(kBarrierTurn + warpgroup, 2 * kWarpgroupThreads);
  }
}
template <ForwardConfig C, int kWhich>
__device__ inline void end_turn(int warpgroup) {
  if constexpr (C.order == kWhich && kWhich != kOrderNone) {
    const int next = warpgroup + 1 == C.warpgroups ? 0 : warpgroup + 1;
    ptx::barrier_arrive(kBarrierTurn + next, 2 * kWarpgroupThreads);
  }
}

/// One consumer warpgroup: its 64 rows of each tile.
template <class Element, ForwardConfig C>
__device__ inline void consume(const ForwardParams& p, Shared<C>& shared, int warpgroup) {
  using S = Shapes<C>;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const bool leader = lane == 0;
  const BandOf<C> band = band_of<C>(p);
  QOperand<C> q;
  q.descriptor = descriptor_k_major(shared.query[warpgroup].q);
  RingCursor<C.stages> k_at, v_at;
  u32 q_parity = 0;
  if (warpgroup == C.warpgroups - 1) end_turn<C, C.order>(warpgroup);

  TileQueue::Cursor queue_at;
  for (i32 index = blockIdx.x; index < p.schedule.tiles;
       index = C.dynamic ? uniform(shared.queue.take_warp(queue_at, lane)) : index + gridDim.x) {
    const Work work = work_at<C>(p, band, index);
    const KeyRange tiles = work.tiles;
    const i32 first_row = work.first_row + warpgroup * kRowsPerWarpgroup;
    const i32 last_row = min_of(first_row + kRowsPerWarpgroup, p.rows_q) - 1;
    const KeyRange mine =
        uniform(first_row <= last_row ? key_tiles<C>(band, first_row, last_row) : KeyRange{0, 0});
    const KeyRange whole = band.seen_by_all(first_row, last_row);

    float output[S::kOutputs];
#pragma unroll
    for (int i = 0; i < S::kOutputs; ++i) output[i] = 0.0f;
    SoftmaxRows rows;
    if (tiles.begin < tiles.end) {
      ptx::mbarrier_wait(&shared.q_full[warpgroup], q_parity);
      q.load(shared.query[warpgroup].q);
    }

    // Tiles of keys that only other warpgroups' rows see are let go untouched.
    auto skip = [&](i32 n) {
      begin_turn<C, C.order>(warpgroup);
      end_turn<C, C.order>(warpgroup);
      shared.k_ring.wait(k_at);
      shared.k_ring.release(k_at, lane);
      shared.v_ring.wait(v_at);
      shared.v_ring.release(v_at, lane);
      k_at.advance();
      v_at.advance();
    };
    i32 n = tiles.end - 1;
    for (; n >= max_of(mine.end, tiles.begin); --n) skip(n);

    if (mine.begin < mine.end) {
      float scores[S::kScores];
      u32 probabilities[S::kScores / 2];
      shared.k_ring.wait(k_at);
      issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
      ptx::wgmma_wait<0>();
      ptx::pin(scores);
      shared.k_ring.release(k_at, lane);
      k_at.advance();
      for (bool first = true;; first = false) {
        const bool v_ready = shared.v_ring.peek(v_at);
        const bool k_ready = shared.k_ring.peek(k_at);
        const bool masked = n * C.tile_keys < whole.begin || (n + 1) * C.tile_keys > whole.end;
        if (masked) {
          apply_band(scores, band, first_row + warp * 16 + lane / 4, n * C.tile_keys + lane % 4 * 2,
                     p.hidden);
        }
        begin_turn<C, kOrderSoftmax>(warpgroup);
        softmax_step<Element, C.polynomial_share>(scores, p.scale, first, rows, probabilities,
                                                  output);
        end_turn<C, kOrderSoftmax>(warpgroup);
        const bool last = --n < mine.begin;
        begin_turn<C, kOrderProducts>(warpgroup);
        shared.v_ring.wait(v_at, v_ready);
        issue_output<Element, C>(output, probabilities, descriptor_mn_major(shared.v[v_at.stage]));
        if (last) {
          end_turn<C, kOrderProducts>(warpgroup);
          if constexpr (C.own_output) {
            if (leader) ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
          }
          ptx::wgmma_wait<0>();
          ptx::pin(output);
          break;
        }
        shared.k_ring.wait(k_at, k_ready);
        issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
        end_turn<C, kOrderProducts>(warpgroup);
        ptx::wgmma_wait<0>();
        ptx::pin(scores);
        ptx::pin(output);
        shared.v_ring.release(v_at, lane);
        v_at.advance();
        shared.k_ring.release(k_at, lane);
        k_at.advance();
      }
      shared.v_ring.release(v_at, lane);
      v_at.advance();
    } else if (C.own_output && leader && tiles.begin < tiles.end) {
      ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
    }
    for (; n >= tiles.begin; --n) skip(n);

    finish<Element, C>(p, shared, rows, output, work.tile, warpgroup, first_row);
    if (tiles.begin < tiles.end) {
      q_parity ^= 1;
      if constexpr (!C.own_output) {
        if (thread == 0) ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
      }
    }
  }
  if (thread == 0) ptx::bulk_wait();
}

// ---- entry -------------------------------------------------------------------------------------

template <class Element, ForwardConfig C>
__device__ inline void forward(const ForwardParams& p) {
  extern __shared__ __align__(1024) u8 storage[];
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(storage);
  const int warpgroup = ptx::broadcast(threadIdx.x / kWarpgroupThreads, 0);
  const Role role = warpgroup == C.warpgroups ? Role::kProducer : Role::kConsumer;

  if (threadIdx.x == 0) {
    for (int w = 0; w < C.warpgroups; ++w) {
      ptx::mbarrier_init(&shared.q_full[w], 1);
      ptx::mbarrier_init(&shared.q_empty[w], C.own_output ? 4 : 1);
    }
    shared.k_ring.init(4 * C.warpgroups);
    shared.v_ring.init(4 * C.warpgroups);
    shared.queue.init(4 * C.warpgroups + 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (role == Role::kProducer) {
    ptx::registers_give<C.producer_registers>();
    const int thread = threadIdx.x - C.warpgroups * kWarpgroupThreads;
    if (thread == 0) produce_keys<C>(p, shared);
    if (thread == kWarpThreads) produce_queries<C>(p, shared);
  } else {
    ptx::registers_take<C.consumer_registers>();
    consume<Element, C>(p, shared, warpgroup);
  }
}

}  // namespace fa4::sm90
