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
    return high_product(a, b);
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
    for (uint32_t i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
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

// ---- wide products --------------------------------------------------------------------------

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
    default:
      return nullptr;
  }
}

Handler saturating(IntegerOp op) {
  if (op == IntegerOp::kAddSaturate) return binary<int32_t, AddSaturate>;
  return op == IntegerOp::kSubSaturate ? binary<int32_t, SubSaturate> : nullptr;
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
  if (const Handler h = saturating(op)) return ptx::size_of(type) == 4 ? h : nullptr;
  if (type == Type::kU16x2) return for_pairs<uint16_t>(op);
  if (type == Type::kS16x2) return for_pairs<int16_t>(op);
  return for_integer_of(type, [op](auto zero) {
    using T = decltype(zero);
    Handler h = nullptr;
    if constexpr (!std::is_signed_v<T>) h = for_bits<T>(op);
    return h != nullptr ? h : for_any_type<T>(op);
  });
}

}  // namespace

Handler integer_handler(exec::IntegerOp op, Type type) { return choose(op, type); }

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler integer(IntegerOp op, Type type) {
  if (const Handler h = bits(op, type)) return h;
  return FA4_EMULATOR_BEST(integer_handler(op, type));
}

}  // namespace fa4::emulator::exec
#endif
