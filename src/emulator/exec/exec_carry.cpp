// SPDX-License-Identifier: BSD-3-Clause
// Extended-precision arithmetic: PTX ISA 9.7.2. The carry flag is a predicate of each lane.
#include "emulator/exec/handlers.h"
#include "emulator/machine.h"

namespace fa4::emulator::exec {
namespace {

template <class T>
struct Sum {
  T value;
  bool carry;
};

template <class T>
Sum<T> add(T a, T b, bool carry) {
  Sum<T> s{};
  const bool first = __builtin_add_overflow(a, b, &s.value);
  const bool second = __builtin_add_overflow(s.value, static_cast<T>(carry ? 1 : 0), &s.value);
  s.carry = first || second;
  return s;
}

/// The flag of a subtraction is its borrow.
template <class T>
Sum<T> sub(T a, T b, bool borrow) {
  Sum<T> s{};
  const bool first = __builtin_sub_overflow(a, b, &s.value);
  const bool second = __builtin_sub_overflow(s.value, static_cast<T>(borrow ? 1 : 0), &s.value);
  s.carry = first || second;
  return s;
}

/// The upper half of a product; of signed numbers if kSigned.
template <bool kSigned, class T>
T high(T a, T b) {
  using Number = std::conditional_t<kSigned, std::make_signed_t<T>, T>;
  return static_cast<T>(high_product(static_cast<Number>(a), static_cast<Number>(b)));
}

template <class T, CarryOp kOp, bool kSigned>
Step run(Warp& w, const Inst& i, uint32_t mask) {
  const T *a = w.reg<T>(i.a), *b = w.reg<T>(i.b);
  T* d = w.reg<T>(i.d);
  const uint32_t in = i.f == kNone ? 0 : w.lanes_of(i.f);
  uint32_t out = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(__builtin_ctz(rest));
    const bool carry = (in >> l & 1) != 0;
    Sum<T> s{};
    if constexpr (kOp == CarryOp::kAdd) {
      s = add(a[l], b[l], carry);
    } else if constexpr (kOp == CarryOp::kSub) {
      s = sub(a[l], b[l], carry);
    } else {
      const T c = w.reg<T>(i.c)[l];
      const T product =
          kOp == CarryOp::kMadLow ? static_cast<T>(a[l] * b[l]) : high<kSigned>(a[l], b[l]);
      s = add(product, c, carry);
    }
    d[l] = s.value;
    out |= static_cast<uint32_t>(s.carry) << l;
  }
  if (i.e != kNone) w.set_lanes(i.e, out, mask);
  return Step::kNext;
}

template <class T, bool kSigned>
Handler choose(CarryOp op) {
  switch (op) {
    case CarryOp::kAdd:
      return run<T, CarryOp::kAdd, kSigned>;
    case CarryOp::kSub:
      return run<T, CarryOp::kSub, kSigned>;
    case CarryOp::kMadLow:
      return run<T, CarryOp::kMadLow, kSigned>;
    case CarryOp::kMadHigh:
      return run<T, CarryOp::kMadHigh, kSigned>;
  }
  return nullptr;
}

}  // namespace

Handler carry(CarryOp op, Type type) {
  const bool is_signed = ptx::is_signed(type);
  if (ptx::size_of(type) == 4) {
    return is_signed ? choose<uint32_t, true>(op) : choose<uint32_t, false>(op);
  }
  return is_signed ? choose<uint64_t, true>(op) : choose<uint64_t, false>(op);
}

}  // namespace fa4::emulator::exec
