// SPDX-License-Identifier: BSD-3-Clause
// Integer, logic, shift and bit-field instructions: PTX ISA 9.7.1, 9.7.8.
#include <limits>

#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_integer.cpp"
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
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <class T>
constexpr uint32_t kBits = 8 * sizeof(T);

struct Add {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct MulLow {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHigh {
  template <class T>
  static T run(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using W = std::conditional_t<std::is_signed_v<T>, Int128, UInt128>;
      return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> 64);
    } else {
      return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> kBits<T>);
    }
  }
};
// Division by zero is unspecified: all ones here. The most negative number by -1 wraps.
struct Div {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub::run(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T run(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T run(T a, T b) {
    return a > b ? a : b;
  }
};
struct And {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Abs {
  template <class T>
  static T run(T a) {
    return a < 0 ? Sub::run(T{0}, a) : a;
  }
};
struct Neg {
  template <class T>
  static T run(T a) {
    return Sub::run(T{0}, a);
  }
};
struct Not {
  template <class T>
  static T run(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T run(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct Brev {
  template <class T>
  static T run(T a) {
    T r = 0;
    for (uint32_t i = 0; i < kBits<T>; ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
  }
};
struct MadLow {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulLow::run(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(MulHigh::run(a, b), c);
  }
};
struct Sad {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run(c, a < b ? Sub::run(b, a) : Sub::run(a, b));
  }
};
struct AddSaturate {
  static int32_t run(int32_t a, int32_t b) { return clamp(int64_t{a} + b); }
  static int32_t clamp(int64_t x) {
    return static_cast<int32_t>(
        std::min<int64_t>(std::max<int64_t>(x, std::numeric_limits<int32_t>::min()),
                          std::numeric_limits<int32_t>::max()));
  }
};
struct SubSaturate {
  static int32_t run(int32_t a, int32_t b) { return AddSaturate::clamp(int64_t{a} - b); }
};

template <class Half, class Op>
struct EachHalf {
  static uint32_t run(uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(Op::run(static_cast<Half>(a), static_cast<Half>(b)));
    const auto high =
        static_cast<uint16_t>(Op::run(static_cast<Half>(a >> 16), static_cast<Half>(b >> 16)));
    return static_cast<uint32_t>(high) << 16 | low;
  }
};

// ---- forms whose operands differ in type -------------------------------------------------------

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

template <class T>
Step mul_wide(Warp& w, const Inst& i, uint32_t mask) {
  using W = Wide<T>;
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b);
  for_lanes(w.reg<Word<W>>(i.d), mask, [=](uint32_t l) {
    return to_word<W>(static_cast<W>(from_word<T>(a[l])) * static_cast<W>(from_word<T>(b[l])));
  });
  return Step::kNext;
}

template <class T>
Step mad_wide(Warp& w, const Inst& i, uint32_t mask) {
  using W = Wide<T>;
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b);
  const Word<W>* c = w.reg<Word<W>>(i.c);
  for_lanes(w.reg<Word<W>>(i.d), mask, [=](uint32_t l) {
    const W product = static_cast<W>(from_word<T>(a[l])) * static_cast<W>(from_word<T>(b[l]));
    return to_word<W>(Add::run(product, from_word<W>(c[l])));
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
    if constexpr (kOp == IntegerOp::kBfind) {
      if (std::is_signed_v<T> && x < 0) x = static_cast<T>(~x);
      if (x == 0) return kNone;
      return kBits<T> - 1 - static_cast<uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(x)));
    }
    return static_cast<uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(x)));
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
Handler for_any_type(IntegerOp op) {
  switch (op) {
    case IntegerOp::kAdd:
      return binary<T, Add>;
    case IntegerOp::kSub:
      return binary<T, Sub>;
    case IntegerOp::kMulLow:
      return binary<T, MulLow>;
    case IntegerOp::kMulHigh:
      return binary<T, MulHigh>;
    case IntegerOp::kDiv:
      return binary<T, Div>;
    case IntegerOp::kRem:
      return binary<T, Rem>;
    case IntegerOp::kMin:
      return binary<T, Min>;
    case IntegerOp::kMax:
      return binary<T, Max>;
    case IntegerOp::kAbs:
      return unary<T, Abs>;
    case IntegerOp::kNeg:
      return unary<T, Neg>;
    case IntegerOp::kMadLow:
      return ternary<T, MadLow>;
    case IntegerOp::kMadHigh:
      return ternary<T, MadHigh>;
    case IntegerOp::kSad:
      return ternary<T, Sad>;
    case IntegerOp::kShr:
      return shift<T, false>;
    case IntegerOp::kShl:
      return shift<T, true>;
    case IntegerOp::kBfind:
      return count_bits<T, IntegerOp::kBfind>;
    case IntegerOp::kPopc:
      return count_bits<T, IntegerOp::kPopc>;
    case IntegerOp::kClz:
      return count_bits<T, IntegerOp::kClz>;
    case IntegerOp::kBfe:
      return bfe<T>;
    default:
      return nullptr;
  }
}

template <class T>
Handler for_bits(IntegerOp op) {
  switch (op) {
    case IntegerOp::kAnd:
      return binary<T, And>;
    case IntegerOp::kOr:
      return binary<T, Or>;
    case IntegerOp::kXor:
      return binary<T, Xor>;
    case IntegerOp::kNot:
      return unary<T, Not>;
    case IntegerOp::kCnot:
      return unary<T, Cnot>;
    case IntegerOp::kBrev:
      return unary<T, Brev>;
    case IntegerOp::kBfi:
      return bfi<T>;
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
    case IntegerOp::kAddSaturate:
      return binary<int32_t, AddSaturate>;
    case IntegerOp::kSubSaturate:
      return binary<int32_t, SubSaturate>;
    default:
      return nullptr;
  }
}

template <class T>
Handler for_pairs(IntegerOp op) {
  switch (op) {
    case IntegerOp::kAdd:
      return binary<uint32_t, EachHalf<T, Add>>;
    case IntegerOp::kMin:
      return binary<uint32_t, EachHalf<T, Min>>;
    case IntegerOp::kMax:
      return binary<uint32_t, EachHalf<T, Max>>;
    default:
      return nullptr;
  }
}

Handler wide(IntegerOp op, Type type) {
  const bool mad = op == IntegerOp::kMadWide;
  switch (type) {
    case Type::kU16:
      return mad ? mad_wide<uint16_t> : mul_wide<uint16_t>;
    case Type::kS16:
      return mad ? mad_wide<int16_t> : mul_wide<int16_t>;
    case Type::kU32:
      return mad ? mad_wide<uint32_t> : mul_wide<uint32_t>;
    case Type::kS32:
      return mad ? mad_wide<int32_t> : mul_wide<int32_t>;
    default:
      return nullptr;
  }
}

Handler choose(IntegerOp op, Type type) {
  if (op == IntegerOp::kMulWide || op == IntegerOp::kMadWide) return wide(op, type);
  if (const Handler h = for_words(op)) return ptx::size_of(type) == 4 ? h : nullptr;
  switch (type) {
    case Type::kU16x2:
      return for_pairs<uint16_t>(op);
    case Type::kS16x2:
      return for_pairs<int16_t>(op);
    case Type::kS16:
      return for_any_type<int16_t>(op);
    case Type::kS32:
      return for_any_type<int32_t>(op);
    case Type::kS64:
      return for_any_type<int64_t>(op);
    default:
      break;
  }
  Handler h = nullptr;
  switch (ptx::size_of(type)) {
    case 2:
      h = for_bits<uint16_t>(op);
      return h != nullptr ? h : for_any_type<uint16_t>(op);
    case 4:
      h = for_bits<uint32_t>(op);
      return h != nullptr ? h : for_any_type<uint32_t>(op);
    case 8:
      h = for_bits<uint64_t>(op);
      return h != nullptr ? h : for_any_type<uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace

Handler integer_handler(exec::IntegerOp op, Type type) { return choose(op, type); }

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler integer(IntegerOp op, Type type) { return FA4_EMULATOR_BEST(integer_handler(op, type)); }

}  // namespace fa4::emulator::exec
#endif
