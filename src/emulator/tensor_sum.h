// SPDX-License-Identifier: BSD-3-Clause
// How Hopper's tensor cores add, found out from an H200's results (docs/notes/emulator_h200.md):
// the products and the accumulator are aligned to the largest exponent among them, cut off so many
// bits behind it, added exactly, and the sum is cut off to float32. A product's exponent is the sum
// of its factors', whether or not their significands carry.
#pragma once

#include <cstdint>

#include "emulator/matrix_operand.h"

namespace fa4::emulator {

/// Bits kept behind the largest exponent's place; where they are fewer than float32's, the result
/// keeps so many too.
constexpr int kSumBits = 25;
constexpr int kTinySumBits = 13;  ///< wgmma's with 8-bit floats.

/// Factors of one result: a[0] b[0], a[a_step] b[b_step] and so on.
struct Factors {
  const float* a;
  uint32_t a_step;
  const float* b;
  uint32_t b_step;
  uint32_t depth;
};

float hopper_sum(const Factors& f, float c, int bits);

}  // namespace fa4::emulator
