// SPDX-License-Identifier: BSD-3-Clause
// The bfloat16 probe. Highway 1.0 has no target for AVX-512-BF16, so it uses intrinsics.
#include "cli/roofs.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fa4::cli::probe {

#if defined(__x86_64__)

namespace {
constexpr int kChains = 12;
}

bool has_bf16_dot() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512f") != 0;
}

/// A dot product of pairs: 16 lanes, 2 multiplications and 2 additions each.
int64_t flops_of_bf16_dot() { return int64_t{64} * kChains; }

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) float bf16_dot(int64_t iterations) {
  const __m512 ones = _mm512_set1_ps(1.0F);
  const __m512bh a = _mm512_cvtne2ps_pbh(ones, ones);
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_setzero_ps(), ones);
  __m512 c0 = ones, c1 = ones, c2 = ones, c3 = ones, c4 = ones, c5 = ones;
  __m512 c6 = ones, c7 = ones, c8 = ones, c9 = ones, c10 = ones, c11 = ones;
  for (int64_t i = 0; i < iterations; ++i) {
    c0 = _mm512_dpbf16_ps(c0, a, b);
    c1 = _mm512_dpbf16_ps(c1, a, b);
    c2 = _mm512_dpbf16_ps(c2, a, b);
    c3 = _mm512_dpbf16_ps(c3, a, b);
    c4 = _mm512_dpbf16_ps(c4, a, b);
    c5 = _mm512_dpbf16_ps(c5, a, b);
    c6 = _mm512_dpbf16_ps(c6, a, b);
    c7 = _mm512_dpbf16_ps(c7, a, b);
    c8 = _mm512_dpbf16_ps(c8, a, b);
    c9 = _mm512_dpbf16_ps(c9, a, b);
    c10 = _mm512_dpbf16_ps(c10, a, b);
    c11 = _mm512_dpbf16_ps(c11, a, b);
  }
  const __m512 low = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(c0, c1), _mm512_add_ps(c2, c3)),
                                   _mm512_add_ps(c4, c5));
  const __m512 high = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(c6, c7), _mm512_add_ps(c8, c9)),
                                    _mm512_add_ps(c10, c11));
  alignas(64) float sums[16];
  _mm512_store_ps(sums, _mm512_add_ps(low, high));
  return sums[0] + sums[15];
}

#else

bool has_bf16_dot() { return false; }
int64_t flops_of_bf16_dot() { return 0; }
float bf16_dot(int64_t) { return 0; }

#endif

}  // namespace fa4::cli::probe
