// SPDX-License-Identifier: BSD-3-Clause
// The instruction sets that the micro-kernels are compiled for. Included before
// hwy/foreach_target.h.
#pragma once

// Arrays of vectors rule out targets whose vectors have no size at compile time; the others add
// nothing for these kernels over their neighbours. (A target that is the compiler's own baseline
// stays.) FA4_FEW_TARGETS is for builds that check other things: the baseline and AVX2 alone, and
// loops less unrolled.
#ifdef FA4_FEW_TARGETS
#define FA4_LEFT_OUT (HWY_SSE4 | HWY_AVX3)
#define FA4_DEPTH_UNROLL 1
#else
#define FA4_LEFT_OUT 0
#define FA4_DEPTH_UNROLL 4
#endif
#define HWY_DISABLED_TARGETS                                                                  \
  (FA4_LEFT_OUT | HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV)

// Rows of the largest register tile of a product, in HWY_TARGET: 6 rows of 2 vectors fill 16
// registers, 12 leave some of 32 for the compiler.
#define FA4_ROW_STEP (HWY_TARGET == HWY_AVX3 ? 12 : 6)
