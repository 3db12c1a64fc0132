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

// A block of sums in registers has many rows' 4 x 3 keys, or fewer rows x more keys.
constexpr int64_t kBlockRows = kManyDecodeRows;

/// Rows of a cache, one after another.
template <class S>
struct CacheRows {
  const S* data;
  int64_t stride;

  const S* row(int64_t i) const { return data + i * stride; }
};

/// Rows of q and of scores against the keys of one head; the other way round, of p and of out. Keys
/// are `step` apart in s and p.
template <class T>
struct Dots {
  const T* q;
  int64_t q_stride, rows, depth;
  T* s;
  int64_t s_stride, step;
};
template <class T>
struct Sums {
  const T* p;
  int64_t p_stride, step, rows, cols;
  T* out;
  int64_t out_stride;
};

// Columns are taken in pairs of vectors. With few rows, the first vector of a pair has the even
// elements of a bfloat16 cache and the second the odd ones, each an instruction away from what is
// loaded. Elsewhere columns keep their order.
template <bool kFew, class D, class S>
inline constexpr bool kPairsAreSplit = kFew&& HWY_TARGET !=
                                       HWY_SCALAR&& kIsSingle<D>&& hwy::IsSame<S, BFloat16>();

/// One vector, kSecond or not, of the pair at `src`.
template <bool kFew, bool kSecond, class D, class S>
HWY_INLINE hn::Vec<D> load_of_pair(D d, const S* src) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kPairsAreSplit<kFew, D, S>) {
    const hn::RebindToUnsigned<D> d32;
    const hn::Repartition<uint16_t, D> d16;
    const auto both = hn::BitCast(d32, hn::LoadU(d16, &src->bits));
    if constexpr (kSecond) return hn::BitCast(d, hn::And(both, hn::Set(d32, 0xFFFF0000u)));
    return hn::BitCast(d, hn::ShiftLeft<16>(both));
  }
#endif
  return load_converted(d, src + (kSecond ? hn::Lanes(d) : 0));
}

template <class T, class S>
HWY_NOINLINE void dot_tail(const Dots<T>& x, int64_t row, int64_t rows, CacheRows<S> keys,
                           int64_t count, int64_t column) {
  for (int64_t r = row; r < row + rows; ++r) {
    for (int64_t j = 0; j < count; ++j) {
      T total = x.s[r * x.s_stride + j * x.step];
      for (int64_t c = column; c < x.depth; ++c) {
        total += x.q[r * x.q_stride + c] * to_number<T>(keys.row(j)[c]);
      }
      x.s[r * x.s_stride + j * x.step] = total;
    }
  }
}

template <class T, class S>
HWY_NOINLINE void add_tail(const Sums<T>& x, int64_t row, int64_t rows, CacheRows<S> values,
                           int64_t count, int64_t column) {
  for (int64_t r = row; r < row + rows; ++r) {
    for (int64_t j = 0; j < count; ++j) {
      const T p = x.p[r * x.p_stride + j * x.step];
      for (int64_t c = column; c < x.cols; ++c) {
        x.out[r * x.out_stride + c] += p * to_number<T>(values.row(j)[c]);
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

/// sum[r][j] += the product of row r's columns at q and key j's that load(j) gives.
template <int kRows, int kKeys, class D, class V, class Load, class T = hn::TFromD<D>>
HWY_INLINE void dot_step(D d, const T* q, int64_t q_stride, const Load& load,
                         V (&sum)[kRows][kKeys]) {
  if constexpr (kRows <= 2) {  // keys come and go, so that sums keep their registers
    V element[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) element[r] = hn::LoadU(d, q + r * q_stride);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      const V key = load(j);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r][j] = hn::MulAdd(element[r], key, sum[r][j]);
    }
  } else {
    V key[kKeys];
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) key[j] = load(j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V element = hn::LoadU(d, q + r * q_stride);
#pragma GCC unroll 8
      for (int j = 0; j < kKeys; ++j) sum[r][j] = hn::MulAdd(element, key[j], sum[r][j]);
    }
  }
}

/// Dot products of kRows rows, from `row` on, with kKeys keys.
template <bool kFew, int kRows, int kKeys, class T, class S>
HWY_INLINE void run_block(const Dots<T>& x, int64_t row, CacheRows<S> keys) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* q = x.q + row * x.q_stride;
  V sum[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) sum[r][j] = hn::Zero(d);
  }
  int64_t c = 0;
  for (; c + 2 * lanes <= x.depth; c += 2 * lanes) {
    const auto first = [&](int j)
                           HWY_ATTR { return load_of_pair<kFew, false>(d, keys.row(j) + c); };
    const auto second = [&](int j)
                            HWY_ATTR { return load_of_pair<kFew, true>(d, keys.row(j) + c); };
    dot_step(d, q + c, x.q_stride, first, sum);
    dot_step(d, q + c + lanes, x.q_stride, second, sum);
  }
  if (c + lanes <= x.depth) {
    const auto load = [&](int j) HWY_ATTR { return load_converted(d, keys.row(j) + c); };
    dot_step(d, q + c, x.q_stride, load, sum);
    c += lanes;
  }
  const auto zero = hn::Zero(d);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    // In the same order, so that a score's bits do not tell its neighbours.
    T sums[(kKeys + 3) / 4 * 4];
#pragma GCC unroll 2
    for (int j = 0; j < kKeys; j += 4) {
      store_sums(d, sum[r][j], j + 1 < kKeys ? sum[r][j + 1] : zero,
                 j + 2 < kKeys ? sum[r][j + 2] : zero, j + 3 < kKeys ? sum[r][j + 3] : zero,
                 sums + j);
    }
    T* s = x.s + (row + r) * x.s_stride;
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) s[j * x.step] = sums[j];
  }
  if (c < x.depth) dot_tail(x, row, kRows, keys, kKeys, c);
}

/// out += p * the values that load(j) gives: one multiply-add a key, in their order.
template <int kRows, int kKeys, class D, class V, class Load, class T = hn::TFromD<D>>
HWY_INLINE void add_step(D d, T* out, int64_t out_stride, const Load& load,
                         const V (&p)[kRows][kKeys]) {
  if constexpr (kRows <= 2) {
    V sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::LoadU(d, out + r * out_stride);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      const V value = load(j);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(p[r][j], value, sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) hn::StoreU(sum[r], d, out + r * out_stride);
  } else {
    V value[kKeys];
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) value[j] = load(j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      V sum = hn::LoadU(d, out + r * out_stride);
#pragma GCC unroll 8
      for (int j = 0; j < kKeys; ++j) sum = hn::MulAdd(p[r][j], value[j], sum);
      hn::StoreU(sum, d, out + r * out_stride);
    }
  }
}

/// out += p * v for kRows rows, from `row` on, and kKeys keys.
template <bool kFew, int kRows, int kKeys, class T, class S>
HWY_INLINE void run_block(const Sums<T>& x, int64_t row, CacheRows<S> values) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // As far as the compiler can tell, storing to out might change x.
  const int64_t cols = x.cols, out_stride = x.out_stride;
  T* out = x.out + row * out_stride;
  V p[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      p[r][j] = hn::Set(d, x.p[(row + r) * x.p_stride + j * x.step]);
    }
  }
  int64_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
    const auto first = [&](int j)
                           HWY_ATTR { return load_of_pair<kFew, false>(d, values.row(j) + c); };
    const auto second = [&](int j)
                            HWY_ATTR { return load_of_pair<kFew, true>(d, values.row(j) + c); };
    add_step(d, out + c, out_stride, first, p);
    add_step(d, out + c + lanes, out_stride, second, p);
  }
  if (c + lanes <= cols) {
    const auto load = [&](int j) HWY_ATTR { return load_converted(d, values.row(j) + c); };
    add_step(d, out + c, out_stride, load, p);
    c += lanes;
  }
  if (c < cols) add_tail(x, row, kRows, values, kKeys, c);
}

/// Leaves `count` keys behind.
template <class T>
HWY_INLINE void pass_keys(Dots<T>& x, int64_t count) {
  x.s += count * x.step;
}
template <class T>
HWY_INLINE void pass_keys(Sums<T>& x, int64_t count) {
  x.p += count * x.step;
}

/// All rows of x, which are Dots or Sums, with kKeys keys.
template <bool kFew, int kKeys, class X, class S>
HWY_NOINLINE void run_all_rows(const X& x, CacheRows<S> keys) {
  int64_t row = 0;
  if constexpr (!kFew) {
    for (; row + kBlockRows <= x.rows; row += kBlockRows) {
      run_block<kFew, kBlockRows, kKeys>(x, row, keys);
    }
  }
  if constexpr (kKeys <= 4) {
    for (; row + 2 <= x.rows; row += 2) run_block<kFew, 2, kKeys>(x, row, keys);
  }
  for (; row < x.rows; ++row) run_block<kFew, 1, kKeys>(x, row, keys);
}

/// All rows of x with `count` keys, at most kMost (3, 4 or 8) at a time.
template <int kMost, class X, class S>
HWY_INLINE void run_keys(X x, CacheRows<S> keys, int64_t count) {
  constexpr bool kFew = kMost > 3;
  while (count > 0) {
    int64_t done = kMost;
    if (count >= kMost) {
      run_all_rows<kFew, kMost>(x, keys);
    } else if (kMost > 4 && count >= 4) {
      run_all_rows<kFew, kFew ? 4 : 1>(x, keys);
      done = 4;
    } else if (count >= 2) {
      run_all_rows<kFew, 2>(x, keys);
      done = 2;
    } else {
      run_all_rows<kFew, 1>(x, keys);
      done = 1;
    }
    pass_keys(x, done);
    keys.data += done * keys.stride;
    count -= done;
  }
}

// Instances cost minutes of compiling, so only those are made whose speed somebody waits for.
// Caches of 16 bits are read in place where converting a vector of them takes an instruction or
// two; float64, which is for checking gradients, and processors without vectors have one shape of
// block.
template <class T, class S>
inline constexpr bool kReadsInPlace = kIsPlain<hn::ScalableTag<T>, S> ||
                                      (HWY_TARGET != HWY_SCALAR &&
                                       kLoadsFast<hn::ScalableTag<T>, S> &&
                                       (FA4_HALF_INSTRUCTIONS || hwy::IsSame<S, BFloat16>()));
template <class T>
inline constexpr bool kManyShapes = HWY_TARGET != HWY_SCALAR && sizeof(T) == sizeof(float);

/// Some keys of one head. Cache rows that are not contiguous, or of a type that takes long to
/// convert, are converted to T first.
template <class T, int kMost, class X, class S>
HWY_INLINE void run_turn(const X& x, CacheRows<S> keys, int64_t col_stride, int64_t count,
                         int64_t width) {
  if constexpr (kReadsInPlace<T, S>) {
    if (col_stride == 1) return run_keys<kMost>(x, keys, count);
  }
  HWY_ALIGN T buffer[kMost * kMaxHeadDim];
  X rest = x;
  for (int64_t i = 0; i < count; i += kMost) {
    const int64_t now = HWY_MIN(count - i, kMost);
    load_rows_from(keys.row(i), keys.stride, col_stride, now, width, T{1}, buffer, kMaxHeadDim);
    run_keys<kMost>(rest, CacheRows<T>{buffer, kMaxHeadDim}, now);
    pass_keys(rest, now);
  }
}

/// Calls run(head, key, count): heads take the keys `key`, `key + step`, ... in turns.
template <class Run>
HWY_INLINE void in_turns(const CacheBlock& block, int64_t step, const Run& run) {
  for (int64_t key = 0; key < HWY_MIN(step, block.keys); ++key) {
    const int64_t count = (block.keys - key + step - 1) / step;
    for (int64_t head = 0; head < block.heads; ++head) run(head, key, count);
  }
}

template <int kMost, class T, class S>
HWY_NOINLINE void dot_streams(const DotRows<T>& x, const S* k) {
  const int64_t step = decode_stream_step(x.rows, x.k.keys, false), stride = x.k.first.row_stride;
  in_turns(x.k, step, [&](int64_t head, int64_t key, int64_t count) HWY_ATTR {
    const int64_t row = head * x.rows;
    const Dots<T> dots{x.q + row * x.q_stride,       x.q_stride, x.rows, x.depth,
                       x.s + row * x.s_stride + key, x.s_stride, step};
    const CacheRows<S> keys{k + head * x.k.head_stride + key * stride, step * stride};
    run_turn<T, kMost>(dots, keys, x.k.first.col_stride, count, x.depth);
  });
}

template <int kMost, class T, class S>
HWY_NOINLINE void add_streams(const AddRows<T>& x, const S* v) {
  const int64_t step = decode_stream_step(x.rows, x.v.keys, false), stride = x.v.first.row_stride;
  in_turns(x.v, step, [&](int64_t head, int64_t key, int64_t count) HWY_ATTR {
    const int64_t row = head * x.rows;
    const Sums<T> sums{x.p + row * x.p_stride + key * x.p_step,
                       x.p_stride,
                       step * x.p_step,
                       x.rows,
                       x.cols,
                       x.out + row * x.out_stride,
                       x.out_stride};
    const CacheRows<S> values{v + head * x.v.head_stride + key * stride, step * stride};
    run_turn<T, kMost>(sums, values, x.v.first.col_stride, count, x.cols);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
