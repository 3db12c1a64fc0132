// SPDX-License-Identifier: BSD-3-Clause
// Floating-point operations of one lane, shared by the float32, packed and 16-bit handlers;
// included once per Highway target.
#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/exec/handlers.h"
#include "emulator/numeric.h"
#include "hwy/highway.h"

#if defined(FA4_EMULATOR_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_EMULATOR_FLOAT_INL_H_
#undef FA4_EMULATOR_FLOAT_INL_H_
#else
#define FA4_EMULATOR_FLOAT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {

using exec::FloatOp;

HWY_INLINE float canonical(float x) { return x == x ? x : canonical_nan(); }
HWY_INLINE double canonical(double x) { return x; }

/// -0 counts as less than +0; a number wins over a NaN unless kNan.
template <bool kNan, bool kMax>
HWY_INLINE float pick(float a, float b) {
  const auto x = std::bit_cast<uint32_t>(a), y = std::bit_cast<uint32_t>(b);
  const float equal = std::bit_cast<float>(kMax ? x & y : x | y);
  float r = (kMax ? a > b : a < b) ? a : b;
  r = a == b ? equal : r;
  if (kNan) return a == a && b == b ? r : canonical_nan();
  r = b == b ? r : a;
  r = a == a ? r : b;
  return canonical(r);
}

/// 2^x by a polynomial in the fraction: relative error below 2^-23, where hardware promises
/// 2^-22.5. Coefficients: tools/fit_exp2.py.
HWY_INLINE float exp2_lane(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  float y = x < -160.0f ? -160.0f : x;
  y = y > 160.0f ? 160.0f : y;
  const float whole = (y + kMagic) - kMagic;
  const float r = y - whole;
  float p = 0x1.41fbbcp-13f;
  p = p * r + 0x1.5f3e52p-10f;
  p = p * r + 0x1.3b2d4cp-7f;
  p = p * r + 0x1.c6aee8p-5f;
  p = p * r + 0x1.ebfbdcp-3f;
  p = p * r + 0x1.62e430p-1f;
  p = p * r + 1.0f;
  // In two steps, so that results near the ends of the range come out right.
  const auto n = static_cast<int32_t>(whole);
  const int32_t half = n >> 1;
  const auto low = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const auto high = std::bit_cast<float>(static_cast<uint32_t>(n - half + 127) << 23);
  const float result = p * low * high;
  return x == x ? result : canonical_nan();
}

/// Divisors beyond 2^126 have no reciprocal among normal numbers: 0 comes out.
HWY_INLINE float div_approx(float a, float b) {
  const float size = std::bit_cast<float>(std::bit_cast<uint32_t>(b) & 0x7fffffffu);
  const bool large = size > 0x1p126f && size <= 0x1.fffffep127f;
  return canonical(large ? a * std::copysign(0.0f, b) : a / b);
}

template <FloatOp kOp>
HWY_INLINE float apply(float a, float b, float c) {
  switch (kOp) {
    case FloatOp::kAdd:
      return canonical(a + b);
    case FloatOp::kSub:
      return canonical(a - b);
    case FloatOp::kMul:
      return canonical(a * b);
    case FloatOp::kFma:
      return canonical(std::fma(a, b, c));
    case FloatOp::kMin:
      return pick<false, false>(a, b);
    case FloatOp::kMax:
      return pick<false, true>(a, b);
    case FloatOp::kMinNan:
      return pick<true, false>(a, b);
    case FloatOp::kMaxNan:
      return pick<true, true>(a, b);
    case FloatOp::kMin3:
      return pick<false, false>(pick<false, false>(a, b), c);
    case FloatOp::kMax3:
      return pick<false, true>(pick<false, true>(a, b), c);
    case FloatOp::kMinNan3:
      return pick<true, false>(pick<true, false>(a, b), c);
    case FloatOp::kMaxNan3:
      return pick<true, true>(pick<true, true>(a, b), c);
    case FloatOp::kAbs:
      return canonical(std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0x7fffffffu));
    case FloatOp::kNeg:
      return canonical(std::bit_cast<float>(std::bit_cast<uint32_t>(a) ^ 0x80000000u));
    case FloatOp::kDiv:
      return canonical(a / b);
    case FloatOp::kRcp:
      return canonical(1.0f / a);
    case FloatOp::kSqrt:
      return canonical(std::sqrt(a));
    case FloatOp::kRsqrt:
      return canonical(static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))));
    case FloatOp::kEx2:
      return exp2_lane(a);
    case FloatOp::kLg2:
      return canonical(std::log2(a));
    case FloatOp::kSin:
      return canonical(std::sin(a));
    case FloatOp::kCos:
      return canonical(std::cos(a));
    case FloatOp::kTanh:
      return canonical(std::tanh(a));
    case FloatOp::kCopysign:
      return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & 0x80000000u) |
                                  (std::bit_cast<uint32_t>(b) & 0x7fffffffu));
    case FloatOp::kDivApprox:
      return div_approx(a, b);
  }
  return a;
}

/// Quotients and roots in such a mode: float64 has one rest that says on which side they lie.
HWY_INLINE float divide_rounded(float a, float b, Round round) {
  const double quotient = static_cast<double>(a) / static_cast<double>(b);
  const double rest = std::fma(-quotient, static_cast<double>(b), static_cast<double>(a));
  return round_float(quotient, b < 0 ? -rest : rest, round);
}
HWY_INLINE float root_rounded(float a, Round round) {
  const double root = std::sqrt(static_cast<double>(a));
  return round_float(root, std::fma(-root, root, static_cast<double>(a)), round);
}

/// add, sub, mul, fma, div, rcp, sqrt in a rounding mode that is not the machine's.
template <FloatOp kOp>
HWY_INLINE float apply_rounded(float a, float b, float c, Round round) {
  switch (kOp) {
    case FloatOp::kAdd:
      return canonical(add_rounded(a, b, round));
    case FloatOp::kSub:
      return canonical(add_rounded(a, -b, round));
    case FloatOp::kMul:
      return canonical(multiply_rounded(a, b, round));
    case FloatOp::kDiv:
      return canonical(divide_rounded(a, b, round));
    case FloatOp::kRcp:
      return canonical(divide_rounded(1, a, round));
    case FloatOp::kSqrt:
      return canonical(root_rounded(a, round));
    default:
      return canonical(fma_rounded(a, b, c, round));
  }
}

constexpr int operands_of(FloatOp op) {
  switch (op) {
    case FloatOp::kFma:
    case FloatOp::kMin3:
    case FloatOp::kMax3:
    case FloatOp::kMinNan3:
    case FloatOp::kMaxNan3:
      return 3;
    case FloatOp::kAbs:
    case FloatOp::kNeg:
    case FloatOp::kRcp:
    case FloatOp::kSqrt:
    case FloatOp::kRsqrt:
    case FloatOp::kEx2:
    case FloatOp::kLg2:
    case FloatOp::kSin:
    case FloatOp::kCos:
    case FloatOp::kTanh:
      return 1;
    default:
      return 2;
  }
}

HWY_INLINE float clamp_unit(float x) {
  // NaN becomes +0.
  const float y = x > 0.0f ? x : 0.0f;
  return y < 1.0f ? y : 1.0f;
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#endif
