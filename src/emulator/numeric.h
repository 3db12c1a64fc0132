// SPDX-License-Identifier: BSD-3-Clause
// Number formats to the bit: 16- and 8-bit floats, rounding modes, flushing of subnormals.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace fa4::emulator {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

/// The upper half of the product of two numbers of 16, 32 or 64 bits.
template <class T>
constexpr T high_product(T a, T b) {
  constexpr bool kSigned = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<kSigned, Int128, UInt128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 64);
  } else if constexpr (sizeof(T) == 4) {
    using Wide = std::conditional_t<kSigned, int64_t, uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 32);
  } else {
    using Wide = std::conditional_t<kSigned, int32_t, uint32_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 16);
  }
}

enum class Round : uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

/// The same, with subnormals replaced by zeros of their sign (.ftz).
inline float flush(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

/// The NaN that float32 instructions give.
constexpr uint32_t kNanBits = 0x7fffffff;
inline float canonical_nan() { return std::bit_cast<float>(kNanBits); }

inline float from_bfloat16(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

inline float from_float16(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7fff) << 13;
  const uint32_t sign = (bits & 0x8000) << 16;
  // Exponents differ by 112; multiplying by 2^112 handles subnormals too.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t finite = std::bit_cast<uint32_t>(scaled);
  const uint32_t special = magnitude | 0x7f800000u;
  return std::bit_cast<float>(((bits & 0x7c00) == 0x7c00 ? special : finite) | sign);
}

/// Nearest even; NaN becomes 0x7fff.
inline uint32_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
}

inline uint32_t to_float16(float x) {
  const auto all = std::bit_cast<uint32_t>(x);
  const uint32_t bits = all & 0x7fffffff;
  const uint32_t sign = all >> 16 & 0x8000;
  const uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  // Adding 0.5 rounds a number below 2^-14 to a multiple of 2^-24.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite = bits < 0x38800000 ? subnormal : normal;
  const uint32_t large = bits >= 0x47800000 ? 0x7c00 : finite;
  return bits > 0x7f800000 ? 0x7fff : large | sign;
}

/// A float format of at most 16 bits.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< e4m3 has none: its top code is NaN.
};
constexpr SmallFormat kFloat16{5, 10, true};
constexpr SmallFormat kBFloat16{8, 7, true};
constexpr SmallFormat kFloatE4M3{4, 3, false};
constexpr SmallFormat kFloatE5M2{5, 2, true};

/// Rounds to the format. `saturate`: what is too large becomes the largest finite number.
uint32_t encode_small(double x, SmallFormat format, Round round, bool saturate);
double decode_small(uint32_t bits, SmallFormat format);

/// `sum` rounded to float; `rest` is what a more exact sum would add. Ties of `sum` alone are
/// decided by it.
inline float round_float(double sum, double rest, Round round) {
  const auto nearest = static_cast<float>(sum);
  const double error = sum - static_cast<double>(nearest);
  const double off = error != 0 ? error : rest;
  const bool up = round == Round::kUp || (round == Round::kZero && sum < 0);
  const bool down = round == Round::kDown || (round == Round::kZero && sum > 0);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (round == Round::kNearest) {
    // sum lies half-way between two floats, and the rest decides.
    return nearest;
  }
  if (!(std::fabs(sum) <= 3.4028234663852886e38) && !std::isfinite(sum)) return nearest;
  const bool negative = (bits >> 31) != 0;
  if (up && off > 0) {
    if (bits == 0x80000000u || bits == 0) return std::bit_cast<float>(1u);
    return std::bit_cast<float>(negative ? bits - 1 : bits + 1);
  }
  if (down && off < 0) {
    if (bits == 0x80000000u || bits == 0) return std::bit_cast<float>(0x80000001u);
    return std::bit_cast<float>(negative ? bits + 1 : bits - 1);
  }
  return nearest;
}

inline float add_rounded(float a, float b, Round round) {
  const double x = a, y = b;
  const double sum = x + y;
  const double z = sum - x;
  const double rest = (x - (sum - z)) + (y - z);
  if (sum == 0 && rest == 0) {
    // x + (-x) is -0 when rounding down.
    if (round == Round::kDown && (std::signbit(a) || std::signbit(b))) return -0.0f;
    return static_cast<float>(sum);
  }
  return round_float(sum, rest, round);
}

inline float multiply_rounded(float a, float b, Round round) {
  return round_float(static_cast<double>(a) * static_cast<double>(b), 0, round);
}

inline float fma_rounded(float a, float b, float c, Round round) {
  const double x = static_cast<double>(a) * static_cast<double>(b), y = c;
  const double sum = x + y;
  const double z = sum - x;
  const double rest = (x - (sum - z)) + (y - z);
  if (sum == 0 && rest == 0) {
    if (round == Round::kDown && (std::signbit(x) || std::signbit(c))) return -0.0f;
    return static_cast<float>(sum);
  }
  return round_float(sum, rest, round);
}

}  // namespace fa4::emulator
