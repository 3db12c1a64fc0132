// SPDX-License-Identifier: BSD-3-Clause
// The product C (+)= A B over packed panels, once per target.
#include "cpu/kernels.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/multiply.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A register tile is kRowStep x 2 vectors of C, two of B and a broadcast element of A.
constexpr int64_t kRowStep = FA4_ROW_STEP;
constexpr int kDepthUnroll = FA4_DEPTH_UNROLL;  // a pragma takes no macro

/// kRows rows of one panel. Every element of C is one chain of multiply-adds in order of depth, so
/// that its bits do not depend on kRows.
template <int kRows, bool kUnitStride, class T>
HWY_INLINE void product_rows(const Product<T>& x, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                             T* HWY_RESTRICT c) {
  const hn::CappedTag<T, 16> d;
  const size_t lanes = hn::Lanes(d);
  const int64_t row_stride = x.a_row_stride, c_stride = x.c_stride, depth = x.depth;
  const int64_t col_stride = kUnitStride ? 1 : x.a_col_stride;
  const bool accumulate = x.accumulate;
  hn::Vec<decltype(d)> acc0[kRows], acc1[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) acc0[i] = acc1[i] = hn::Zero(d);
  if (accumulate) {
    // C is read at the end, all at once: in the backward it comes from the last-level cache.
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      hwy::Prefetch(c + i * c_stride);
      if (2 * lanes * sizeof(T) > 64) hwy::Prefetch(c + i * c_stride + lanes);
    }
  }
#pragma GCC unroll kDepthUnroll
  for (int64_t p = 0; p < depth; ++p) {
    const auto b0 = hn::Load(d, b);
    const auto b1 = hn::Load(d, b + lanes);
    b += 2 * lanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto element = hn::Set(d, a[i * row_stride]);
      acc0[i] = hn::MulAdd(element, b0, acc0[i]);
      acc1[i] = hn::MulAdd(element, b1, acc1[i]);
    }
    a += col_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* row = c + i * c_stride;
    if (accumulate) {
      acc0[i] = hn::Add(acc0[i], hn::LoadU(d, row));
      acc1[i] = hn::Add(acc1[i], hn::LoadU(d, row + lanes));
    }
    hn::StoreU(acc0[i], d, row);
    hn::StoreU(acc1[i], d, row + lanes);
  }
}

template <int kRows, bool kUnitStride, class T>
HWY_INLINE int64_t product_groups(const Product<T>& x, int64_t first, const T* b, T* c) {
  for (; first + kRows <= x.rows; first += kRows) {
    product_rows<kRows, kUnitStride>(x, x.a + first * x.a_row_stride, b, c + first * x.c_stride);
  }
  return first;
}

/// All rows of all panels. Panels outside, rows inside: the panel stays in the first-level cache.
template <bool kUnitStride, class T>
HWY_NOINLINE void product(const Product<T>& x) {
  const auto panel = 2 * static_cast<int64_t>(hn::Lanes(hn::CappedTag<T, 16>()));
  const T* b = x.b;
  T* c = x.c;
  for (int64_t col = 0; col < x.cols; col += panel, b += panel * x.panel_depth, c += panel) {
    int64_t row = product_groups<kRowStep, kUnitStride>(x, 0, b, c);
    if constexpr (kRowStep > 6) row = product_groups<6, kUnitStride>(x, row, b, c);
    row = product_groups<4, kUnitStride>(x, row, b, c);
    row = product_groups<2, kUnitStride>(x, row, b, c);
    product_groups<1, kUnitStride>(x, row, b, c);
  }
}

template <class T>
void multiply(const Product<T>& x) {
  if (x.a_col_stride == 1) return product<true>(x);
  product<false>(x);
}

template void multiply(const Product<float>& x);
template void multiply(const Product<double>& x);

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();
