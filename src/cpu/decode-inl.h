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
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

// Keys that go through the loops together, and rows that share each load of them.
constexpr int64_t kDecodeKeys = 4;
constexpr int64_t kDecodePair = 2;
constexpr int64_t kPrefetchBytes = 3072;  // how far ahead the cache's rows are asked for

/// Rows of a cache, one after another: k or v from some key on.
template <class S>
struct CacheRows {
  const S* data;
  int64_t stride;
};

/// Asks for the bytes of `count` rows that will be read soon.
template <class S>
HWY_INLINE void prefetch_rows(CacheRows<S> rows, int64_t first, int64_t count, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(S);
  for (int64_t j = first; j < first + count; ++j) {
    for (int64_t c = 0; c < width; c += kLine) hwy::Prefetch(rows.data + j * rows.stride + c);
  }
}

/// What the vectors of a block leave over: columns from `column` on.
struct Tail {
  int64_t row, rows, key, keys, column;
};

template <class T, class S>
HWY_NOINLINE void dot_tail(const DotRows<T>& x, const Tail& t, CacheRows<S> keys) {
  for (int64_t r = t.row; r < t.row + t.rows; ++r) {
    for (int64_t j = 0; j < t.keys; ++j) {
      T total = x.s[r * x.s_stride + t.key + j];
      for (int64_t c = t.column; c < x.depth; ++c) {
        total += x.q[r * x.q_stride + c] * to_number<T>(keys.data[j * keys.stride + c]);
      }
      x.s[r * x.s_stride + t.key + j] = total;
    }
  }
}

template <class T, class S>
HWY_NOINLINE void add_tail(const AddRows<T>& x, const Tail& t, CacheRows<S> values) {
  for (int64_t r = t.row; r < t.row + t.rows; ++r) {
    for (int64_t j = 0; j < t.keys; ++j) {
      const T p = x.p[r * x.p_stride + t.key + j];
      for (int64_t c = t.column; c < x.cols; ++c) {
        x.out[r * x.out_stride + c] += p * to_number<T>(values.data[j * values.stride + c]);
      }
    }
  }
}

/// Sums of the lanes of four vectors, stored one after another: three additions for all four.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_sums(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3, T* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kIsSingle<D>) {
    const hn::RepartitionToWide<hn::RebindToUnsigned<D>> d64;
    const auto v01 = hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
    const auto v23 = hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
    const auto a = hn::BitCast(d64, v01), b = hn::BitCast(d64, v23);
    const auto sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, a, b)),
                              hn::BitCast(d, hn::InterleaveUpper(d64, a, b)));
    HWY_ALIGN T blocks[hn::MaxLanes(D())];  // lane i of each 16 bytes belongs to v[i]
    hn::Store(sums, d, blocks);
    const hn::CappedTag<T, 4> d4;
    auto total = hn::Load(d4, blocks);
    for (size_t i = 4; i < hn::Lanes(d); i += 4) total = hn::Add(total, hn::Load(d4, blocks + i));
    return hn::StoreU(total, d4, to);
  }
#endif
  to[0] = hn::GetLane(hn::SumOfLanes(d, v0));
  to[1] = hn::GetLane(hn::SumOfLanes(d, v1));
  to[2] = hn::GetLane(hn::SumOfLanes(d, v2));
  to[3] = hn::GetLane(hn::SumOfLanes(d, v3));
}

/// Dot products of kRows rows with kKeys keys.
template <int kRows, int kKeys, class T, class S>
HWY_INLINE void dot_block(const DotRows<T>& x, int64_t row, int64_t key, CacheRows<S> keys) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* q = x.q + row * x.q_stride;
  hn::Vec<decltype(d)> sum[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) sum[r][j] = hn::Zero(d);
  }
  int64_t c = 0;
  for (; c + lanes <= x.depth; c += lanes) {
    hn::Vec<decltype(d)> k[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) k[j] = load_converted(d, keys.data + j * keys.stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto element = hn::LoadU(d, q + r * x.q_stride + c);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[r][j] = hn::MulAdd(element, k[j], sum[r][j]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    T* s = x.s + (row + r) * x.s_stride + key;
    if constexpr (kKeys == 4) {
      store_sums(d, sum[r][0], sum[r][1], sum[r][2], sum[r][3], s);
    } else {  // in the same order, so that a score's bits do not tell its neighbours
      T sums[4];
      const auto zero = hn::Zero(d);
      store_sums(d, sum[r][0], zero, zero, zero, sums);
      s[0] = sums[0];
    }
  }
  if (c < x.depth) dot_tail(x, {row, kRows, key, kKeys, c}, keys);
}

template <int kKeys, class T, class S>
HWY_NOINLINE void dot_all_rows(const DotRows<T>& x, int64_t key, CacheRows<S> keys) {
  int64_t row = 0;
  for (; row + kDecodePair <= x.rows; row += kDecodePair) {
    dot_block<kDecodePair, kKeys>(x, row, key, keys);
  }
  if (row < x.rows) dot_block<1, kKeys>(x, row, key, keys);
}

/// out += p * v for kRows rows and kKeys keys: one multiply-add a key, in their order.
template <int kRows, int kKeys, class T, class S>
HWY_INLINE void add_block(const AddRows<T>& x, int64_t row, int64_t key, CacheRows<S> values) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T* out = x.out + row * x.out_stride;
  hn::Vec<decltype(d)> p[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) p[r][j] = hn::Set(d, x.p[(row + r) * x.p_stride + key + j]);
  }
  int64_t c = 0;
  for (; c + lanes <= x.cols; c += lanes) {
    hn::Vec<decltype(d)> v[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) v[j] = load_converted(d, values.data + j * values.stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      auto sum = hn::LoadU(d, out + r * x.out_stride + c);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum = hn::MulAdd(p[r][j], v[j], sum);
      hn::StoreU(sum, d, out + r * x.out_stride + c);
    }
  }
  if (c < x.cols) add_tail(x, {row, kRows, key, kKeys, c}, values);
}

template <int kKeys, class T, class S>
HWY_NOINLINE void add_all_rows(const AddRows<T>& x, int64_t key, CacheRows<S> values) {
  int64_t row = 0;
  for (; row + kDecodePair <= x.rows; row += kDecodePair) {
    add_block<kDecodePair, kKeys>(x, row, key, values);
  }
  if (row < x.rows) add_block<1, kKeys>(x, row, key, values);
}

/// Calls block(count, key, rows) for kDecodeKeys keys at a time, then one by one. Rows that are not
/// contiguous, or that many query rows would convert again and again, are converted to T first.
template <class T, class S, class Block>
HWY_INLINE void for_each_keys(const S* data, const Matrix& m, int64_t keys, int64_t width,
                              int64_t rows, const Block& block) {
  HWY_ALIGN T buffer[kDecodeKeys * kMaxHeadDim];
  constexpr bool kFast = kLoadsFast<hn::ScalableTag<T>, S>;
  const bool direct = kFast && m.col_stride == 1 && (hwy::IsSame<S, T>() || rows <= kDecodePair);
  const int64_t ahead = kPrefetchBytes / (width * static_cast<int64_t>(sizeof(S))) + 1;
  for (int64_t key = 0; key < keys;) {
    const CacheRows<S> from{data + key * m.row_stride, m.row_stride};
    const int64_t count = keys - key >= kDecodeKeys ? kDecodeKeys : 1;
    if (m.col_stride == 1) prefetch_rows(from, ahead, count, width);
    if constexpr (kFast) {
      if (direct) block(count, key, from);
    }
    if (!direct) {
      load_rows_from(from.data, m.row_stride, m.col_stride, count, width, T{1}, buffer,
                     kMaxHeadDim);
      block(count, key, CacheRows<T>{buffer, kMaxHeadDim});
    }
    key += count;
  }
}

template <class T>
void dot_rows(const DotRows<T>& x) {
  with_element_type(x.k.dtype, [&](auto* type) HWY_ATTR {
    for_each_keys<T>(static_cast<decltype(type)>(x.k.data), x.k, x.keys, x.depth, x.rows,
                     [&](int64_t count, int64_t key, auto keys) HWY_ATTR {
                       if (count == kDecodeKeys) return dot_all_rows<kDecodeKeys>(x, key, keys);
                       dot_all_rows<1>(x, key, keys);
                     });
  });
}

template <class T>
void add_rows(const AddRows<T>& x) {
  with_element_type(x.v.dtype, [&](auto* type) HWY_ATTR {
    for_each_keys<T>(static_cast<decltype(type)>(x.v.data), x.v, x.keys, x.cols, x.rows,
                     [&](int64_t count, int64_t key, auto values) HWY_ATTR {
                       if (count == kDecodeKeys) return add_all_rows<kDecodeKeys>(x, key, values);
                       add_all_rows<1>(x, key, values);
                     });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
