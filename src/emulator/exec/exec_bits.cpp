// SPDX-License-Identifier: BSD-3-Clause
// Shifts, bit fields, permutations: PTX ISA 9.7.1, 9.7.8, 9.7.9.7.
#include <algorithm>

#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_bits.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

using exec::IntegerOp;

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr uint32_t kBits = 8 * sizeof(T);

/// b is a 32-bit shift amount, clamped.
template <class T, bool kLeft>
Step shift(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>* a = w.reg<Word<T>>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  for_lanes(w.reg<Word<T>>(i.d), mask, [=](uint32_t l) {
    const T x = from_word<T>(a[l]);
    const uint32_t n = b[l] < kBits<T> ? b[l] : kBits<T>;
    const uint32_t safe = n < kBits<T> ? n : kBits<T> - 1;
    if constexpr (kLeft) {
      const auto y = static_cast<T>(static_cast<Unsigned<T>>(x) << safe);
      return to_word<T>(n == safe ? y : T{0});
    } else {
      const auto y = static_cast<T>(x >> safe);
      const T beyond = std::is_signed_v<T> ? static_cast<T>(x < 0 ? -1 : 0) : T{0};
      return to_word<T>(n == safe ? y : beyond);
    }
  });
  return Step::kNext;
}

/// popc, clz, bfind: the result has 32 bits.
template <class T, IntegerOp kOp>
Step count_bits(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>* a = w.reg<Word<T>>(i.a);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) -> uint32_t {
    T x = from_word<T>(a[l]);
    if constexpr (kOp == IntegerOp::kPopc) {
      return static_cast<uint32_t>(std::popcount(static_cast<Unsigned<T>>(x)));
    }
    if constexpr (kOp != IntegerOp::kClz) {
      if (std::is_signed_v<T> && x < 0) x = static_cast<T>(~x);
      if (x == 0) return kNone;
    }
    const auto zeros = static_cast<uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(x)));
    return kOp == IntegerOp::kBfind ? kBits<T> - 1 - zeros : zeros;
  });
  return Step::kNext;
}

/// Bits [b, b + c) of a, sign-extended for signed types (PTX ISA 9.7.1.19).
template <class T>
Step bfe(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>* a = w.reg<Word<T>>(i.a);
  const uint32_t *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  for_lanes(w.reg<Word<T>>(i.d), mask, [=](uint32_t l) {
    const uint32_t position = b[l] & 0xff, length = c[l] & 0xff, msb = kBits<T> - 1;
    const auto x = static_cast<Unsigned<T>>(from_word<T>(a[l]));
    const uint32_t last = length == 0 ? 0 : std::min(position + length - 1, msb);
    const bool negative = std::is_signed_v<T> && length != 0 && (x >> last & 1) != 0;
    Unsigned<T> y = position > msb ? 0 : static_cast<Unsigned<T>>(x >> position);
    if (length <= msb) {
      const auto low = static_cast<Unsigned<T>>((Unsigned<T>{1} << length) - 1);
      y = static_cast<Unsigned<T>>(y & low);
      if (negative) y = static_cast<Unsigned<T>>(y | static_cast<Unsigned<T>>(~low));
    }
    // Beyond the top bit the field is filled with the sign.
    if (negative && position > 0 && position <= msb) {
      y = static_cast<Unsigned<T>>(
          y | static_cast<Unsigned<T>>(~static_cast<Unsigned<T>>(0) << (msb - position) << 1));
    }
    if (negative && position > msb) y = static_cast<Unsigned<T>>(~Unsigned<T>{0});
    return to_word<T>(static_cast<T>(y));
  });
  return Step::kNext;
}

/// b with a's low bits in [c, c + e).
template <class T>
Step bfi(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b);
  const uint32_t *c = w.reg<uint32_t>(i.c), *e = w.reg<uint32_t>(i.e);
  for_lanes(w.reg<Word<T>>(i.d), mask, [=](uint32_t l) {
    const uint32_t position = c[l] & 0xff, length = e[l] & 0xff;
    if (position >= kBits<T> || length == 0) return b[l];
    const T low = length >= kBits<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const auto field = static_cast<T>(low << position);
    return to_word<T>(static_cast<T>((b[l] & static_cast<T>(~field)) |
                                     (static_cast<T>(a[l] << position) & field)));
  });
  return Step::kNext;
}

/// 32 bits of b:a, shifted by c (PTX ISA 9.7.8.8).
template <bool kLeft, bool kWrap>
Step funnel_shift(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    const uint32_t n = kWrap ? c[l] & 31 : (c[l] < 32 ? c[l] : 32);
    const uint64_t x = static_cast<uint64_t>(b[l]) << 32 | a[l];
    return static_cast<uint32_t>(kLeft ? (x << n) >> 32 : x >> n);
  });
  return Step::kNext;
}

Step lop3(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  uint32_t term[8];
  for (uint32_t t = 0; t < 8; ++t) term[t] = (i.imm >> t & 1) != 0 ? kAllLanes : 0;
  for_lanes(w.reg<uint32_t>(i.d), mask, [&](uint32_t l) {
    uint32_t y = 0;
    for (uint32_t t = 0; t < 8; ++t) {
      y |= term[t] & ((t & 4) != 0 ? a[l] : ~a[l]) & ((t & 2) != 0 ? b[l] : ~b[l]) &
           ((t & 1) != 0 ? c[l] : ~c[l]);
    }
    return y;
  });
  return Step::kNext;
}

/// Bytes of b:a chosen by c (PTX ISA 9.7.9.7). mod[0]: default, f4e, b4e, rc8, ecl, ecr, rc16.
Step prmt(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  const uint32_t mode = i.mod[0];
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    const uint64_t bytes = static_cast<uint64_t>(b[l]) << 32 | a[l];
    uint32_t y = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t s = c[l] & 3;
      uint32_t pick = c[l] >> (4 * k) & 15;
      switch (mode) {
        case 1:
          pick = s + k;
          break;
        case 2:
          pick = (s - k) & 7;
          break;
        case 3:
          pick = s;
          break;
        case 4:
          pick = std::max(k, s);
          break;
        case 5:
          pick = std::min(k, s);
          break;
        case 6:
          pick = (s & 1) * 2 + (k & 1);
          break;
        default:
          break;
      }
      auto byte = static_cast<uint32_t>(bytes >> (8 * (pick & 7)) & 0xff);
      if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      y |= byte << (8 * k);
    }
    return y;
  });
  return Step::kNext;
}

/// mod[0], mod[1]: a, b signed.
Step dp4a(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  const bool sa = i.mod[0] != 0, sb = i.mod[1] != 0;
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    uint32_t sum = c[l];
    for (uint32_t k = 0; k < 32; k += 8) {
      const int x = sa ? static_cast<int8_t>(a[l] >> k) : static_cast<uint8_t>(a[l] >> k);
      const int y = sb ? static_cast<int8_t>(b[l] >> k) : static_cast<uint8_t>(b[l] >> k);
      sum += static_cast<uint32_t>(x * y);
    }
    return sum;
  });
  return Step::kNext;
}

// ---- choice ------------------------------------------------------------------------------------

template <class T>
Handler for_type(IntegerOp op) {
  switch (op) {
    case IntegerOp::kShr:
      return shift<T, false>;
    case IntegerOp::kShl:
      return shift<T, true>;
    case IntegerOp::kBfind:
      return count_bits<T, IntegerOp::kBfind>;
    case IntegerOp::kBfindShift:
      return count_bits<T, IntegerOp::kBfindShift>;
    case IntegerOp::kPopc:
      return count_bits<T, IntegerOp::kPopc>;
    case IntegerOp::kClz:
      return count_bits<T, IntegerOp::kClz>;
    case IntegerOp::kBfe:
      return bfe<T>;
    case IntegerOp::kBfi:
      return bfi<Unsigned<T>>;
    default:
      return nullptr;
  }
}

Handler for_words(IntegerOp op) {
  switch (op) {
    case IntegerOp::kShfLeftClamp:
      return funnel_shift<true, false>;
    case IntegerOp::kShfLeftWrap:
      return funnel_shift<true, true>;
    case IntegerOp::kShfRightClamp:
      return funnel_shift<false, false>;
    case IntegerOp::kShfRightWrap:
      return funnel_shift<false, true>;
    case IntegerOp::kPrmt:
      return prmt;
    case IntegerOp::kLop3:
      return lop3;
    case IntegerOp::kDp4a:
      return dp4a;
    default:
      return nullptr;
  }
}

}  // namespace

Handler bits_handler(exec::IntegerOp op, Type type) {
  if (const Handler h = for_words(op)) return ptx::size_of(type) == 4 ? h : nullptr;
  return for_integer_of(type, [op](auto zero) { return for_type<decltype(zero)>(op); });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler bits(IntegerOp op, Type type) { return FA4_EMULATOR_BEST(bits_handler(op, type)); }

}  // namespace fa4::emulator::exec
#endif
