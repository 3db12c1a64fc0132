// SPDX-License-Identifier: BSD-3-Clause
// What may happen to a score between the product and the softmax, in this order: scale, softcap,
// ALiBi, bias, boolean mask. A kernel without any of them has no instruction of this.
#pragma once

#include "ptx/math.cuh"

namespace fa4 {

/// Types of the numbers in tensors beside q, k and v. The host's DType, with 0 for "absent".
enum Scalar { kAbsent = 0, kFloat32 = 1, kFloat64 = 2, kBFloat16 = 3, kFloat16 = 4 };

/// What is fixed when a kernel is compiled.
struct ScoreConfig {
  bool softcap;
  bool alibi;
  bool mask;
  int bias;  ///< A Scalar.

  __device__ constexpr bool any() const { return softcap || alibi || mask || bias != kAbsent; }
  /// A key can be hidden from a row that the band shows it to.
  __device__ constexpr bool hides() const { return mask || bias != kAbsent; }
};

/// A [b, h, s_q, s_k] tensor; the stride of a dimension that broadcasts is 0.
struct ScoreTensor {
  const u8* data;
  i64 batch, head, row;  ///< Strides, in bytes.
  i64 key;               ///< Below 2^31.

  __device__ const u8* at(i32 b, i32 h, i32 i, i32 j) const {
    return data + b * batch + h * head + i * row + j * key;
  }
};

struct ScoreParams {
  ScoreTensor bias;
  ScoreTensor mask;
  const float* slopes;
  i64 slope_batch, slope_head;
  float scale;    ///< Of the product, natural units.
  float cap;      ///< Softcap.
  float to_cap;   ///< scale / cap
  i32 first_key;  ///< Where the kernel's key 0 stands in the bias and the mask.
};

/// The rows that one thread holds parts of, in the order of a product's registers.
struct ThreadRows {
  i32 position[2];  ///< In the sequence.
  i32 head[2];      ///< Query head.
};

/// A number whose type is known when the kernel runs.
__device__ inline float load_scalar(int type, const void* data) {
  switch (type) {
    case kFloat32:
      return *static_cast<const float*>(data);
    case kFloat64:
      return static_cast<float>(*static_cast<const double*>(data));
    case kBFloat16:
      return ptx::unpack(Bf16{}, *static_cast<const u16*>(data));
    default:
      return ptx::unpack(Fp16{}, *static_cast<const u16*>(data));
  }
}

/// tanh to a few units in the last place (tanh.approx has 11 bits).
__device__ inline float tanh_precise(float x) {
  constexpr float kTwoLog2E = 2.88539008f;
  const float far =
      ptx::fma(-2.0f, ptx::reciprocal_approx(1.0f + ptx::exp2_approx(kTwoLog2E * x)), 1.0f);
  const float square = x * x;
  float near = ptx::fma(square, 62.0f / 2835.0f, -17.0f / 315.0f);
  near = ptx::fma(ptx::fma(near, square, 2.0f / 15.0f), square, -1.0f / 3.0f);
  near = ptx::fma(near * square, x, x);
  return square < 0.09f ? near : far;
}

/// Changes a 64 x N product's registers into scores in natural units; hidden ones become -inf.
/// `key` is the thread's first column, `last_key` and `last_row` the last that may be read of the
/// bias and the mask: beyond them the scores do not matter.
template <ScoreConfig S, int kCount>
__device__ inline void modify_scores(float (&scores)[kCount], const ScoreParams& p,
                                     const ThreadRows& rows, i32 batch, i32 diagonal, i32 last_row,
                                     i32 key, i32 last_key) {
  constexpr float kHidden = -__builtin_bit_cast(float, 0x7f800000);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i32 row = min_of(rows.position[half], last_row), head = rows.head[half];
    float slope = 0.0f, distance = 0.0f;
    if constexpr (S.alibi) {
      slope = p.slopes[batch * p.slope_batch + head * p.slope_head];
      distance = static_cast<float>(key - row - diagonal);
    }
    const u8* mask = S.mask ? p.mask.at(batch, head, row, key + p.first_key) : nullptr;
    const u8* bias = S.bias != kAbsent ? p.bias.at(batch, head, row, key + p.first_key) : nullptr;
    const i32 mask_step = static_cast<i32>(p.mask.key), bias_step = static_cast<i32>(p.bias.key);
#pragma unroll
    for (int block = 0; block < kCount / 4; ++block) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int column = 8 * block + odd;
        float& score = scores[4 * block + 2 * half + odd];
        if constexpr (S.softcap) {
          score = p.cap * tanh_precise(score * p.to_cap);
        } else {
          score *= p.scale;
        }
        if constexpr (S.alibi) score = ptx::fma(slope, distance + column, score);
        const i32 step = min_of(column, last_key - key);
        if constexpr (S.bias != kAbsent) {
          const float added = load_scalar(S.bias, bias + i64{step} * bias_step);
          score = added == kHidden ? kHidden : score + added;
        }
        if constexpr (S.mask) score = mask[i64{step} * mask_step] != 0 ? score : kHidden;
      }
    }
  }
}

/// Whether the bias and the mask let a row see a key.
template <ScoreConfig S>
__device__ inline bool shows(const ScoreParams& p, i32 batch, i32 head, i32 row, i32 key) {
  const i32 j = key + p.first_key;
  bool seen = true;
  if constexpr (S.mask) seen = *p.mask.at(batch, head, row, j) != 0;
  if constexpr (S.bias != kAbsent) {
    const float added = load_scalar(S.bias, p.bias.at(batch, head, row, j));
    seen = seen && added != -__builtin_bit_cast(float, 0x7f800000);
  }
  return seen;
}

}  // namespace fa4
