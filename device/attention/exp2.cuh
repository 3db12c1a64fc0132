// SPDX-License-Identifier: BSD-3-Clause
// 2^x for x <= a few units above 0, by the special function unit or by a polynomial on the FMA
// units: the two can share the work.
#pragma once

#include "ptx/math.cuh"

namespace fa4 {

/// 2^x by Cody-Waite reduction and a polynomial of degree 3 on [0, 1), the one with the smallest
/// largest relative error (8.6e-5, a forty-fifth of a bfloat16's rounding) among those that are 1
/// at 0. x below -127 gives 0, above 127.99 something too large to be taken for a probability; NaN
/// stays NaN.
__device__ inline float exp2_polynomial(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves floor(x) in the low bits
  constexpr float kC1 = 0.695116758f, kC2 = 0.227644995f, kC3 = 0.0770670399f;
  x = ptx::min_nan(ptx::max_nan(x, -127.0f), 127.99f);
  const float shifted = ptx::add_round_down(x, kRound);
  const float fraction = x - (shifted - kRound);
  const float power =
      ptx::fma(ptx::fma(ptx::fma(kC3, fraction, kC2), fraction, kC1), fraction, 1.0f);
  return __int_as_float(__float_as_int(power) + (__float_as_int(shifted) << 23));
}

/// Element `index` of a run of exponentials: `kShare` of every 16 go to the polynomial, spread out.
template <int kShare>
__device__ inline float exp2_shared(int index, float x) {
  if constexpr (kShare > 0) {
    if (index * kShare % 16 < kShare) return exp2_polynomial(x);
  }
  return ptx::exp2_approx(x);
}

}  // namespace fa4
