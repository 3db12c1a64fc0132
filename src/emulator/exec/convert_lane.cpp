// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/exec/convert_lane.h"

#include <bit>
#include <cmath>
#include <limits>

#include "emulator/machine.h"

namespace fa4::emulator::exec {
namespace {

/// A number on its way: whole or floating.
struct Value {
  bool whole = false;
  Int128 integer = 0;
  double real = 0;
};

Value fetch(Type type, uint64_t bits, bool flush_zero) {
  Value v;
  v.whole = !ptx::is_float(type);
  switch (type) {
    case Type::kU8:
      v.integer = static_cast<uint8_t>(bits);
      break;
    case Type::kS8:
      // The sign comes down with a shift: an int8_t is a character to some.
      v.integer = static_cast<int32_t>(static_cast<uint32_t>(bits) << 24) >> 24;
      break;
    case Type::kU16:
      v.integer = static_cast<uint16_t>(bits);
      break;
    case Type::kS16:
      v.integer = static_cast<int16_t>(bits);
      break;
    case Type::kU32:
      v.integer = static_cast<uint32_t>(bits);
      break;
    case Type::kS32:
      v.integer = static_cast<int32_t>(bits);
      break;
    case Type::kU64:
      v.integer = bits;
      break;
    case Type::kS64:
      v.integer = static_cast<int64_t>(bits);
      break;
    case Type::kF16:
      v.real = decode_small(bits & 0xffff, kFloat16);
      break;
    case Type::kBF16:
      v.real = decode_small(bits & 0xffff, kBFloat16);
      break;
    case Type::kE4M3:
      v.real = decode_small(bits & 0xff, kFloatE4M3);
      break;
    case Type::kE5M2:
      v.real = decode_small(bits & 0xff, kFloatE5M2);
      break;
    case Type::kF64:
      v.real = std::bit_cast<double>(bits);
      break;
    default: {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      v.real = flush_zero ? flush(x) : x;
    }
  }
  return v;
}

double to_whole_number(double x, Round round) {
  switch (round) {
    case Round::kZero:
      return std::trunc(x);
    case Round::kDown:
      return std::floor(x);
    case Round::kUp:
      return std::ceil(x);
    case Round::kNearestAway:
      return std::round(x);
    case Round::kNearest:
      break;
  }
  const double low = std::floor(x), rest = x - low;
  if (rest != 0.5) return std::copysign(rest > 0.5 ? low + 1 : low, x);
  return std::copysign(std::fmod(low, 2) == 0 ? low : low + 1, x);
}

struct Bounds {
  Int128 low, high;
};
Bounds bounds_of(Type type) {
  const int bits = static_cast<int>(8 * ptx::size_of(type));
  if (ptx::is_signed(type)) return {-(Int128{1} << (bits - 1)), (Int128{1} << (bits - 1)) - 1};
  return {0, (Int128{1} << bits) - 1};
}

/// Floats always clamp; whole numbers only with .sat.
uint64_t store_whole(const Conversion& c, const Value& v) {
  const Bounds b = bounds_of(c.to);
  const int bytes = static_cast<int>(ptx::size_of(c.to));
  Int128 x = v.integer;
  if (!v.whole) {
    // As hardware has it: 0, or the lowest number where one side has 64 bits.
    if (std::isnan(v.real)) {
      return bytes == 8 || c.from == Type::kF64 ? uint64_t{1} << (8 * bytes - 1) : 0;
    }
    const double r = to_whole_number(v.real, c.round);
    if (r <= static_cast<double>(b.low)) {
      x = b.low;
    } else if (r >= static_cast<double>(b.high)) {
      x = b.high;
    } else {
      x = static_cast<Int128>(r);
    }
  } else if (c.saturate) {
    x = x < b.low ? b.low : x > b.high ? b.high : x;
  }
  const auto bits = static_cast<uint64_t>(x);
  if (bytes == 8) return bits;
  // Narrow signed results fill their 32-bit word's lower part; registers of 16 bits have no more.
  return bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

/// To float32 from a value that float64 may not hold exactly: 64-bit integers.
float integer_to_float(Int128 x, Round round) {
  if (round == Round::kNearest) return static_cast<float>(x);
  const auto high = static_cast<double>(x);
  return round_float(high, static_cast<double>(x - static_cast<Int128>(high)), round);
}

double integer_to_double(Int128 x, Round round) {
  const auto nearest = static_cast<double>(x);
  const Int128 off = x - static_cast<Int128>(nearest);
  const bool up = round == Round::kUp || (round == Round::kZero && x < 0);
  const bool down = round == Round::kDown || (round == Round::kZero && x > 0);
  if (up && off > 0) return std::nextafter(nearest, INFINITY);
  return down && off < 0 ? std::nextafter(nearest, -INFINITY) : nearest;
}

/// A NaN in a float format; float64's keeps its payload on the way to float64 only.
uint64_t store_nan(const Conversion& c, uint64_t bits) {
  constexpr uint64_t kQuiet = 0x7ff8000000000000;
  const bool wide = c.from == Type::kF64;
  switch (c.to) {
    case Type::kF64: {
      if (c.flush) return uint64_t{kNanBits & 0x7fffff} << 29 | kQuiet;
      const int width = static_cast<int>(8 * ptx::size_of(c.from));
      const int fraction = c.from == Type::kF16 ? 10 : c.from == Type::kBF16 ? 7 : wide ? 52 : 23;
      const uint64_t payload = bits & ((uint64_t{1} << fraction) - 1);
      return (bits >> (width - 1) & 1) << 63 | kQuiet | payload << (52 - fraction);
    }
    case Type::kF16:
      return wide ? 0x7e00 : 0x7fff;
    case Type::kBF16:
      return wide ? 0x7fc0 : 0x7fff;
    case Type::kE4M3:
    case Type::kE5M2:
      return 0x7f;
    default:
      return wide ? 0x7fc00000 : kNanBits;
  }
}

/// From float32, to the bit as an H200 does it: NaNs and .satfinite go through the integer part of
/// the rounding.
uint32_t to_tf32(const Conversion& c, uint32_t bits) {
  constexpr uint32_t kLow = 0x1fff, kTop = 0x7f800000;
  const bool nan = (bits & 0x7fffffff) > kTop;
  if (c.relu && !nan && (bits == 0 || bits >> 31 != 0)) return 0;
  if (nan && c.round != Round::kNearestAway) return kNanBits & ~kLow;
  uint32_t half = 0;
  if (c.round == Round::kNearestAway) half = 0x1000;
  if (c.round == Round::kNearest) half = 0xfff + (bits >> 13 & 1);
  const uint32_t rounded = (nan ? bits : bits + half) & ~kLow;
  return c.finite && (rounded & kTop) == kTop ? rounded - (kLow + 1) : rounded;
}

uint64_t store_float(const Conversion& c, const Value& v) {
  double x = v.whole ? static_cast<double>(v.integer) : v.real;
  if (c.to_whole) x = to_whole_number(x, c.round);
  if (c.relu && x <= 0) x = 0;
  const bool unit = c.saturate && (c.to == Type::kF32 || c.to == Type::kF64 || c.to == Type::kF16);
  if (unit) x = std::isnan(x) ? 0 : std::fmin(std::fmax(x, 0), 1);
  const Round round = c.to_whole ? Round::kNearest : c.round;
  switch (c.to) {
    case Type::kF64:
      if (v.whole && !c.to_whole) x = integer_to_double(v.integer, round);
      return std::bit_cast<uint64_t>(x);
    case Type::kF16:
      return encode_small(x, kFloat16, round, c.finite);
    case Type::kBF16:
      return encode_small(x, kBFloat16, round, c.finite);
    case Type::kE4M3:
      return encode_small(x, kFloatE4M3, round, c.finite);
    case Type::kE5M2:
      return encode_small(x, kFloatE5M2, round, c.finite);
    default:
      break;
  }
  float y = v.whole && !c.to_whole     ? integer_to_float(v.integer, round)
            : round == Round::kNearest ? static_cast<float>(x)
                                       : round_float(x, 0, round);
  if (unit) y = static_cast<float>(x);
  if (c.flush) y = flush(y);
  return std::bit_cast<uint32_t>(y);
}

Type half_of(Type pair) {
  switch (pair) {
    case Type::kF16x2:
      return Type::kF16;
    case Type::kBF16x2:
      return Type::kBF16;
    case Type::kE4M3x2:
      return Type::kE4M3;
    case Type::kE5M2x2:
      return Type::kE5M2;
    default:
      return pair;
  }
}

uint64_t convert_one(const Conversion& c, uint64_t bits) {
  if (c.to == Type::kTF32) return to_tf32(c, static_cast<uint32_t>(bits));
  const Value v = fetch(c.from, bits, c.flush);
  if (!ptx::is_float(c.to)) return store_whole(c, v);
  const bool nan = !v.whole && std::isnan(v.real) && !c.saturate;
  return nan ? store_nan(c, bits) : store_float(c, v);
}

void put(Conversion c, Inst& inst) {
  inst.mod = {static_cast<uint8_t>(c.to),
              static_cast<uint8_t>(c.from),
              static_cast<uint8_t>(c.round),
              c.to_whole,
              c.flush,
              c.saturate,
              c.relu,
              c.finite,
              c.extend};
}
Conversion get(const Inst& i) {
  return {static_cast<Type>(i.mod[0]),
          static_cast<Type>(i.mod[1]),
          static_cast<Round>(i.mod[2]),
          i.mod[3] != 0,
          i.mod[4] != 0,
          i.mod[5] != 0,
          i.mod[6] != 0,
          i.mod[7] != 0,
          i.mod[8]};
}

uint64_t word(const Warp& w, uint32_t slot, uint32_t bytes, uint32_t lane) {
  return bytes > 4 ? w.reg<uint64_t>(slot)[lane] : w.reg<uint32_t>(slot)[lane];
}

/// A narrow result as wide as its register.
uint64_t extended(uint64_t x, const Conversion& c) {
  if (ptx::is_signed(c.to)) {
    const uint32_t shift = 64 - 8 * ptx::size_of(c.to);
    x = static_cast<uint64_t>(static_cast<int64_t>(x << shift) >> shift);
  }
  return c.extend == 8 ? x : x & ((uint64_t{1} << 8 * c.extend) - 1);
}

template <class T>
Step any(Warp& w, const Inst& i, uint32_t mask) {
  const Conversion c = get(i);
  T* d = w.reg<T>(i.d);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    uint64_t x = convert_one(c, word(w, i.a, ptx::size_of(c.from), l));
    if (c.extend != 0) x = extended(x, c);
    d[l] = static_cast<T>(x);
  }
  return Step::kNext;
}

/// Two at a time: from two floats, or from a pair.
Step pair(Warp& w, const Inst& i, uint32_t mask) {
  Conversion c = get(i);
  const bool packed = half_of(c.from) != c.from;
  const uint32_t from_bits = 8 * ptx::size_of(half_of(c.from));
  const uint32_t to_bits = 8 * ptx::size_of(half_of(c.to));
  c.from = half_of(c.from);
  c.to = half_of(c.to);
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = packed ? a : w.reg<uint32_t>(i.b);
  uint32_t* d = w.reg<uint32_t>(i.d);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const uint64_t high = convert_one(c, packed ? a[l] >> from_bits : a[l]);
    const uint64_t low = convert_one(c, b[l]);
    d[l] = static_cast<uint32_t>(high << to_bits | low);
  }
  return Step::kNext;
}

}  // namespace

Handler convert_any(const Conversion& c, Inst& inst) {
  put(c, inst);
  if (half_of(c.to) != c.to) {
    const bool known = c.from == Type::kF32 || half_of(c.from) != c.from;
    return known ? pair : nullptr;
  }
  if (half_of(c.from) != c.from) return nullptr;
  return ptx::size_of(c.to) == 8 || c.extend == 8 ? any<uint64_t> : any<uint32_t>;
}

}  // namespace fa4::emulator::exec
