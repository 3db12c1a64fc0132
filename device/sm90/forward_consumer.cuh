// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's consumer warpgroups: products, softmax, and what becomes of a finished tile.
#pragma once

#include "attention/softmax.cuh"
#include "ptx/math.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/forward_config.cuh"

namespace fa4::sm90 {

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

/// A warpgroup's part of a tile of queries.
struct Part {
  i32 head;        ///< As in Work.
  i32 first;       ///< Position of its first row; below 0: it has none, see attention/schedule.cuh.
  RowRange count;  ///< Its rows that count.
};

/// What a row's O is multiplied by in the end, and its LSE; the sink is the row's last logit.
struct RowEnd {
  float factor;
  float lse;
};

/// Without branches: a thread's two rows then go side by side, and so do their latencies.
__device__ inline RowEnd end_row(float reference, float sum, float sink) {
  const float top = ptx::max(reference, sink);
  const float scale = ptx::exp2_approx(reference - top);
  const float all = ptx::fma(sum, scale, ptx::exp2_approx(sink - top));
  float inverse = ptx::reciprocal_approx(all);
  inverse = ptx::fma(inverse, ptx::fma(-all, inverse, 1.0f), inverse);
  const bool none = top == -kInfinity && sum == 0.0f;
  return {none ? 0.0f : scale * inverse, none ? -kInfinity : (top + ptx::log2_approx(all)) * kLn2};
}

/// The thread's row `half` (0 or 1) in its warpgroup's tile.
__device__ inline int row_of_thread(int half) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  return thread / kWarpThreads * kRowsPerWarp + thread % kWarpThreads / 4 + 8 * half;
}

/// Ends the thread's two rows.
template <ForwardConfig C>
__device__ inline void end_rows(const ForwardParams& p, const Part& part, const SoftmaxRows& rows,
                                RowEnd (&ends)[2]) {
  float sum[2], sink[2] = {-kInfinity, -kInfinity};
#pragma unroll
  for (int half = 0; half < 2; ++half) sum[half] = sum_of_row(rows.sum[half]);
  if (p.sink != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 head = head_of<C>(p, part.head, row_of_thread(half));
      sink[half] = load_scalar(p.sink_type, p.sink + head * p.sink_head) * kLog2E;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    ends[half] = end_row(rows.reference[half], sum[half], sink[half]);
  }
}

/// Whether a row counts that belongs to its sequence. Others become 0, with LSE -inf.
template <ForwardConfig C>
__device__ inline bool counts(const Part& part, i32 position) {
  return !C.varlen || (position >= part.count.first && position < part.count.end);
}

template <ForwardConfig C>
__device__ inline void store_lse(const ForwardParams& p, const Sequence& s, const Part& part,
                                 const RowEnd (&ends)[2]) {
  if (p.lse == nullptr || threadIdx.x % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row_of_thread(half);
    const i32 position = position_of<C>(p, part.first, row);
    if (position >= (C.varlen ? s.q_rows : p.rows_q)) continue;
    if (C.packed && row >= p.pack_rows * p.pack_heads) continue;
    const i64 at = s.batch * p.lse_batch + head_of<C>(p, part.head, row) * p.lse_head +
                   ((C.varlen ? s.q_first : 0) + i64{position}) * p.lse_row;
    p.lse[at] = counts<C>(part, position) ? ends[half].lse : -kInfinity;
  }
}

/// A warp's sixteen rows of O, scaled, into shared memory.
template <class Element, ForwardConfig C, class Tile, int kOutputs>
__device__ inline void stage_rows(Tile& staged, const RowEnd (&ends)[2],
                                  const float (&output)[kOutputs], int warp, int lane) {
  const float low = ends[0].factor, high = ends[1].factor;
#pragma unroll
  for (int block = 0; block < C.dim_v / 16; ++block) {
    const float* o = &output[8 * block];
    void* row = staged.piece(warp * kRowsPerWarp + lane % 16, 2 * block + lane / 16);
    ptx::store_matrix_x4(row, ptx::pack(Element{}, o[0] * low, o[1] * low),
                         ptx::pack(Element{}, o[2] * high, o[3] * high),
                         ptx::pack(Element{}, o[4] * low, o[5] * low),
                         ptx::pack(Element{}, o[6] * high, o[7] * high));
  }
}

/// Writes a warp's rows one by one: rows of the sequence that do not count become 0, rows beyond it
/// belong to the next one.
template <ForwardConfig C, class Tile>
__device__ inline void store_rows(const ForwardParams& p, const Sequence& s, const Part& part,
                                  Tile& staged, int warp, int lane) {
  const int rows = C.packed ? p.pack_rows * p.pack_heads : kRowsPerWarpgroup;
  if (lane >= p.dim_v / 8) return;
  for (int row = warp * kRowsPerWarp; row < min_of(rows, (warp + 1) * kRowsPerWarp); ++row) {
    const i32 position = position_of<C>(p, part.first, row);
    if (position >= s.q_rows) break;
    u64x2 piece = {0, 0};
    if (counts<C>(part, position)) {
      piece = *reinterpret_cast<const u64x2*>(staged.piece(row, lane));
    }
    u16* out = static_cast<u16*>(p.out) + p.q_batched * s.batch * p.out_batch +
               (i64{s.q_first} + position) * p.out_row + head_of<C>(p, part.head, row) * p.out_head;
    *reinterpret_cast<u64x2*>(out + lane * 8) = piece;
  }
}

/// Divides O by l and writes it, through shared memory, and LSE. A warp writes its own rows: no
/// warp waits for another, unless O takes Q's place.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void write_rows(const ForwardParams& p, Shared<C>& shared, const Sequence& s,
                                  const Part& part, const SoftmaxRows& rows,
                                  const float (&output)[kOutputs], int warpgroup) {
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
  const int lane = threadIdx.x % kWarpThreads;
  RowEnd ends[2];
  end_rows<C>(p, part, rows, ends);
  if constexpr (C.own_output) {
    if (lane == 0) ptx::bulk_wait_read();  // of this warp's rows before
    __syncwarp();
  } else {  // other warps' last product may still read Q
    ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
  }
  auto& staged = shared.query[warpgroup].o;
  stage_rows<Element, C>(staged, ends, output, warp, lane);
  ptx::fence_async_shared();
  __syncwarp();
  const i32 box_rows = C.packed ? kRowsPerWarp * p.pack_inverse >> 16 : kRowsPerWarp;
  const i32 first = part.first + warp * box_rows;
  bool whole = !C.packed || box_rows * p.pack_heads == kRowsPerWarp;
  if (C.varlen) whole = whole && first >= part.count.first && first + box_rows <= part.count.end;
  if (!whole) {
    store_rows<C>(p, s, part, staged, warp, lane);
  } else if (lane == 0) {
#pragma unroll
    for (int panel = 0; panel < staged.kPanels; ++panel) {
      ptx::tma_store_5d(&p.o, staged.piece(warp * kRowsPerWarp, 8 * panel), panel * kPanelCols, 0,
                        (C.varlen ? s.q_first : 0) + first, part.head, p.q_batched * s.batch);
    }
    ptx::bulk_commit();
  }
  store_lse<C>(p, s, part, ends);
}

/// What becomes of a warpgroup's part of a tile. Where O has taken Q's place, Q may then come.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void finish(const ForwardParams& p, Shared<C>& shared, const Sequence& s,
                              const Part& part, const SoftmaxRows& rows,
                              const float (&output)[kOutputs], int warpgroup) {
  if (part.first >= 0) write_rows<Element, C>(p, shared, s, part, rows, output, warpgroup);
  if constexpr (!C.own_output) {
    const bool leader = threadIdx.x % kWarpThreads == 0;
    if (leader) ptx::bulk_wait_read();
    ptx::fence_async_shared();  // what store_rows() has read
    __syncwarp();
    if (leader) ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
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

/// Changes and hides scores: all that stands between a product and the softmax.
template <ForwardConfig C, int kScores>
__device__ inline void mask_scores(const ForwardParams& p, float (&scores)[kScores],
                                   const Sequence& s, const Part& part, const BandOf<C>& band,
                                   KeyRange whole, i32 first_key) {
  const bool masked = first_key < whole.begin || first_key + C.tile_keys > whole.end;
  if (!C.score.any() && !masked) return;
  ThreadRows rows;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows.position[half] = position_of<C>(p, part.first, row_of_thread(half));
    rows.head[half] = head_of<C>(p, part.head, row_of_thread(half));
  }
  const i32 key = first_key + static_cast<i32>(threadIdx.x % 4 * 2);
  if constexpr (C.score.any()) {
    modify_scores<C.score>(scores, p.score, rows, s.batch, band.diagonal, part.count.end - 1, key,
                           band.keys.end - 1);
  }
  if (masked) apply_band(scores, band, rows.position, key, p.hidden);
}

/// One consumer warpgroup: its 64 rows of each tile.
template <class Element, ForwardConfig C>
__device__ inline void consume(const ForwardParams& p, Shared<C>& shared, int warpgroup) {
  using S = Shapes<C>;
  const int lane = threadIdx.x % kWarpThreads;
  const bool leader = lane == 0;
  QOperand<C> q;
  q.descriptor = descriptor_k_major(shared.query[warpgroup].q);
  RingCursor<C.stages> k_at, v_at;
  u32 q_parity = 0;
  if (warpgroup == C.warpgroups - 1) end_turn<C, C.order>(warpgroup);

  Queue<Work>::Cursor queue_at;
  for (;; queue_at.advance()) {
    const Work& work = shared.queue.get(queue_at);
    const Sequence& sequence = work.sequence;
    if (uniform(work.head) < 0) break;
    const bool q_ready = ptx::mbarrier_test_wait(&shared.q_full[warpgroup], q_parity);
    bool k_ready = shared.k_ring.peek(k_at);
    const BandOf<C> band = band_of<C>(p, sequence);
    const KeyRange tiles = uniform(key_tiles<C>(p, work));
    Part part;
    part.head = work.head;
    part.first = work.first + warpgroup * warpgroup_rows<C>(p);
    part.count = counting_rows<C>(p, sequence, part.first, warpgroup_rows<C>(p));
    const KeyRange mine = uniform(key_tiles<C>(band, part.count));
    const KeyRange whole = band.seen_by_all(part.count.first, part.count.end - 1);

    float output[S::kOutputs];
#pragma unroll
    for (int i = 0; i < S::kOutputs; ++i) output[i] = 0.0f;
    SoftmaxRows rows;
    // Also where no row sees a key: O may take Q's place, and must not meet the next tile's Q
    // there.
    if (!q_ready) ptx::mbarrier_wait(&shared.q_full[warpgroup], q_parity);
    q_parity ^= 1;
    q.load(shared.query[warpgroup].q);

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
    for (; n >= max_of(mine.end, tiles.begin); --n, k_ready = false) skip(n);

    if (mine.begin < mine.end) {
      float scores[S::kScores];
      u32 probabilities[S::kScores / 2];
      shared.k_ring.wait(k_at, k_ready);
      issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
      ptx::wgmma_wait<0>();
      ptx::pin(scores);
      shared.k_ring.release(k_at, lane);
      k_at.advance();
      for (bool first = true;; first = false) {
        if (C.own_output && leader && n == mine.begin) {  // Q has been read for the last time
          ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
        }
        const bool v_ready = shared.v_ring.peek(v_at);
        k_ready = shared.k_ring.peek(k_at);
        mask_scores<C>(p, scores, sequence, part, band, whole, n * C.tile_keys);
        begin_turn<C, kOrderSoftmax>(warpgroup);
        softmax_step<Element, C.polynomial_share, C.always_rescale>(scores, p.scale, first, rows,
                                                                    probabilities, output);
        end_turn<C, kOrderSoftmax>(warpgroup);
        const bool last = --n < mine.begin;
        begin_turn<C, kOrderProducts>(warpgroup);
        shared.v_ring.wait(v_at, v_ready);
        issue_output<Element, C>(output, probabilities, descriptor_mn_major(shared.v[v_at.stage]));
        if (last) {
          end_turn<C, kOrderProducts>(warpgroup);
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
    } else if (C.own_output && leader) {
      ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
    }
    for (; n >= tiles.begin; --n) skip(n);

    finish<Element, C>(p, shared, sequence, part, rows, output, warpgroup);
    __syncwarp();
    if (leader) shared.queue.release(queue_at);
  }
  if (leader) ptx::bulk_wait();
}

}  // namespace fa4::sm90
