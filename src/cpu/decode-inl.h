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

// A block of sums in registers has 4 rows x 3 keys, or fewer rows x 4 keys: neighbouring keys may
// lie a power of two apart, in the same few sets of the first-level cache, so that more would not
// stay.
constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockKeys = 3;
constexpr int64_t kKeysOfFewRows = 4;
constexpr int64_t kPrefetchBytes = 2048;  // how far ahead the cache's rows are asked for

/// Rows of a cache, one after another: k or v from some key on.
template <class S>
struct CacheRows {
  const S* data;
  int64_t stride;
};

/// Asks for what column `column` of kCount rows begins, if that is a line. Blocks do so on their
/// way: many requests at once would have to wait for one another.
template <int kCount, class S>
HWY_INLINE void ask_for(CacheRows<S> rows, int64_t column) {
  if (kCount == 0 || column * sizeof(S) % 64 != 0) return;
#pragma GCC unroll 4
  for (int j = 0; j < kCount; ++j) hwy::Prefetch(rows.data + j * rows.stride + column);
}

/// What the vectors of a block leave over: columns from `column` on.
struct Tail {
  int64_t row, rows, key, keys, column;
};

template <class T, class S>
HWY_NOINLINE void dot_tail(const DotRows<T>& x, const Tail& t, CacheRows<S> keys) {
  for (int64_t r = t.row; r < t.row + t.rows; ++r) {
    for (int64_t j = 0; j < t.keys; ++j) {
      T& score = x.s[r * x.s_stride + (t.key + j) * x.s_step];
      T total = score;
      for (int64_t c = t.column; c < x.depth; ++c) {
        total += x.q[r * x.q_stride + c] * to_number<T>(keys.data[j * keys.stride + c]);
      }
      score = total;
    }
  }
}

template <class T, class S>
HWY_NOINLINE void add_tail(const AddRows<T>& x, const Tail& t, CacheRows<S> values) {
  for (int64_t r = t.row; r < t.row + t.rows; ++r) {
    for (int64_t j = 0; j < t.keys; ++j) {
      const T p = x.p[r * x.p_stride + (t.key + j) * x.p_step];
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
template <int kRows, int kKeys, int kAsk, class T, class S, class A>
HWY_INLINE void dot_block(const DotRows<T>& x, int64_t row, int64_t key, CacheRows<S> keys,
                          CacheRows<A> ahead) {
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
#pragma GCC unroll 2
  for (; c + lanes <= x.depth; c += lanes) {
    hn::Vec<decltype(d)> k[kKeys];
    ask_for<kAsk>(ahead, c);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) k[j] = load_converted(d, keys.data + j * keys.stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto element = hn::LoadU(d, q + r * x.q_stride + c);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[r][j] = hn::MulAdd(element, k[j], sum[r][j]);
    }
  }
  const auto zero = hn::Zero(d);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    // In the same order, so that a score's bits do not tell its neighbours.
    T sums[4];
    if constexpr (kKeys == 4) {
      store_sums(d, sum[r][0], sum[r][1], sum[r][2], sum[r][3], sums);
    } else if constexpr (kKeys == 3) {
      store_sums(d, sum[r][0], sum[r][1], sum[r][2], zero, sums);
    } else {
      store_sums(d, sum[r][0], zero, zero, zero, sums);
    }
    T* s = x.s + (row + r) * x.s_stride + key * x.s_step;
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) s[j * x.s_step] = sums[j];
  }
  if (c < x.depth) dot_tail(x, {row, kRows, key, kKeys, c}, keys);
}

/// out += p * v for kRows rows and kKeys keys: one multiply-add a key, in their order.
template <int kRows, int kKeys, int kAsk, class T, class S, class A>
HWY_INLINE void add_block(const AddRows<T>& x, int64_t row, int64_t key, CacheRows<S> values,
                          CacheRows<A> ahead) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // As far as the compiler can tell, storing to out might change x.
  const int64_t cols = x.cols, out_stride = x.out_stride;
  T* out = x.out + row * out_stride;
  hn::Vec<decltype(d)> p[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j)
      p[r][j] = hn::Set(d, x.p[(row + r) * x.p_stride + (key + j) * x.p_step]);
  }
  int64_t c = 0;
#pragma GCC unroll 2
  for (; c + lanes <= cols; c += lanes) {
    hn::Vec<decltype(d)> v[kKeys];
    ask_for<kAsk>(ahead, c);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) v[j] = load_converted(d, values.data + j * values.stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      auto sum = hn::LoadU(d, out + r * out_stride + c);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum = hn::MulAdd(p[r][j], v[j], sum);
      hn::StoreU(sum, d, out + r * out_stride + c);
    }
  }
  if (c < cols) add_tail(x, {row, kRows, key, kKeys, c}, values);
}

template <int kRows, int kKeys, int kAsk, class T, class S, class A>
HWY_INLINE void run_block(const DotRows<T>& x, int64_t row, int64_t key, CacheRows<S> keys,
                          CacheRows<A> ahead) {
  dot_block<kRows, kKeys, kAsk>(x, row, key, keys, ahead);
}
template <int kRows, int kKeys, int kAsk, class T, class S, class A>
HWY_INLINE void run_block(const AddRows<T>& x, int64_t row, int64_t key, CacheRows<S> values,
                          CacheRows<A> ahead) {
  add_block<kRows, kKeys, kAsk>(x, row, key, values, ahead);
}

/// All rows of x, a DotRows or AddRows, with kKeys keys. Meanwhile as many are asked for.
template <int kKeys, class X, class S, class A>
HWY_NOINLINE void run_all_rows(const X& x, int64_t key, CacheRows<S> keys, CacheRows<A> ahead) {
  int64_t row = 0;
  if constexpr (kKeys <= kBlockKeys) {
    if (x.rows >= 2 * kBlockRows) {  // the first two blocks share
      constexpr int kHalf = (kKeys + 1) / 2;
      run_block<kBlockRows, kKeys, kHalf>(x, 0, key, keys, ahead);
      ahead.data += kHalf * ahead.stride;
      run_block<kBlockRows, kKeys, kKeys - kHalf>(x, kBlockRows, key, keys, ahead);
      row = 2 * kBlockRows;
    } else if (x.rows >= kBlockRows) {
      run_block<kBlockRows, kKeys, kKeys>(x, 0, key, keys, ahead);
      row = kBlockRows;
    }
    for (; row + kBlockRows <= x.rows; row += kBlockRows) {
      run_block<kBlockRows, kKeys, 0>(x, row, key, keys, ahead);
    }
    if (row > 0) {
      for (; row < x.rows; ++row) run_block<1, kKeys, 0>(x, row, key, keys, ahead);
      return;
    }
  }
  if (x.rows == 3) run_block<3, kKeys, kKeys>(x, 0, key, keys, ahead);
  if (x.rows == 2) run_block<2, kKeys, kKeys>(x, 0, key, keys, ahead);
  if (x.rows == 1) run_block<1, kKeys, kKeys>(x, 0, key, keys, ahead);
}

/// All rows of x with `keys` rows of the cache `m`, from `data` on. Cache rows that are not
/// contiguous, or of a type that takes long to convert, are converted to T first.
template <class T, class X, class S>
HWY_INLINE void run_all_keys(const X& x, const S* data, const Matrix& m, int64_t width) {
  HWY_ALIGN T buffer[kKeysOfFewRows * kMaxHeadDim];
  constexpr bool kFast = kLoadsFast<hn::ScalableTag<T>, S>;
  const bool direct = kFast && m.col_stride == 1;
  const int64_t most = x.rows >= kBlockRows ? kBlockKeys : kKeysOfFewRows;
  const int64_t distance = kPrefetchBytes / (width * static_cast<int64_t>(sizeof(S))) + 1;
  for (int64_t key = 0; key < x.keys;) {
    const CacheRows<S> from{data + key * m.row_stride, m.row_stride};
    const int64_t count = x.keys - key >= most ? most : 1;
    const CacheRows<S> ahead{from.data + distance * m.row_stride, m.row_stride};
    const auto run = [&](auto rows) HWY_ATTR {
      if (count == kKeysOfFewRows) return run_all_rows<kKeysOfFewRows>(x, key, rows, ahead);
      if (count == kBlockKeys) return run_all_rows<kBlockKeys>(x, key, rows, ahead);
      run_all_rows<1>(x, key, rows, ahead);
    };
    if constexpr (kFast) {
      if (direct) run(from);
    }
    if (!direct) {
      load_rows_from(from.data, m.row_stride, m.col_stride, count, width, T{1}, buffer,
                     kMaxHeadDim);
      run(CacheRows<T>{buffer, kMaxHeadDim});
    }
    key += count;
  }
}

template <class T>
void dot_rows(const DotRows<T>& x) {
  with_element_type(x.k.dtype, [&](auto* type) HWY_ATTR {
    run_all_keys<T>(x, static_cast<decltype(type)>(x.k.data), x.k, x.depth);
  });
}

template <class T>
void add_rows(const AddRows<T>& x) {
  with_element_type(x.v.dtype, [&](auto* type) HWY_ATTR {
    run_all_keys<T>(x, static_cast<decltype(type)>(x.v.data), x.v, x.cols);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
