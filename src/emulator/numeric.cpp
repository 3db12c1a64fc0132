// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/numeric.h"

namespace fa4::emulator {
namespace {

/// x >= 0 to a whole number.
double round_whole(double x, Round round, bool negative) {
  const double low = std::floor(x), rest = x - low;
  switch (round) {
    case Round::kZero:
      return low;
    case Round::kUp:
      return negative || rest == 0 ? low : low + 1;
    case Round::kDown:
      return negative && rest != 0 ? low + 1 : low;
    case Round::kNearestAway:
      return rest >= 0.5 ? low + 1 : low;
    case Round::kNearest:
      break;
  }
  if (rest != 0.5) return rest > 0.5 ? low + 1 : low;
  return std::fmod(low, 2) == 0 ? low : low + 1;
}

}  // namespace

uint32_t encode_small(double x, SmallFormat f, Round round, bool saturate) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const uint32_t fractions = 1u << f.mantissa_bits;
  const uint32_t infinity = top << f.mantissa_bits;
  // Largest finite: e4m3 uses the top exponent too, all ones is its NaN.
  const uint32_t largest = f.has_infinity ? infinity - 1 : infinity + fractions - 2;
  const uint32_t sign_bit = 1u << (f.exponent_bits + f.mantissa_bits);
  if (std::isnan(x)) return sign_bit - 1;  // all ones but for the sign
  const bool negative = std::signbit(x);
  const uint32_t sign = negative ? sign_bit : 0;
  const double magnitude = std::fabs(x);
  const uint32_t too_large = saturate         ? largest
                             : f.has_infinity ? infinity
                                              : infinity + fractions - 1;
  if (std::isinf(magnitude)) return sign | too_large;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - bias);  // of the leading bit; subnormals share the lowest
  const double unit = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double steps = round_whole(magnitude / unit, round, negative);
  // In units, counted from the binade's begin: an overflow carries into the exponent.
  const auto whole = static_cast<uint64_t>(steps);
  uint64_t code = 0;
  if (whole < fractions && exponent == 1 - bias) {
    code = whole;
  } else {
    code = static_cast<uint64_t>(exponent + bias) * fractions + (whole - fractions);
  }
  if (code > largest) {
    const bool inward = round == Round::kZero || (round == Round::kUp && negative) ||
                        (round == Round::kDown && !negative);
    return sign | (inward ? largest : too_large);
  }
  return sign | static_cast<uint32_t>(code);
}

double decode_small(uint32_t bits, SmallFormat f) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const bool negative = (bits >> (f.exponent_bits + f.mantissa_bits) & 1) != 0;
  double x = 0;
  if (exponent == top && f.has_infinity) {
    x = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == top && fraction == (1u << f.mantissa_bits) - 1) {
    x = NAN;
  } else if (exponent == 0) {
    x = std::ldexp(fraction, 1 - bias - f.mantissa_bits);
  } else {
    x = std::ldexp(fraction + (1u << f.mantissa_bits),
                   static_cast<int>(exponent) - bias - f.mantissa_bits);
  }
  return negative ? -x : x;
}

}  // namespace fa4::emulator
