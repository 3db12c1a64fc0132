// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's two products, S = Q K^T and O += P V, of one warpgroup's 64 rows.
#pragma once

#include "attention/softmax.cuh"
#include "ptx/math.cuh"
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

/// `kSteps` steps of 16 columns of S = Q K^T, from `step` on.
template <class Element, ForwardConfig C, int kSteps, int kScores>
__device__ inline void issue_score_steps(float (&scores)[kScores], QOperand<C>& q, u64 k,
                                         int step) {
  using S = Shapes<C>;
  const u64 k_step = k + step_k_major<typename S::KTile>(step);
  if constexpr (C.q_registers) {
    ptx::wgmma_registers<0, kSteps>(Element{}, scores, &q.registers[4 * step], k_step, step > 0);
  } else {
    ptx::wgmma_shared<0, kSteps>(
        Element{}, scores, q.descriptor + step_k_major<typename S::QTile>(step), k_step, step > 0);
  }
}

/// S = Q K^T, issued, not awaited.
template <class Element, ForwardConfig C, int kScores>
__device__ inline void issue_scores(float (&scores)[kScores], QOperand<C>& q, u64 k) {
  static_assert(kScores == Shapes<C>::kScores);
  constexpr int kSteps = C.dim_qk / 16, kByFour = kSteps / 4 * 4;
  if constexpr (C.q_registers) ptx::pin(q.registers);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kByFour; step += 4) {
    issue_score_steps<Element, C, 4>(scores, q, k, step);
  }
#pragma unroll
  for (int step = kByFour; step < kSteps; ++step) {
    issue_score_steps<Element, C, 1>(scores, q, k, step);
  }
  ptx::wgmma_commit();
}

/// O += P V, issued, not awaited. P, packed just before, is held on this side of the fence; O and S
/// were last touched blocks ago.
template <class Element, ForwardConfig C, int kProbabilities, int kOutputs>
__device__ inline void issue_output(float (&output)[kOutputs], u32 (&probabilities)[kProbabilities],
                                    u64 v) {
  constexpr int kSteps = kProbabilities / 4, kByFour = kSteps / 4 * 4;
  ptx::pin(probabilities);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kByFour; step += 4) {
    ptx::wgmma_registers<1, 4>(Element{}, output, &probabilities[4 * step], v + step_mn_major(step),
                               true);
  }
#pragma unroll
  for (int step = kByFour; step < kSteps; ++step) {
    ptx::wgmma_registers<1>(Element{}, output, &probabilities[4 * step], v + step_mn_major(step),
                            true);
  }
  ptx::wgmma_commit();
}

/// S of a warp's sixteen rows, by that warp alone: for the rare tile whose scores are wanted again.
template <class Element, ForwardConfig C, int kScores>
__device__ inline void recompute_scores(float (&scores)[kScores], typename Shapes<C>::QTile& q,
                                        typename Shapes<C>::KTile& k) {
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
  const int lane = threadIdx.x % kWarpThreads;
#pragma unroll
  for (int i = 0; i < kScores; ++i) scores[i] = 0.0f;
#pragma unroll 1
  for (int step = 0; step < C.dim_qk / 16; ++step) {
    u32 a[4];
    ptx::load_matrix_x4(q.piece(warp * kRowsPerWarp + lane % 16, 2 * step + lane / 16), a);
#pragma unroll
    for (int block = 0; block < kScores / 8; ++block) {  // of sixteen keys
      u32 b[4];
      const int key = 16 * block + lane / 16 * 8 + lane % 8;
      ptx::load_matrix_x4(k.piece(key, 2 * step + lane / 8 % 2), b);
      ptx::mma(Element{}, &scores[8 * block], a, b[0], b[1]);
      ptx::mma(Element{}, &scores[8 * block + 4], a, b[2], b[3]);
    }
  }
  __syncwarp();  // one lane lets go of Q and K for all
}

/// The softmax of a tile whose S is on its way, and behind it O += P V of the tile before. That
/// product runs under the exponentials, which take S's place; P changes once it is through. False,
/// and nothing counted, where a reference was too low.
template <class Element, ForwardConfig C, int kScores, int kOutputs>
__device__ inline bool softmax_under_output(float (&scores)[kScores], float scale,
                                            SoftmaxRows& rows, u32 (&probabilities)[kScores / 2],
                                            float (&output)[kOutputs], u64* any_barrier) {
  constexpr int kUnder = kScores / 16 * 12;  // three quarters: the product takes about half
  float partial[4] = {};
  ptx::wgmma_wait<1>();
  ptx::pin(scores);
  exponentiate_in_place<C.polynomial_share, 0, kUnder>(scores, scale, rows.reference, partial);
  ptx::wgmma_wait_after<0>(partial, any_barrier);
  ptx::pin(output);
  ptx::pin(probabilities);
  exponentiate_in_place<C.polynomial_share, kUnder, kScores>(scores, scale, rows.reference,
                                                             partial);
#pragma unroll
  for (int pair = 0; pair < kScores / 2; ++pair) {
    probabilities[pair] = ptx::pack(Element{}, scores[2 * pair], scores[2 * pair + 1]);
  }
  const float sum[2] = {partial[0] + partial[1], partial[2] + partial[3]};
  if (!sums_fit(sum)) return false;
  rows.sum[0] += sum[0];
  rows.sum[1] += sum[1];
  return true;
}

}  // namespace fa4::sm90
