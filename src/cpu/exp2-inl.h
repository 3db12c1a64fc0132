// SPDX-License-Identifier: BSD-3-Clause
// 2^x by range reduction and a polynomial; included once per Highway target.
#include "hwy/highway.h"

#if defined(FA4_CPU_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_EXP2_INL_H_
#undef FA4_CPU_EXP2_INL_H_
#else
#define FA4_CPU_EXP2_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

// Minimax polynomials of (2^r - 1) / r on [-1/2, 1/2], lowest coefficient first, as
// tools/fit_exp2.py prints them. Relative error of the whole: 2.8e-6 (degree 4; a 16-bit output's
// rounding is 4.9e-4 and more), 1.6e-8 (degree 6), 2.8e-17 (degree 11).
constexpr float kExp2Degree4[] = {0x1.62e12cp-1f, 0x1.ec0378p-3f, 0x1.c9fc46p-5f, 0x1.3a02ccp-7f};
constexpr float kExp2Degree6[] = {0x1.62e430p-1f, 0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                                  0x1.3b2d4cp-7f, 0x1.5f3e52p-10f, 0x1.41fbbcp-13f};
constexpr double kExp2Degree11[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a4p-3,  0x1.c6b08d7049fe8p-5,  0x1.3b2ab6fba011ap-7,
    0x1.5d87fe78cd6d0p-10, 0x1.4309130ed8ce4p-13, 0x1.ffcbfba980b67p-17, 0x1.62bfc79d496e3p-20,
    0x1.b5267ce06c688p-24, 0x1.e61b4f9cdfb2fp-28, 0x1.e79bb6153ca1cp-32};

/// r * q(r) + 1 by Horner's rule.
template <class D, class T, size_t N>
HWY_INLINE hn::Vec<D> exp2_polynomial(D d, hn::Vec<D> r, const T (&q)[N]) {
  auto p = hn::Set(d, q[N - 1]);
#pragma GCC unroll 16
  for (size_t i = 1; i < N; ++i) p = hn::MulAdd(p, r, hn::Set(d, q[N - 1 - i]));
  return hn::MulAdd(p, r, hn::Set(d, T{1}));
}

/// x, but at least `low`; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D, hn::Vec<D> low, hn::Vec<D> x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(low, x);  // MAXPS gives its second operand where one is NaN
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

// Adding 1.5 * 2^mantissa rounds x to an integer n and leaves n + bias in the lowest bits: shifted
// up, they are 2^n.
template <class T>
constexpr int kMantissaBits = sizeof(T) == 4 ? 23 : 52;
template <class T>
constexpr int kExponentBias = sizeof(T) == 4 ? 127 : 1023;
template <class T>
constexpr T kRoundToInteger = T(1.5) * T(uint64_t{1} << kMantissaBits<T>) + T(kExponentBias<T>);

/// 2^(n + r) for |r| <= 1/2 and shifted = n + kRoundToInteger. The product with 2^n, unlike an
/// addition to the exponent, keeps NaN a NaN.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> exp2_of_parts(D d, hn::Vec<D> r, hn::Vec<D> shifted) {
  const hn::RebindToUnsigned<D> du;
  const auto power = hn::BitCast(d, hn::ShiftLeft<kMantissaBits<T>>(hn::BitCast(du, shifted)));
  hn::Vec<D> p;
  if constexpr (sizeof(T) == 8) {
    p = exp2_polynomial(d, r, kExp2Degree11);
  } else if constexpr (kApproximate) {
    p = exp2_polynomial(d, r, kExp2Degree4);
  } else {
    p = exp2_polynomial(d, r, kExp2Degree6);
  }
  return hn::Mul(p, power);
}

/// 2^x for x <= 127 (1023 for double), exact where x is an integer. Results below the smallest
/// normal number may be 0, and -inf gives 0; NaN and +inf give NaN.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> exp2(D d, hn::Vec<D> x) {
  const auto magic = hn::Set(d, kRoundToInteger<T>);
  // The lowest n has 0 in the exponent's place: 2^n becomes 0.
  x = at_least(d, hn::Set(d, T(-kExponentBias<T>)), x);
  const auto shifted = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));
  return exp2_of_parts<kApproximate>(d, r, shifted);
}

/// exp2(t * factor) with an instruction less, where low = -bias / factor is a number: `factor`
/// must not be tiny.
template <bool kApproximate, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> exp2_of_product(D d, hn::Vec<D> t, hn::Vec<D> factor, hn::Vec<D> low) {
  const auto magic = hn::Set(d, kRoundToInteger<T>);
  t = at_least(d, low, t);
  const auto shifted = hn::MulAdd(t, factor, magic);
  const auto r = hn::MulSub(t, factor, hn::Sub(shifted, magic));
  return exp2_of_parts<kApproximate>(d, r, shifted);
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
