// SPDX-License-Identifier: BSD-3-Clause
// Loops over a warp's lanes, written so that the compiler makes vectors of them; included once per
// Highway target.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "emulator/machine.h"
#include "hwy/highway.h"

/// Before a loop over lanes: they do not depend on each other.
#ifdef __clang__
#define FA4_LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define FA4_LANES_APART _Pragma("GCC ivdep")
#endif

#if defined(FA4_EMULATOR_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_EMULATOR_LANES_INL_H_
#undef FA4_EMULATOR_LANES_INL_H_
#else
#define FA4_EMULATOR_LANES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {

/// What a register holds of a T: 32-bit words for up to 32 bits, 64-bit words for 64.
template <class T>
using Word = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;

template <class T>
HWY_INLINE T from_word(Word<T> x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <class T>
HWY_INLINE Word<T> to_word(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<Word<T>>(x);
  } else {
    return static_cast<Word<T>>(static_cast<std::make_unsigned_t<T>>(x));
  }
}

/// d[lane] = f(lane) for the lanes of the mask. d may be one of f's sources.
template <class D, class F>
HWY_INLINE void for_lanes(D* d, uint32_t mask, F f) {
  if (HWY_LIKELY(mask == kAllLanes)) {
    FA4_LANES_APART
    for (uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = f(lane);
    return;
  }
  FA4_LANES_APART
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const D x = f(lane);
    d[lane] = (mask >> lane & 1) != 0 ? x : d[lane];
  }
}

/// The lanes for which f is true, as a mask.
template <class F>
HWY_INLINE uint32_t mask_of_lanes(F f) {
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(f(lane)) << lane;
  return mask;
}

template <class T, class Op>
Step unary(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>* a = w.reg<Word<T>>(i.a);
  for_lanes(w.reg<Word<T>>(i.d), mask,
            [=](uint32_t l) { return to_word<T>(Op::run(from_word<T>(a[l]))); });
  return Step::kNext;
}

template <class T, class Op>
Step binary(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b);
  for_lanes(w.reg<Word<T>>(i.d), mask, [=](uint32_t l) {
    return to_word<T>(Op::run(from_word<T>(a[l]), from_word<T>(b[l])));
  });
  return Step::kNext;
}

template <class T, class Op>
Step ternary(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b), *c = w.reg<Word<T>>(i.c);
  for_lanes(w.reg<Word<T>>(i.d), mask, [=](uint32_t l) {
    return to_word<T>(Op::run(from_word<T>(a[l]), from_word<T>(b[l]), from_word<T>(c[l])));
  });
  return Step::kNext;
}

/// f(T{}) for T the integer of the type's size and sign; null if there is none.
template <class F>
Handler for_integer_of(Type type, F f) {
  const bool is_signed = ptx::is_signed(type);
  switch (ptx::size_of(type)) {
    case 2:
      return is_signed ? f(int16_t{}) : f(uint16_t{});
    case 4:
      return is_signed ? f(int32_t{}) : f(uint32_t{});
    case 8:
      return is_signed ? f(int64_t{}) : f(uint64_t{});
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#endif
