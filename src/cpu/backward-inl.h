// SPDX-License-Identifier: BSD-3-Clause
// From scores and dp to probabilities and the scores' gradient; included once per target.
#include "hwy/highway.h"

#if defined(FA4_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_BACKWARD_INL_H_
#undef FA4_CPU_BACKWARD_INL_H_
#else
#define FA4_CPU_BACKWARD_INL_H_
#endif

#include "cpu/exp2-inl.h"
#include "cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

/// exp(scale * s - lse) of one vector. It is at most 1: where rounding says otherwise scores are so
/// large that it could overflow. A NaN passes: Min would lose it.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> probability_vector(D d, const GradientTile<T>& tile, int64_t offset,
                                         hn::Vec<D> lse) {
  const auto s = hn::MulSub(hn::Load(d, tile.s + offset), hn::Set(d, tile.scale), lse);
  const auto x = hn::Mul(s, hn::Set(d, kLog2E<T>));
  const auto zero = hn::Zero(d);
  return exp2<kApproximate>(d, hn::IfThenElse(hn::Gt(x, zero), zero, x));
}

/// One vector of a row: p, ds = p * (dp - delta), both with their optional factors.
template <bool kApproximate, bool kFactors, class D, class T = hn::TFromD<D>>
HWY_INLINE void gradient_vector(D d, const GradientTile<T>& tile, int64_t offset, hn::Vec<D> lse,
                                hn::Vec<D> delta) {
  const auto p = probability_vector<kApproximate>(d, tile, offset, lse);
  auto dp = hn::Load(d, tile.dp + offset);
  const auto seen = hn::Ne(p, hn::Zero(d));
  if constexpr (kFactors) {
    const auto keep = tile.keep != nullptr ? hn::Load(d, tile.keep + offset) : hn::Set(d, T{1});
    dp = hn::Mul(dp, keep);
    auto ds = hn::Mul(p, hn::Sub(dp, delta));
    if (tile.slopes != nullptr) ds = hn::Mul(ds, hn::Load(d, tile.slopes + offset));
    // What a row doesn't see may be infinite or NaN in dp.
    hn::Store(hn::IfThenElseZero(seen, ds), d, tile.dp + offset);
    hn::Store(hn::Mul(p, keep), d, tile.s + offset);
  } else {
    const auto ds = hn::Mul(p, hn::Sub(dp, delta));
    hn::Store(hn::IfThenElseZero(seen, ds), d, tile.dp + offset);
    hn::Store(p, d, tile.s + offset);
  }
}

/// A row whose lse is NaN: so are all of its probabilities, but not those of keys it doesn't see.
template <class T>
HWY_NOINLINE void spoil_row(T* s, T* dp, Columns columns) {
  for (int64_t c = columns.begin; c < columns.end; ++c) {
    s[c] = dp[c] = s[c] == kMinusInfinity<T> ? T{0} : std::numeric_limits<T>::quiet_NaN();
  }
}

template <bool kApproximate, bool kFactors, class T>
HWY_NOINLINE void gradient_rows(const GradientTile<T>& tile) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Columns all{0, tile.cols};
  for (int64_t r = 0; r < tile.rows; ++r) {
    Columns visible = tile.visible != nullptr ? tile.visible[r] : all;
    if (tile.lse[r] == kMinusInfinity<T>) visible = {0, 0};
    const int64_t first = r * tile.stride;
    const Columns padded = pad_with_hidden(tile.s + first, visible, lanes);
    const auto lse = hn::Set(d, tile.lse[r]), delta = hn::Set(d, tile.delta[r]);
    int64_t c = padded.begin;
    if (tile.lse[r] != tile.lse[r]) {
      spoil_row(tile.s + first, tile.dp + first, padded);
      c = padded.end;
    }
    for (; c + 2 * lanes <= padded.end; c += 2 * lanes) {
      gradient_vector<kApproximate, kFactors>(d, tile, first + c, lse, delta);
      gradient_vector<kApproximate, kFactors>(d, tile, first + c + lanes, lse, delta);
    }
    if (c < padded.end) gradient_vector<kApproximate, kFactors>(d, tile, first + c, lse, delta);
    clear_around(tile.s + first, padded, all);
    clear_around(tile.dp + first, padded, all);
  }
}

template <bool kApproximate, class T>
HWY_NOINLINE void add_row_sums(const GradientTile<T>& tile) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < tile.rows; ++r) {
    const Columns visible = tile.visible != nullptr ? tile.visible[r] : Columns{0, tile.cols};
    if (tile.lse[r] == kMinusInfinity<T>) continue;
    const int64_t first = r * tile.stride;
    const Columns padded = pad_with_hidden(tile.s + first, visible, lanes);
    const auto lse = hn::Set(d, tile.lse[r]);
    auto sum = hn::Zero(d);
    for (int64_t c = padded.begin; c < padded.end; c += lanes) {
      const auto p = probability_vector<kApproximate>(d, tile, first + c, lse);
      auto dp = hn::Load(d, tile.dp + first + c);
      if (tile.keep != nullptr) dp = hn::Mul(dp, hn::Load(d, tile.keep + first + c));
      sum = hn::Add(sum, hn::IfThenElseZero(hn::Ne(p, hn::Zero(d)), hn::Mul(p, dp)));
    }
    tile.sums[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <class T>
void gradients(const GradientTile<T>& tile) {
  if (tile.sums != nullptr) {
    return tile.approximate && sizeof(T) == sizeof(float) ? add_row_sums<true>(tile)
                                                          : add_row_sums<false>(tile);
  }
  const bool factors = tile.keep != nullptr || tile.slopes != nullptr;
  if (tile.approximate && sizeof(T) == sizeof(float)) {
    return factors ? gradient_rows<true, true>(tile) : gradient_rows<true, false>(tile);
  }
  return factors ? gradient_rows<false, true>(tile) : gradient_rows<false, false>(tile);
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
