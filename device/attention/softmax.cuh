// SPDX-License-Identifier: BSD-3-Clause
// Online softmax over tiles of scores held in a product's registers.
//
// A row keeps a reference m (log2 units, scale included), l = sum of 2^(s - m) and O = sum of
// 2^(s - m) v. Any m gives the same result as long as nothing overflows: the row's maximum is only
// the usual choice. So m is kept as it is while the tile's partial sums stay below 2^kSumLimit,
// which bounds every entry of P as well, and the maximum is not even looked for. Only when a sum is
// too large (the first tile, and a tile whose scores stand far above all before) is the maximum
// taken, and l and O rescaled. This is FlashAttention-4's conditional rescaling carried one step
// further: the sum, which is needed anyway, tells when the maximum is needed.
#pragma once

#include "attention/exp2.cuh"
#include "ptx/sync.cuh"

namespace fa4 {

constexpr float kSumLimit = 8192.0f;  // 2^13: P <= 2^13 fits fp16 too
constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

/// The state of a thread's two rows (row and row + 8 of its warp's sixteen). `sum` is the thread's
/// own part; the four threads of a row add theirs up at the end.
struct SoftmaxRows {
  float reference[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.0f, 0.0f};
};

__device__ inline float max_of_row(float x) {
  x = ptx::max(x, ptx::shuffle_xor(x, 1));
  return ptx::max(x, ptx::shuffle_xor(x, 2));
}
__device__ inline float sum_of_row(float x) {
  x += ptx::shuffle_xor(x, 1);
  return x + ptx::shuffle_xor(x, 2);
}

/// probabilities = 2^(scores * scale - reference), packed in pairs as the next product's operand.
/// Gives the sums of the thread's parts of its two rows.
template <class Element, int kShare, int kCount>
__device__ inline void exponentiate(const float (&scores)[kCount], float scale,
                                    const float (&reference)[2], u32 (&probabilities)[kCount / 2],
                                    float (&sum)[2]) {
  float partial[2][2] = {};
#pragma unroll
  for (int pair = 0; pair < kCount / 2; ++pair) {
    const int half = pair % 2;
    const float a = exp2_shared<kShare>(2 * (pair / 2) + 0,
                                        ptx::fma(scores[2 * pair], scale, -reference[half]));
    const float b = exp2_shared<kShare>(2 * (pair / 2) + 1,
                                        ptx::fma(scores[2 * pair + 1], scale, -reference[half]));
    partial[half][0] += a;
    partial[half][1] += b;
    probabilities[pair] = ptx::pack(Element{}, a, b);
  }
  sum[0] = partial[0][0] + partial[0][1];
  sum[1] = partial[1][0] + partial[1][1];
}

/// The largest of a thread's scores in its row `half`, scaled.
template <int kCount>
__device__ inline float max_of_scores(const float (&scores)[kCount], float scale, int half) {
  // A scale below 0 turns the order around. One maximum and one product would cost twice as much.
  float top = scores[2 * half];
  if (scale >= 0.0f) {
#pragma unroll
    for (int i = 1; i < kCount / 2; ++i)
      top = ptx::max(top, scores[4 * (i / 2) + 2 * half + i % 2]);
  } else {
#pragma unroll
    for (int i = 1; i < kCount / 2; ++i)
      top = ptx::min(top, scores[4 * (i / 2) + 2 * half + i % 2]);
  }
  return top * scale;
}

/// Moves each row's reference up to its maximum over this tile too, and rescales l and O, which are
/// 0 on a row's first tile.
template <int kCount, int kOutputs>
__device__ inline void raise_reference(const float (&scores)[kCount], float scale, bool first,
                                       SoftmaxRows& rows, float (&output)[kOutputs]) {
  const float old[2] = {rows.reference[0], rows.reference[1]};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float top = max_of_row(max_of_scores(scores, scale, half));
    rows.reference[half] = ptx::max(old[half], top);
  }
  if (first) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float top = rows.reference[half];
    const float factor = top == -kInfinity ? 1.0f : ptx::exp2_approx(old[half] - top);
    rows.sum[half] *= factor;
#pragma unroll
    for (int block = 0; block < kOutputs / 4; ++block) {
      output[4 * block + 2 * half] *= factor;
      output[4 * block + 2 * half + 1] *= factor;
    }
  }
}

/// scores = 2^(scores * scale - reference) for registers [kBegin, kEnd), in place; their sums are
/// added to `partial`, each row's to two numbers.
template <int kShare, int kBegin, int kEnd, int kCount>
__device__ inline void exponentiate_in_place(float (&scores)[kCount], float scale,
                                             const float (&reference)[2], float (&partial)[4]) {
#pragma unroll
  for (int i = kBegin; i < kEnd; ++i) {
    const int half = i / 2 % 2;
    scores[i] =
        exp2_shared<kShare>(i / 4 * 2 + i % 2, ptx::fma(scores[i], scale, -reference[half]));
    partial[i % 4] += scores[i];
  }
}

/// Whether a warp's sums tell that no reference was too low. NaN tells nothing.
__device__ inline bool sums_fit(const float (&sum)[2]) {
  return ptx::all_lanes(sum[0] <= kSumLimit && sum[1] <= kSumLimit);
}

/// One tile: scores become probabilities; `rows` and `output` are kept in step. On a row's first
/// tile the reference surely is too low; kAlways takes it for too low on every tile.
template <class Element, int kShare, bool kAlways, int kCount, int kOutputs>
__device__ inline void softmax_step(const float (&scores)[kCount], float scale, bool first,
                                    SoftmaxRows& rows, u32 (&probabilities)[kCount / 2],
                                    float (&output)[kOutputs]) {
  float sum[2];
  float reference[2] = {rows.reference[0], rows.reference[1]};
  for (bool raise = first || kAlways;; raise = true) {
    if (raise) {
      raise_reference(scores, scale, first, rows, output);
      // A row that has seen no key yet has no finite reference; any will do.
      reference[0] = rows.reference[0] == -kInfinity ? 0.0f : rows.reference[0];
      reference[1] = rows.reference[1] == -kInfinity ? 0.0f : rows.reference[1];
    }
    exponentiate<Element, kShare>(scores, scale, reference, probabilities, sum);
    if (raise || sums_fit(sum)) break;
  }
  rows.sum[0] += sum[0];
  rows.sum[1] += sum[1];
}

}  // namespace fa4
