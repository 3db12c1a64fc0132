// SPDX-License-Identifier: BSD-3-Clause
// Comparisons, selection and logic of predicates: PTX ISA 9.7.6, 9.7.8.
#include <cmath>

#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_predicate.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

using exec::Combine;
using exec::Compare;
using exec::PredicateOp;

uint32_t combine(uint8_t how, uint32_t a, uint32_t b) {
  switch (static_cast<Combine>(how)) {
    case Combine::kAnd:
      return a & b;
    case Combine::kOr:
      return a | b;
    case Combine::kXor:
      return a ^ b;
    default:
      return a;
  }
}

template <class T, Compare kCompare>
HWY_INLINE bool holds(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kCompare) {
      case Compare::kEqu:
        return !(a < b) && !(a > b);
      case Compare::kNeu:
        return !(a == b);
      case Compare::kLtu:
        return !(a >= b);
      case Compare::kLeu:
        return !(a > b);
      case Compare::kGtu:
        return !(a <= b);
      case Compare::kGeu:
        return !(a < b);
      case Compare::kNum:
        return a <= b || a > b;
      case Compare::kNan:
        return !(a <= b || a > b);
      case Compare::kNe:
        return a < b || a > b;
      default:
        break;
    }
  }
  switch (kCompare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return a != b;
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    default:
      return false;
  }
}

Step set_predicates(Warp& w, const Inst& i, uint32_t mask, uint32_t result) {
  const uint32_t other = i.c == kNone ? 0 : w.lanes_of(i.c);
  const uint32_t second = combine(i.mod[0], ~result, other);
  w.set_lanes(i.d, combine(i.mod[0], result, other), mask);
  if (i.e != kNone) w.set_lanes(i.e, second, mask);
  return Step::kNext;
}

template <class T, Compare kCompare, bool kFlush>
Step setp(Warp& w, const Inst& i, uint32_t mask) {
  const Word<T>*a = w.reg<Word<T>>(i.a), *b = w.reg<Word<T>>(i.b);
  return set_predicates(w, i, mask, mask_of_lanes([=](uint32_t l) {
                          T x = from_word<T>(a[l]), y = from_word<T>(b[l]);
                          if constexpr (kFlush) x = flush(x), y = flush(y);
                          return holds<T, kCompare>(x, y);
                        }));
}

template <bool kBrain, Compare kCompare>
Step setp_half(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b);
  return set_predicates(w, i, mask, mask_of_lanes([=](uint32_t l) {
                          const float x = kBrain ? from_bfloat16(a[l]) : from_float16(a[l]);
                          const float y = kBrain ? from_bfloat16(b[l]) : from_float16(b[l]);
                          return holds<float, kCompare>(x, y);
                        }));
}

template <class T>
Step selp(Warp& w, const Inst& i, uint32_t mask) {
  const T *a = w.reg<T>(i.a), *b = w.reg<T>(i.b);
  const uint32_t p = w.lanes_of(i.c);
  for_lanes(w.reg<T>(i.d), mask, [=](uint32_t l) { return (p >> l & 1) != 0 ? a[l] : b[l]; });
  return Step::kNext;
}

template <PredicateOp kOp>
Step logic(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t a = w.lanes_of(i.a);
  uint32_t result = a;
  if constexpr (kOp == PredicateOp::kAnd) result = a & w.lanes_of(i.b);
  if constexpr (kOp == PredicateOp::kOr) result = a | w.lanes_of(i.b);
  if constexpr (kOp == PredicateOp::kXor) result = a ^ w.lanes_of(i.b);
  if constexpr (kOp == PredicateOp::kNot) result = ~a;
  w.set_lanes(i.d, result, mask);
  return Step::kNext;
}

// ---- choice ------------------------------------------------------------------------------------

struct Types {
  Type type;
  bool flush;
};

template <Compare kCompare>
Handler choose_type(Types t) {
  constexpr bool kOrdered = kCompare <= Compare::kGe;
  switch (t.type) {
    case Type::kF32:
      return t.flush ? setp<float, kCompare, true> : setp<float, kCompare, false>;
    case Type::kF64:
      return setp<double, kCompare, false>;
    case Type::kF16:
      return setp_half<false, kCompare>;
    case Type::kBF16:
      return setp_half<true, kCompare>;
    default:
      break;
  }
  if constexpr (kOrdered) {
    switch (t.type) {
      case Type::kS16:
        return setp<int16_t, kCompare, false>;
      case Type::kS32:
        return setp<int32_t, kCompare, false>;
      case Type::kS64:
        return setp<int64_t, kCompare, false>;
      case Type::kU16:
      case Type::kB16:
        return setp<uint16_t, kCompare, false>;
      case Type::kU32:
      case Type::kB32:
        return setp<uint32_t, kCompare, false>;
      case Type::kU64:
      case Type::kB64:
        return setp<uint64_t, kCompare, false>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

Handler setp_handler(Compare compare, Type type, bool flush) {
  const Types t{type, flush};
  switch (compare) {
    case Compare::kEq:
      return choose_type<Compare::kEq>(t);
    case Compare::kNe:
      return choose_type<Compare::kNe>(t);
    case Compare::kLt:
      return choose_type<Compare::kLt>(t);
    case Compare::kLe:
      return choose_type<Compare::kLe>(t);
    case Compare::kGt:
      return choose_type<Compare::kGt>(t);
    case Compare::kGe:
      return choose_type<Compare::kGe>(t);
    case Compare::kEqu:
      return choose_type<Compare::kEqu>(t);
    case Compare::kNeu:
      return choose_type<Compare::kNeu>(t);
    case Compare::kLtu:
      return choose_type<Compare::kLtu>(t);
    case Compare::kLeu:
      return choose_type<Compare::kLeu>(t);
    case Compare::kGtu:
      return choose_type<Compare::kGtu>(t);
    case Compare::kGeu:
      return choose_type<Compare::kGeu>(t);
    case Compare::kNum:
      return choose_type<Compare::kNum>(t);
    case Compare::kNan:
      return choose_type<Compare::kNan>(t);
  }
  return nullptr;
}

Handler selp_handler(uint32_t bytes) { return bytes == 8 ? selp<uint64_t> : selp<uint32_t>; }

Handler predicate_handler(PredicateOp op) {
  switch (op) {
    case PredicateOp::kAnd:
      return logic<PredicateOp::kAnd>;
    case PredicateOp::kOr:
      return logic<PredicateOp::kOr>;
    case PredicateOp::kXor:
      return logic<PredicateOp::kXor>;
    case PredicateOp::kNot:
      return logic<PredicateOp::kNot>;
    case PredicateOp::kMove:
      return logic<PredicateOp::kMove>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler setp(Compare compare, Type type, bool flush) {
  return FA4_EMULATOR_BEST(setp_handler(compare, type, flush));
}
Handler selp(uint32_t bytes) { return FA4_EMULATOR_BEST(selp_handler(bytes)); }
Handler predicate(PredicateOp op) { return FA4_EMULATOR_BEST(predicate_handler(op)); }

}  // namespace fa4::emulator::exec
#endif
