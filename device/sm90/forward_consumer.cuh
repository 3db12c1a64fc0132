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
  i32 first;       ///< Position of its first row.
  RowRange count;  ///< Its rows that count.
};

/// What a row's O is multiplied by in the end, and its LSE; the sink is the row's last logit.
struct RowEnd {
  float factor;
  float lse;
};

__device__ inline RowEnd end_row(float reference, float sum, float sink) {
  const float top = ptx::max(reference, sink);
  if (top == -kInfinity && sum == 0.0f) return {0.0f, -kInfinity};
  const float scale = sink == -kInfinity ? 1.0f : ptx::exp2_approx(reference - top);
  const float all = sum * scale + (sink == -kInfinity ? 0.0f : ptx::exp2_approx(sink - top));
  return {scale / all, (top + ptx::log2_approx(all)) * kLn2};
}

/// Writes LSE, and gives the factors of the thread's two rows.
template <ForwardConfig C>
__device__ inline void end_rows(const ForwardParams& p, const Sequence& s, const Part& part,
                                const SoftmaxRows& rows, float (&factor)[2]) {
  const int thread = threadIdx.x % kWarpgroupThreads;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i32 row = thread / kWarpThreads * 16 + thread % kWarpThreads / 4 + 8 * half;
    const i32 position = position_of<C>(p, part.first, row);
    const i32 head = head_of<C>(p, part.head, row);
    float sink = -kInfinity;
    if (p.sink != nullptr) {
      sink = load_scalar(p.sink_type, p.sink + head * p.sink_head) * kLog2E;
    }
    const RowEnd end = end_row(rows.reference[half], sum_of_row(rows.sum[half]), sink);
    factor[half] = end.factor;
    const i32 all = C.varlen ? s.q_rows : p.rows_q;
    if (p.lse == nullptr || thread % 4 != 0 || position >= all) continue;
    if (C.packed && row >= p.pack_rows * p.pack_heads) continue;
    const bool counts = !C.varlen || (position >= part.count.first && position < part.count.end);
    const i64 at = s.batch * p.lse_batch + head * p.lse_head +
                   ((C.varlen ? s.q_first : 0) + i64{position}) * p.lse_row;
    p.lse[at] = counts ? end.lse : -kInfinity;
  }
}

/// Writes the tile row by row: rows of the sequence that do not count become 0, rows beyond it
/// belong to the next one.
template <ForwardConfig C, class Tile>
__device__ inline void store_rows(const ForwardParams& p, const Sequence& s, const Part& part,
                                  Tile& staged) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const int rows = C.packed ? p.pack_rows * p.pack_heads : kRowsPerWarpgroup;
  if (lane >= p.dim_v / 8) return;
  for (int row = warp; row < rows; row += 4) {
    const i32 position = position_of<C>(p, part.first, row);
    if (position >= s.q_rows) break;
    u64x2 piece = {0, 0};
    if (position >= part.count.first && position < part.count.end) {
      piece = *reinterpret_cast<const u64x2*>(staged.piece(row, lane));
    }
    u16* out = static_cast<u16*>(p.out) + p.q_batched * s.batch * p.out_batch +
               (i64{s.q_first} + position) * p.out_row + head_of<C>(p, part.head, row) * p.out_head;
    *reinterpret_cast<u64x2*>(out + lane * 8) = piece;
  }
}

/// Divides O by l, writes it through shared memory, and LSE.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void finish(const ForwardParams& p, Shared<C>& shared, const Sequence& s,
                              const Part& part, const SoftmaxRows& rows, float (&output)[kOutputs],
                              int warpgroup) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  float factor[2];
  end_rows<C>(p, s, part, rows, factor);
  if (thread == 0) ptx::bulk_wait_read();  // of this warpgroup's tile before
  ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
  auto& staged = shared.query[warpgroup].o;
#pragma unroll
  for (int block = 0; block < C.dim_v / 16; ++block) {
    const float* o = &output[8 * block];
    void* row = staged.piece(warp * 16 + lane % 16, 2 * block + lane / 16);
    ptx::store_matrix_x4(row, ptx::pack(Element{}, o[0] * factor[0], o[1] * factor[0]),
                         ptx::pack(Element{}, o[2] * factor[1], o[3] * factor[1]),
                         ptx::pack(Element{}, o[4] * factor[0], o[5] * factor[0]),
                         ptx::pack(Element{}, o[6] * factor[1], o[7] * factor[1]));
  }
  ptx::fence_async_shared();
  ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
  const bool whole = part.count.end - part.count.first == warpgroup_rows<C>(p);
  if (C.varlen && !whole) {
    store_rows<C>(p, s, part, staged);
    if constexpr (!C.own_output) {  // Q comes here next
      ptx::fence_async_shared();
      ptx::barrier_sync(kBarrierOutput + warpgroup, kWarpgroupThreads);
    }
  } else if (thread == 0) {
#pragma unroll
    for (int panel = 0; panel < staged.kPanels; ++panel) {
      ptx::tma_store_5d(&p.o, staged.panel(panel), panel * kPanelCols, 0,
                        (C.varlen ? s.q_first : 0) + part.first, part.head, p.q_batched * s.batch);
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

/// Changes and hides scores: all that stands between a product and the softmax.
template <ForwardConfig C, int kScores>
__device__ inline void mask_scores(const ForwardParams& p, float (&scores)[kScores],
                                   const Sequence& s, const Part& part, const BandOf<C>& band,
                                   KeyRange whole, i32 first_key) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int row = thread / kWarpThreads * 16 + thread % kWarpThreads / 4;
  const bool masked = first_key < whole.begin || first_key + C.tile_keys > whole.end;
  if (!C.score.any() && !masked) return;
  ThreadRows rows;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows.position[half] = position_of<C>(p, part.first, row + 8 * half);
    rows.head[half] = head_of<C>(p, part.head, row + 8 * half);
  }
  const i32 key = first_key + thread % 4 * 2;
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
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int lane = thread % kWarpThreads;
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
    if (uniform(work.position) < 0) break;
    const BandOf<C> band = band_of<C>(p, sequence);
    const KeyRange tiles = uniform(key_tiles<C>(p, work));
    Part part;
    part.head = work.head;
    part.first = (work.position * C.warpgroups + warpgroup) * warpgroup_rows<C>(p);
    part.count = counting_rows<C>(p, sequence, part.first, warpgroup_rows<C>(p));
    const KeyRange mine = uniform(key_tiles<C>(band, part.count));
    const KeyRange whole = band.seen_by_all(part.count.first, part.count.end - 1);

    float output[S::kOutputs];
#pragma unroll
    for (int i = 0; i < S::kOutputs; ++i) output[i] = 0.0f;
    SoftmaxRows rows;
    // Also where no row sees a key: O may take Q's place, and must not meet the next tile's Q
    // there.
    ptx::mbarrier_wait(&shared.q_full[warpgroup], q_parity);
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
        mask_scores<C>(p, scores, sequence, part, band, whole, n * C.tile_keys);
        begin_turn<C, kOrderSoftmax>(warpgroup);
        softmax_step<Element, C.polynomial_share>(scores, p.scale, first || C.always_rescale, rows,
                                                  probabilities, output);
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
    } else if (C.own_output && leader) {
      ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
    }
    for (; n >= tiles.begin; --n) skip(n);

    finish<Element, C>(p, shared, sequence, part, rows, output, warpgroup);
    if (!C.own_output && thread == 0) ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
    __syncwarp();
    if (leader) shared.queue.release(queue_at);
  }
  if (thread == 0) ptx::bulk_wait();
}

}  // namespace fa4::sm90
