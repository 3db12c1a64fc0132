// SPDX-License-Identifier: BSD-3-Clause
// Input elements to arithmetic ones and back: load_rows, store_rows, pack; included once per
// target.
#include "hwy/highway.h"

#if defined(FA4_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_CONVERT_INL_H_
#undef FA4_CPU_CONVERT_INL_H_
#else
#define FA4_CPU_CONVERT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

// Highway 1.0.3 converts half precision right where there are instructions for it (F16C, NEON);
// elsewhere it loses infinities and rounds differently.
#undef FA4_HALF_INSTRUCTIONS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define FA4_HALF_INSTRUCTIONS 1
#else
#define FA4_HALF_INSTRUCTIONS 0
#endif

template <class D>
inline constexpr bool kIsSingle = sizeof(hn::TFromD<D>) == 4;

// One element, any type to any type.
template <class T>
HWY_INLINE T to_number(float x) {
  return static_cast<T>(x);
}
template <class T>
HWY_INLINE T to_number(double x) {
  return static_cast<T>(x);
}
template <class T>
HWY_INLINE T to_number(BFloat16 x) {
  return static_cast<T>(to_float(x));
}
template <class T>
HWY_INLINE T to_number(Float16 x) {
  return static_cast<T>(to_float(x));
}
template <class T>
HWY_INLINE void from_number(T x, float& y) {
  y = static_cast<float>(x);
}
template <class T>
HWY_INLINE void from_number(T x, double& y) {
  y = static_cast<double>(x);
}
template <class T>
HWY_INLINE void from_number(T x, BFloat16& y) {
  y = to_bfloat16(static_cast<float>(x));
}
template <class T>
HWY_INLINE void from_number(T x, Float16& y) {
  y = to_float16(static_cast<float>(x));
}

// A vector of neighbours, for those pairs of types that attention is busy with. Others (a float64
// bias of float32 attention) go one by one.
template <class D, class S>
inline constexpr bool kIsPlain = hwy::IsSame<hn::TFromD<D>, S>();
template <class D, class S>
inline constexpr bool kLoadsFast = kIsPlain<D, S> || (kIsSingle<D> && sizeof(S) == 2);
template <class D, class S>
inline constexpr bool kStoresFast = kIsPlain<D, S> ||
                                    (kIsSingle<D> &&
                                     (hwy::IsSame<S, BFloat16>() ||
                                      (FA4_HALF_INSTRUCTIONS && hwy::IsSame<S, Float16>())));

template <class D>
HWY_INLINE hn::Vec<D> load_converted(D d, const hn::TFromD<D>* src) {
  return hn::LoadU(d, src);
}
template <class D>
requires kIsSingle<D> HWY_INLINE hn::Vec<D> load_converted(D d, const BFloat16* src) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, &src->bits));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}
template <class D>
requires kIsSingle<D> HWY_INLINE hn::Vec<D> load_converted(D d, const Float16* src) {
#if FA4_HALF_INSTRUCTIONS
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(src)));
#else
  // Multiplying by 2^112 moves the exponent from half's bias to float's, subnormals included.
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, &src->bits));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d32, 0x7FFFu)));
  const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  const auto special = hn::BitCast(d, hn::Or(magnitude, hn::Set(d32, 0x7F800000u)));
  const auto is_special = hn::Ge(scaled, hn::Set(d, 65536.0f));
  return hn::Or(hn::IfThenElse(is_special, special, scaled), hn::BitCast(d, sign));
#endif
}

template <class D>
HWY_INLINE void store_converted(D d, hn::Vec<D> x, hn::TFromD<D>* dst) {
  hn::StoreU(x, d, dst);
}
template <class D>
requires kIsSingle<D> HWY_INLINE void store_converted(D, hn::Vec<D> x, BFloat16* dst) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(d32, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto nearest = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFFu)), odd));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto nan = hn::RebindMask(d32, hn::Ne(x, x));
  const auto chosen = hn::BitCast(di, hn::IfThenElse(nan, quiet, nearest));
  hn::StoreU(hn::DemoteTo(d16, chosen), d16, &dst->bits);  // saturates from int32: fits 16 bits
}
#if FA4_HALF_INSTRUCTIONS
template <class D>
requires kIsSingle<D> HWY_INLINE void store_converted(D d, hn::Vec<D> x, Float16* dst) {
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, x), d16, reinterpret_cast<hwy::float16_t*>(dst));
}
#endif

/// Calls f with a null pointer of the element type that `dtype` names.
template <class F>
HWY_INLINE void with_element_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(static_cast<float*>(nullptr));
    case DType::kFloat64:
      return f(static_cast<double*>(nullptr));
    case DType::kBFloat16:
      return f(static_cast<BFloat16*>(nullptr));
    case DType::kFloat16:
      return f(static_cast<Float16*>(nullptr));
    default:
      return;  // validation lets no other type come here
  }
}

template <class T, class S>
HWY_NOINLINE void load_rows_from(const S* src, int64_t row_stride, int64_t col_stride, int64_t rows,
                                 int64_t cols, T factor, T* HWY_RESTRICT dst, int64_t dst_stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r) {
    const S* from = src + r * row_stride;
    T* to = dst + r * dst_stride;
    int64_t c = 0;
    if constexpr (kLoadsFast<decltype(d), S>) {
      for (; col_stride == 1 && c + lanes <= cols; c += lanes) {
        hn::StoreU(hn::Mul(load_converted(d, from + c), scale), d, to + c);
      }
    }
    for (; c < cols; ++c) to[c] = to_number<T>(from[c * col_stride]) * factor;
  }
}

template <class T>
void load_rows(Matrix src, int64_t rows, int64_t cols, T factor, T* dst, int64_t dst_stride) {
  with_element_type(src.dtype, [&](auto* type) HWY_ATTR {
    load_rows_from(static_cast<decltype(type)>(src.data), src.row_stride, src.col_stride, rows,
                   cols, factor, dst, dst_stride);
  });
}

template <class T, class S>
HWY_NOINLINE void store_rows_to(const T* HWY_RESTRICT src, int64_t src_stride, int64_t rows,
                                int64_t cols, T factor, S* dst, int64_t row_stride,
                                int64_t col_stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = src + r * src_stride;
    S* to = dst + r * row_stride;
    int64_t c = 0;
    if constexpr (kStoresFast<decltype(d), S>) {
      for (; col_stride == 1 && c + lanes <= cols; c += lanes) {
        store_converted(d, hn::Mul(hn::LoadU(d, from + c), scale), to + c);
      }
    }
    for (; c < cols; ++c) from_number(from[c] * factor, to[c * col_stride]);
  }
}

template <class T>
void store_rows(const T* src, int64_t src_stride, int64_t rows, int64_t cols, T factor,
                Matrix dst) {
  with_element_type(dst.dtype, [&](auto* type) HWY_ATTR {
    store_rows_to(src, src_stride, rows, cols, factor, static_cast<decltype(type)>(dst.data),
                  dst.row_stride, dst.col_stride);
  });
}

#if HWY_TARGET != HWY_SCALAR
// Transposing in registers: lane l of the vector that load_column_blocks() makes from row 0 of a
// block is element l % kBlock of row l / kBlock * kBlock, kBlock lanes making 16 bytes.
// Interleaving kBlock such vectors within their 16-byte blocks turns them into columns.
template <class D, class S>
requires(hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) <=
         16) HWY_INLINE hn::Vec<D> load_column_blocks(D d, const S* src, int64_t /*stride*/) {
  return load_converted(d, src);
}
#if HWY_MAX_BYTES > 16
template <class D, class S>
requires(hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >
         16) HWY_INLINE hn::Vec<D> load_column_blocks(D d, const S* src, int64_t stride) {
  const hn::Half<D> half;
  constexpr int64_t kRows = hn::MaxLanes(half);
  return hn::Combine(d, load_column_blocks(half, src + kRows * stride, stride),
                     load_column_blocks(half, src, stride));
}
#endif

/// Stores kBlock rows of Lanes(d) columns of the panel at `dst` (row stride `panel`), from the
/// Lanes(d) source rows at `src` whose elements [0, kBlock) become the panel's rows.
template <class D, class S>
requires kIsSingle<D> HWY_INLINE void transpose_block(D d, const S* src, int64_t stride, float* dst,
                                                      int64_t panel) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> d64;
  const auto r0 = load_column_blocks(d, src, stride);
  const auto r1 = load_column_blocks(d, src + stride, stride);
  const auto r2 = load_column_blocks(d, src + 2 * stride, stride);
  const auto r3 = load_column_blocks(d, src + 3 * stride, stride);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, dst + panel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, dst + 2 * panel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, dst + 3 * panel);
}
template <class D, class S>
requires(!kIsSingle<D>) HWY_INLINE
    void transpose_block(D d, const S* src, int64_t stride, double* dst, int64_t panel) {
  const auto r0 = load_column_blocks(d, src, stride);
  const auto r1 = load_column_blocks(d, src + stride, stride);
  hn::StoreU(hn::InterleaveLower(d, r0, r1), d, dst);
  hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, dst + panel);
}

#endif  // HWY_TARGET != HWY_SCALAR

/// A panel from rows that lie along the depth: K as the right side of Q K^T.
template <class D, class S, class T = hn::TFromD<D>>
HWY_INLINE void pack_transposed(D d, const S* src, int64_t stride, int64_t depth, T* dst,
                                int64_t panel) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < panel; c += lanes) {
    const S* rows = src + c * stride;
    int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
    constexpr int64_t kBlock = 16 / sizeof(T);
    for (; p + kBlock <= depth; p += kBlock) {
      transpose_block(d, rows + p, stride, dst + p * panel + c, panel);
    }
#endif
    for (; p < depth; ++p) {
      for (int64_t j = 0; j < lanes; ++j)
        dst[p * panel + c + j] = to_number<T>(rows[j * stride + p]);
    }
  }
}

template <class D, class S, class T = hn::TFromD<D>>
HWY_INLINE void pack_straight(D d, const S* src, int64_t stride, int64_t depth, T* dst,
                              int64_t panel) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t c = 0; c < panel; c += lanes) {
      hn::StoreU(load_converted(d, src + p * stride + c), d, dst + p * panel + c);
    }
  }
}

/// A panel from any matrix, and those that have less columns than a panel: zeros fill it.
template <class T, class S>
HWY_INLINE void pack_elements(const S* src, int64_t row_stride, int64_t col_stride, int64_t depth,
                              int64_t cols, T* dst, int64_t panel) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t c = 0; c < panel; ++c) {
      const bool inside = c < cols;
      dst[p * panel + c] = inside ? to_number<T>(src[p * row_stride + c * col_stride]) : T{0};
    }
  }
}

/// One panel of at most `panel` columns.
template <class T, class S>
HWY_INLINE void pack_panel(const S* src, int64_t row_stride, int64_t col_stride, int64_t depth,
                           int64_t cols, T* dst) {
  const hn::CappedTag<T, 16> d;
  const auto panel = 2 * static_cast<int64_t>(hn::Lanes(d));
  if constexpr (kLoadsFast<decltype(d), S>) {
    if (cols == panel && row_stride == 1) {
      return pack_transposed(d, src, col_stride, depth, dst, panel);
    }
    if (cols == panel && col_stride == 1) {
      return pack_straight(d, src, row_stride, depth, dst, panel);
    }
  }
  pack_elements(src, row_stride, col_stride, depth, cols, dst, panel);
}

template <class T, class S>
HWY_NOINLINE void pack_from(const S* src, int64_t row_stride, int64_t col_stride, int64_t depth,
                            int64_t cols, int64_t panel_depth, T* HWY_RESTRICT dst) {
  const auto panel = 2 * static_cast<int64_t>(hn::Lanes(hn::CappedTag<T, 16>()));
  for (int64_t first = 0; first < cols; first += panel, dst += panel * panel_depth) {
    const int64_t width = HWY_MIN(panel, cols - first);
    const S* from = src + first * col_stride;
    pack_panel(from, row_stride, col_stride, depth, width, dst);
    for (int64_t i = depth * panel; i < panel_depth * panel; ++i) dst[i] = 0;
  }
}

template <class T>
void pack(Matrix src, int64_t depth, int64_t cols, int64_t panel_depth, T* dst) {
  with_element_type(src.dtype, [&](auto* type) HWY_ATTR {
    pack_from(static_cast<decltype(type)>(src.data), src.row_stride, src.col_stride, depth, cols,
              panel_depth, dst);
  });
}

template <class T>
bool all_finite(const T* values, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);  // 0 * x is 0 for finite x, else NaN
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, values + i), hn::Zero(d), sum);
  }
  T tail = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) tail += values[i] * T{0};
  return tail == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
