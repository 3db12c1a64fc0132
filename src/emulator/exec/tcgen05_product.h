// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic of a tcgen05 product.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fa4::emulator {

/// d[c * d_stride + l] = scale * d[...] + sum over k of a[k * a_stride + l] * b[k * b_stride + c],
/// for lanes l < `lanes` (a multiple of 16) and columns c < `columns` (a multiple of 4).
struct ProductBlock {
  float* d = nullptr;
  size_t d_stride = 0;
  const float* a = nullptr;
  size_t a_stride = 0;
  const float* b = nullptr;
  size_t b_stride = 0;
  uint32_t lanes = 0;
  uint32_t columns = 0;
  uint32_t depth = 0;
  float scale = 1;  ///< 0: d is not read.
};

/// k ascending, each product exact and added with one rounding. (Hardware's order and rounding
/// inside a product are not specified.)
void multiply_add(const ProductBlock& block);

}  // namespace fa4::emulator
