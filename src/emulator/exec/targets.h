// SPDX-License-Identifier: BSD-3-Clause
// The instruction sets that vector handlers are compiled for: the compiler's baseline and AVX2.
// A warp's 32 lanes are four AVX2 registers, and wider ones gain little. Included before
// hwy/foreach_target.h.
#pragma once

#define HWY_DISABLED_TARGETS                                                          \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)

namespace fa4::emulator::exec {

bool has_avx2();

}  // namespace fa4::emulator::exec

/// Calls the function of that name of the best target's namespace. For the part of a file that is
/// compiled once.
#ifdef __x86_64__
#define FA4_EMULATOR_BEST(...) (has_avx2() ? N_AVX2::__VA_ARGS__ : HWY_NAMESPACE::__VA_ARGS__)
#else
#define FA4_EMULATOR_BEST(...) HWY_NAMESPACE::__VA_ARGS__
#endif
