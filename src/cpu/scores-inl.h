// SPDX-License-Identifier: BSD-3-Clause
// Rows of scores: modifiers, softmax, probabilities; included once per target.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if defined(FA4_CPU_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_SCORES_INL_H_
#undef FA4_CPU_SCORES_INL_H_
#else
#define FA4_CPU_SCORES_INL_H_
#endif

#include "cpu/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

template <class T>
constexpr T kLog2E = T(1.442695040888963407359924681001892137L);
template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

/// The maximum may move by this many units of log2 before the row is rescaled: exp2(8) is far from
/// overflow, and rescaling becomes rare.
constexpr double kRescaleThreshold = 8;

inline int64_t round_down(int64_t x, int64_t step) { return x / step * step; }
inline int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

template <class D>
HWY_INLINE hn::Vec<D> tanh_or_nan(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Tanh(d, x), x);  // Highway's clamps lose NaN
}

/// 1 - tanh(x)^2 = 4 e / (1 + e)^2 with e = exp(-2 |x|), which loses nothing where tanh is close
/// to 1.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> tanh_slope(D d, hn::Vec<D> x) {
  const auto e = exp2<false>(d, hn::Mul(hn::Abs(x), hn::Set(d, -2 * kLog2E<T>)));
  const auto sum = hn::Add(e, hn::Set(d, T{1}));
  return hn::Div(hn::Mul(e, hn::Set(d, T{4})), hn::Mul(sum, sum));
}

template <class T>
HWY_NOINLINE void soften(const ScoreRow<T>& row) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto cap = hn::Set(d, row.softcap);
  const auto into = hn::Set(d, row.scale / row.softcap);
  HWY_ALIGN T buffer[2 * hn::MaxLanes(hn::ScalableTag<T>())] = {};
  for (int64_t c = row.columns.begin; c < row.columns.end; c += lanes) {
    const int64_t count = HWY_MIN(lanes, row.columns.end - c);
    std::copy_n(row.s + c, count, buffer);
    const auto x = hn::Mul(hn::Load(d, buffer), into);
    hn::Store(hn::Mul(tanh_or_nan(d, x), cap), d, buffer);
    hn::Store(tanh_slope(d, x), d, buffer + lanes);
    std::copy_n(buffer, count, row.s + c);
    if (row.softcap_slope != nullptr) std::copy_n(buffer + lanes, count, row.softcap_slope + c);
  }
}

// Plain loops: the compiler makes vectors of them.
template <class T>
void finish_scores(const ScoreRow<T>& row) {
  T* HWY_RESTRICT s = row.s;
  const auto [begin, end] = row.columns;
  if (row.softcap > 0) {
    soften(row);
  } else {
    for (int64_t c = begin; c < end; ++c) s[c] *= row.scale;
  }
  if (row.alibi_slope != 0) {
    for (int64_t c = begin; c < end; ++c) {
      s[c] += row.alibi_slope * (row.alibi_first + static_cast<T>(c));
    }
  }
  if (const T* HWY_RESTRICT bias = row.bias; bias != nullptr) {
    for (int64_t c = begin; c < end; ++c) {
      s[c] = bias[c] == kMinusInfinity<T> ? kMinusInfinity<T> : s[c] + bias[c];
    }
  }
  if (const uint8_t* HWY_RESTRICT mask = row.mask; mask != nullptr) {
    for (int64_t c = begin; c < end; ++c) s[c] = mask[c] == 0 ? kMinusInfinity<T> : s[c];
  }
}

/// Makes columns [begin, end) of a row a whole number of vectors: -inf around `visible`.
template <class T>
HWY_INLINE Columns pad_with_hidden(T* s, Columns visible, int64_t lanes) {
  const Columns padded{round_down(visible.begin, lanes), round_up(visible.end, lanes)};
  for (int64_t c = padded.begin; c < visible.begin; ++c) s[c] = kMinusInfinity<T>;
  for (int64_t c = visible.end; c < padded.end; ++c) s[c] = kMinusInfinity<T>;
  return padded;
}

template <class T>
HWY_INLINE void clear_around(T* s, Columns kept, Columns all) {
  for (int64_t c = all.begin; c < kept.begin; ++c) s[c] = 0;
  for (int64_t c = HWY_MAX(kept.end, all.begin); c < all.end; ++c) s[c] = 0;
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE T row_maximum(D d, const T* s, Columns columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto m0 = hn::Set(d, kMinusInfinity<T>), m1 = m0, m2 = m0, m3 = m0;
  int64_t c = columns.begin;
  for (; c + 4 * lanes <= columns.end; c += 4 * lanes) {
    m0 = hn::Max(m0, hn::Load(d, s + c));
    m1 = hn::Max(m1, hn::Load(d, s + c + lanes));
    m2 = hn::Max(m2, hn::Load(d, s + c + 2 * lanes));
    m3 = hn::Max(m3, hn::Load(d, s + c + 3 * lanes));
  }
  for (; c < columns.end; c += lanes) m0 = hn::Max(m0, hn::Load(d, s + c));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

/// s = exp2((s - max) * to_log2), and returns the sum. Subtracting before multiplying keeps s ==
/// max an exact 1 however large it is.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_INLINE T exponentials(D d, T* HWY_RESTRICT s, Columns columns, T max, T to_log2) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vmax = hn::Set(d, max), factor = hn::Set(d, to_log2);
  const auto low = hn::Set(d, T(-kExponentBias<T>) / to_log2);
  const auto exponential = [&](int64_t c) HWY_ATTR {
    const auto t = hn::Sub(hn::Load(d, s + c), vmax);
    const auto p = exp2_of_product<kApproximate>(d, t, factor, low);
    hn::Store(p, d, s + c);
    return p;
  };
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t c = columns.begin;
  for (; c + 2 * lanes <= columns.end; c += 2 * lanes) {
    sum0 = hn::Add(sum0, exponential(c));
    sum1 = hn::Add(sum1, exponential(c + lanes));
  }
  if (c < columns.end) sum0 = hn::Add(sum0, exponential(c));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

/// The same for any to_log2 > 0: one so tiny that exp2_of_product() can't have it.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_NOINLINE T exponentials_of_tiny(D d, T* s, Columns columns, T max, T to_log2) {
  auto sum = hn::Zero(d);
  for (int64_t c = columns.begin; c < columns.end; c += static_cast<int64_t>(hn::Lanes(d))) {
    const auto t = hn::Sub(hn::Load(d, s + c), hn::Set(d, max));
    const auto p = exp2<kApproximate>(d, hn::Mul(t, hn::Set(d, to_log2)));
    hn::Store(p, d, s + c);
    sum = hn::Add(sum, p);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Moves row r's state to a larger maximum.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_NOINLINE void rescale(D d, const SoftmaxState<T>& state, int64_t r, T max, T to_log2) {
  const T old = state.max[r];
  state.max[r] = max;
  if (old == kMinusInfinity<T>) return;  // sum and output are still 0
  const T factor = hn::GetLane(exp2<kApproximate>(d, hn::Set(d, (old - max) * to_log2)));
  state.sum[r] *= factor;
  if (state.interleaved) {
    T* out = state.out + round_down(r, kInterleavedRows) * state.out_stride + r % kInterleavedRows;
    for (int64_t c = 0; c < state.out_cols; ++c) out[c * kInterleavedRows] *= factor;
    return;
  }
  T* out = state.out + r * state.out_stride;
  for (int64_t c = 0; c < state.out_cols; ++c) out[c] *= factor;
}

template <class T>
HWY_INLINE Columns visible_columns(const ScoreTile<T>& tile, int64_t row) {
  return tile.visible != nullptr ? tile.visible[row] : tile.columns;
}

template <bool kApproximate, class T>
HWY_NOINLINE void softmax_rows(const ScoreTile<T>& tile, const SoftmaxState<T>& state) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto to_log2 = static_cast<T>(tile.scale * kLog2E<double>);
  const T threshold = static_cast<T>(kRescaleThreshold) / to_log2;
  const bool is_tiny = to_log2 < T(1e-30);
  // Two passes, so that no row waits for the reduction to its own maximum.
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* s = tile.s + r * tile.s_stride;
    const Columns visible = visible_columns(tile, r);
    if (visible.begin >= visible.end) continue;
    const T row_max = row_maximum(d, s, pad_with_hidden(s, visible, lanes));
    if (row_max > state.max[r] + threshold || state.max[r] == kMinusInfinity<T>) {
      rescale<kApproximate>(d, state, r, row_max, to_log2);
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* s = tile.s + r * tile.s_stride;
    const Columns visible = visible_columns(tile, r);
    if (visible.begin >= visible.end) {
      clear_around(s, {tile.columns.end, tile.columns.end}, tile.columns);
      continue;
    }
    // With nothing but -inf so far, max is -inf: 0 in its place gives exp2(-inf) = 0, not NaN.
    const T base = state.max[r] == kMinusInfinity<T> ? T{0} : state.max[r];
    const Columns padded{round_down(visible.begin, lanes), round_up(visible.end, lanes)};
    state.sum[r] += is_tiny ? exponentials_of_tiny<kApproximate>(d, s, padded, base, to_log2)
                            : exponentials<kApproximate>(d, s, padded, base, to_log2);
    clear_around(s, padded, tile.columns);
  }
}

template <class T>
void softmax(const ScoreTile<T>& tile, const SoftmaxState<T>& state) {
  if (tile.approximate && sizeof(T) == sizeof(float)) return softmax_rows<true>(tile, state);
  softmax_rows<false>(tile, state);
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
