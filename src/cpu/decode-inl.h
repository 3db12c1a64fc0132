// SPDX-License-Identifier: BSD-3-Clause
// Few query rows against keys and values where they lie; included once per target.
#include "hwy/highway.h"

#if defined(FA4_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_DECODE_INL_H_
#undef FA4_CPU_DECODE_INL_H_
#else
#define FA4_CPU_DECODE_INL_H_
#endif

#include "cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

template <class T>
void dot_rows(const DotRows<T>& x) {
  with_element_type(x.k.dtype, [&](auto* type) HWY_ATTR {
    const auto* k = static_cast<decltype(type)>(x.k.data);
    for (int64_t j = 0; j < x.keys; ++j) {
      for (int64_t r = 0; r < x.rows; ++r) {
        T sum = 0;
        for (int64_t c = 0; c < x.depth; ++c) {
          sum += x.q[r * x.q_stride + c] * to_number<T>(k[j * x.k.row_stride + c * x.k.col_stride]);
        }
        x.s[r * x.s_stride + j] = sum;
      }
    }
  });
}

template <class T>
void add_rows(const AddRows<T>& x) {
  with_element_type(x.v.dtype, [&](auto* type) HWY_ATTR {
    const auto* v = static_cast<decltype(type)>(x.v.data);
    for (int64_t j = 0; j < x.keys; ++j) {
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < x.cols; ++c) {
          x.out[r * x.out_stride + c] +=
              x.p[r * x.p_stride + j] * to_number<T>(v[j * x.v.row_stride + c * x.v.col_stride]);
        }
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
