// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's consumer warpgroups: products and softmax.
#pragma once

#include "sm90/forward_output.cuh"
#include "sm90/forward_products.cuh"

namespace fa4::sm90 {

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
    // Also where no row sees a key: Q comes for every tile, and must have landed before the next.
    if (!q_ready) ptx::mbarrier_wait(&shared.q_full[warpgroup], q_parity);
    q_parity ^= 1;
    q.load(shared.query[warpgroup].q);

    // Tiles of keys that only other warpgroups' rows see are let go untouched, by all lanes
    // together: nothing else here would keep one from falling behind.
    auto skip = [&](i32 n) {
      begin_turn<C, C.order>(warpgroup);
      end_turn<C, C.order>(warpgroup);
      shared.k_ring.wait(k_at);
      shared.v_ring.wait(v_at);
      __syncwarp();
      shared.k_ring.leave(k_at, lane);
      shared.v_ring.leave(v_at, lane);
    };
    i32 n = tiles.end - 1;
    for (; n >= max_of(mine.end, tiles.begin); --n, k_ready = false) skip(n);

    if (mine.begin < mine.end) {
      float scores[S::kScores];
      u32 probabilities[S::kScores / 2];
      auto compute_scores = [&] {
        shared.k_ring.wait(k_at, k_ready);
        issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
        ptx::wgmma_wait<0>();
        ptx::pin(scores);
        shared.k_ring.leave(k_at, lane);
      };
      auto add_output = [&] {
        issue_output<Element, C>(output, probabilities, descriptor_mn_major(shared.v[v_at.stage]));
        end_turn<C, kOrderProducts>(warpgroup);
        ptx::wgmma_wait<0>();
        ptx::pin(output);
        shared.v_ring.leave(v_at, lane);
      };
      // Whether the softmax under a product had a reference that was high enough.
      bool fits = true;
      if constexpr (!C.overlap) compute_scores();
      for (bool first = true;; first = false) {
        if constexpr (C.overlap) {
          if (fits) compute_scores();
        }
        if (leader && n == mine.begin) {  // Q has been read for the last time
          ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
        }
        bool v_ready = shared.v_ring.peek(v_at);
        k_ready = shared.k_ring.peek(k_at);
        mask_scores<C>(p, scores, sequence, part, band, whole, n * C.tile_keys);
        begin_turn<C, kOrderSoftmax>(warpgroup);
        softmax_step<Element, C.polynomial_share, C.always_rescale>(scores, p.scale, first, rows,
                                                                    probabilities, output);
        end_turn<C, kOrderSoftmax>(warpgroup);
        if constexpr (C.overlap) {
          fits = true;
          // Tiles that all rows see whole, each under the product of the one before. (No product
          // may run across a branch, or ptxas makes all of them wait: so this loop of its own.)
          while (fits && n > mine.begin && (n - 1) * C.tile_keys >= whole.begin &&
                 n * C.tile_keys <= whole.end) {
            --n;
            begin_turn<C, kOrderProducts>(warpgroup);
            shared.k_ring.wait(k_at, k_ready);
            shared.v_ring.wait(v_at, v_ready);
            issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
            issue_output<Element, C>(output, probabilities,
                                     descriptor_mn_major(shared.v[v_at.stage]));
            end_turn<C, kOrderProducts>(warpgroup);
            fits = softmax_under_output<Element, C>(scores, p.scale, rows, probabilities, output,
                                                    &shared.v_ring.full[v_at.stage]);
            shared.v_ring.leave(v_at, lane);
            if (!fits) {
              recompute_scores<Element, C>(scores, shared.query[warpgroup].q, shared.k[k_at.stage]);
            }
            shared.k_ring.leave(k_at, lane);
            if (fits && leader && n == mine.begin) {
              ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
            }
            v_ready = shared.v_ring.peek(v_at);
            k_ready = shared.k_ring.peek(k_at);
          }
        }
        if (!fits) continue;
        begin_turn<C, kOrderProducts>(warpgroup);
        shared.v_ring.wait(v_at, v_ready);
        // With overlap that is what is left at a band's edges, where products may go one by one: a
        // copy of both, side by side, would take the compiler an eighth longer.
        if constexpr (C.overlap) add_output();
        if (--n < mine.begin) break;
        if constexpr (!C.overlap) {
          shared.k_ring.wait(k_at, k_ready);
          issue_output<Element, C>(output, probabilities,
                                   descriptor_mn_major(shared.v[v_at.stage]));
          issue_scores<Element, C>(scores, q, descriptor_k_major(shared.k[k_at.stage]));
          end_turn<C, kOrderProducts>(warpgroup);
          ptx::wgmma_wait<0>();
          ptx::pin(scores);
          ptx::pin(output);
          shared.v_ring.leave(v_at, lane);
          shared.k_ring.leave(k_at, lane);
        }
      }
      if constexpr (!C.overlap) add_output();
    } else if (leader) {
      ptx::mbarrier_arrive(&shared.q_empty[warpgroup]);
    }
    if constexpr (C.left) {  // else all rows see the same first tile
      for (; n >= tiles.begin; --n) skip(n);
    }

    finish<Element, C>(p, shared, sequence, part, rows, output, warpgroup);
    __syncwarp();
    if (leader) shared.queue.release(queue_at);
  }
  if (leader) ptx::bulk_wait();
}

}  // namespace fa4::sm90
