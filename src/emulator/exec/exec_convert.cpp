// SPDX-License-Identifier: BSD-3-Clause
// cvt: PTX ISA 9.7.9.21. What kernels do all the time has vector handlers; everything else takes
// one lane at a time through the widest type.
#include <limits>
#include <type_traits>

#include "emulator/exec/convert_lane.h"
#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_convert.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

using exec::Conversion;

/// d = {a, b}, a in the upper half, rounded to nearest even.
template <bool kBrain, bool kRelu>
Step pack_halves(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    float high = std::bit_cast<float>(a[l]), low = std::bit_cast<float>(b[l]);
    if constexpr (kRelu) high = high <= 0 ? 0.0f : high, low = low <= 0 ? 0.0f : low;
    if constexpr (kBrain) return to_bfloat16(high) << 16 | to_bfloat16(low);
    return to_float16(high) << 16 | to_float16(low);
  });
  return Step::kNext;
}

template <bool kBrain>
Step widen_half(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    if constexpr (kBrain) return std::bit_cast<uint32_t>(from_bfloat16(a[l] & 0xffff));
    const auto bits = std::bit_cast<uint32_t>(from_float16(a[l] & 0xffff));
    return (bits & 0x7fffffff) > 0x7f800000 ? kNanBits : bits;
  });
  return Step::kNext;
}

template <bool kBrain>
Step narrow_half(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    const float x = std::bit_cast<float>(a[l]);
    return kBrain ? to_bfloat16(x) : to_float16(x);
  });
  return Step::kNext;
}

/// Between whole numbers without saturation: truncated or extended. The destination's register may
/// be 64 bits wide.
template <class From, class To>
Step whole(Warp& w, const Inst& i, uint32_t mask) {
  using W = Word<To>;
  const Word<From>* a = w.reg<Word<From>>(i.a);
  for_lanes(w.reg<W>(i.d), mask,
            [=](uint32_t l) { return to_word<To>(static_cast<To>(from_word<From>(a[l]))); });
  return Step::kNext;
}

template <class From>
Step whole_to_float(Warp& w, const Inst& i, uint32_t mask) {
  const Word<From>* a = w.reg<Word<From>>(i.a);
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    return std::bit_cast<uint32_t>(static_cast<float>(from_word<From>(a[l])));
  });
  return Step::kNext;
}

template <class From>
Handler to_whole(Type to) {
  switch (to) {
    case Type::kU16:
      return whole<From, uint16_t>;
    case Type::kS16:
      return whole<From, int16_t>;
    case Type::kU32:
      return whole<From, uint32_t>;
    case Type::kS32:
      return whole<From, int32_t>;
    case Type::kU64:
      return whole<From, uint64_t>;
    case Type::kS64:
      return whole<From, int64_t>;
    default:
      return nullptr;
  }
}

Handler choose_whole(const Conversion& c) {
  switch (c.from) {
    case Type::kU8:
      return to_whole<uint8_t>(c.to);
    case Type::kS8:
      return to_whole<int8_t>(c.to);
    case Type::kU16:
      return to_whole<uint16_t>(c.to);
    case Type::kS16:
      return to_whole<int16_t>(c.to);
    case Type::kU32:
      return to_whole<uint32_t>(c.to);
    case Type::kS32:
      return to_whole<int32_t>(c.to);
    case Type::kU64:
      return to_whole<uint64_t>(c.to);
    case Type::kS64:
      return to_whole<int64_t>(c.to);
    default:
      return nullptr;
  }
}

}  // namespace

/// Null if only the general way does it.
Handler fast_conversion(const Conversion& c) {
  if (c.saturate || c.finite || c.flush || c.round != Round::kNearest || c.to_whole ||
      c.extend != 0) {
    return nullptr;
  }
  if (c.from == Type::kF32) {
    switch (c.to) {
      case Type::kBF16x2:
        return c.relu ? pack_halves<true, true> : pack_halves<true, false>;
      case Type::kF16x2:
        return c.relu ? pack_halves<false, true> : pack_halves<false, false>;
      case Type::kBF16:
        return c.relu ? nullptr : narrow_half<true>;
      case Type::kF16:
        return c.relu ? nullptr : narrow_half<false>;
      default:
        return nullptr;
    }
  }
  if (c.to == Type::kF32) {
    switch (c.from) {
      case Type::kBF16:
        return widen_half<true>;
      case Type::kF16:
        return widen_half<false>;
      case Type::kS32:
        return whole_to_float<int32_t>;
      case Type::kU32:
        return whole_to_float<uint32_t>;
      default:
        return nullptr;
    }
  }
  return choose_whole(c);
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {
namespace {

/// The lowest bits of x as a From, with its sign.
template <class From, class To>
To low(uint64_t x) {
  if constexpr (std::is_signed_v<From>) {
    constexpr int kUpper = 64 - 8 * static_cast<int>(sizeof(From));
    return static_cast<To>(static_cast<int64_t>(x << kUpper) >> kUpper);
  } else {
    return static_cast<To>(static_cast<From>(x));
  }
}

template <class From, class To>
Step low_bits(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = w.reg<uint64_t>(i.a);
  To* d = w.reg<To>(i.d);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    d[l] = low<From, To>(a[l]);
  }
  return Step::kNext;
}

template <class To>
Handler low_bits_to(Type from) {
  switch (from) {
    case Type::kU8:
      return low_bits<uint8_t, To>;
    case Type::kS8:
      return low_bits<int8_t, To>;
    case Type::kU16:
      return low_bits<uint16_t, To>;
    case Type::kS16:
      return low_bits<int16_t, To>;
    case Type::kU32:
      return low_bits<uint32_t, To>;
    case Type::kS32:
      return low_bits<int32_t, To>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler convert_low_bits(const Conversion& c) {
  if (c.saturate || c.extend != 0) return nullptr;
  switch (c.to) {
    case Type::kU32:
    case Type::kS32:
      return low_bits_to<uint32_t>(c.from);
    case Type::kU64:
    case Type::kS64:
      return low_bits_to<uint64_t>(c.from);
    default:
      return nullptr;
  }
}

Handler convert(const Conversion& c, Inst& inst) {
  if (const Handler fast = FA4_EMULATOR_BEST(fast_conversion(c))) return fast;
  return convert_any(c, inst);
}

}  // namespace fa4::emulator::exec
#endif
