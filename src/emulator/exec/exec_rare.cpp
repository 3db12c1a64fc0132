// SPDX-License-Identifier: BSD-3-Clause
// Instructions that compilers seldom write: PTX ISA 9.7.1 (mul24, mad24, bmsk, szext,
// dp2a), 9.7.3.1 (testp).
#include <bit>
#include <cmath>

#include "emulator/exec/handlers.h"
#include "emulator/machine.h"

namespace fa4::emulator::exec {
namespace {

/// The low 24 bits, with their sign if it counts.
int64_t low24(uint32_t x, bool is_signed) {
  const int64_t low = x & 0xffffff;
  return is_signed && (low & 0x800000) != 0 ? low - 0x1000000 : low;
}

/// Bits 0 to 31, or 16 to 47, of the product.
uint32_t mul24(uint32_t a, uint32_t b, const Inst& i) {
  const int64_t product = low24(a, i.mod[1] != 0) * low24(b, i.mod[1] != 0);
  return static_cast<uint32_t>(i.mod[0] != 0 ? product >> 16 : product);
}

/// Ones from bit a on, b of them.
uint32_t bmsk(uint32_t a, uint32_t b, bool wrap) {
  const uint64_t from = wrap ? a & 31 : a, width = wrap ? b & 31 : b;
  const auto ones_from = [](uint64_t bit) { return bit >= 32 ? 0u : ~0u << bit; };
  return ones_from(from) & ~ones_from(from + width);
}

/// The low b bits of a, with their sign if it counts.
uint32_t szext(uint32_t a, uint32_t b, bool wrap, bool is_signed) {
  if (!wrap && b >= 32) return a;
  const uint32_t width = b & 31;
  if (width == 0) return 0;
  const uint32_t mask = ~0u << width;
  const bool negative = is_signed && (a >> (width - 1) & 1) != 0;
  return negative ? a | mask : a & ~mask;
}

/// Two 16-bit numbers of a times two bytes of b, and c.
uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, const Inst& i) {
  for (int k = 0; k < 2; ++k) {
    const uint32_t half = a >> (16 * k) & 0xffff;
    const uint32_t byte = b >> (8 * k + (i.mod[2] != 0 ? 16 : 0)) & 0xff;
    const int32_t x = i.mod[0] != 0 ? static_cast<int16_t>(half) : static_cast<int32_t>(half);
    const int32_t y = i.mod[1] != 0 ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
    c += static_cast<uint32_t>(x) * static_cast<uint32_t>(y);
  }
  return c;
}

template <RareOp kOp>
Step run(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b);
  uint32_t* d = w.reg<uint32_t>(i.d);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    switch (kOp) {
      case RareOp::kMul24:
        d[l] = mul24(a[l], b[l], i);
        break;
      case RareOp::kMad24:
        d[l] = mul24(a[l], b[l], i) + w.reg<uint32_t>(i.c)[l];
        break;
      case RareOp::kBmsk:
        d[l] = bmsk(a[l], b[l], i.mod[0] != 0);
        break;
      case RareOp::kSzext:
        d[l] = szext(a[l], b[l], i.mod[0] != 0, i.mod[1] != 0);
        break;
      case RareOp::kDp2a:
        d[l] = dp2a(a[l], b[l], w.reg<uint32_t>(i.c)[l], i);
        break;
    }
  }
  return Step::kNext;
}

template <class T>
bool has_property(T x, TestOp op) {
  switch (op) {
    case TestOp::kFinite:
      return std::isfinite(x);
    case TestOp::kInfinite:
      return std::isinf(x);
    case TestOp::kNumber:
      return !std::isnan(x);
    case TestOp::kNotANumber:
      return std::isnan(x);
    case TestOp::kNormal:
      return std::isnormal(x) || x == 0;
    case TestOp::kSubnormal:
      return std::fpclassify(x) == FP_SUBNORMAL;
  }
  return false;
}

template <class T, class Bits>
Step test(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t result = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    const T x = std::bit_cast<T>(w.reg<Bits>(i.a)[l]);
    result |= static_cast<uint32_t>(has_property(x, static_cast<TestOp>(i.mod[0]))) << l;
  }
  w.set_lanes(i.d, result, mask);
  return Step::kNext;
}

}  // namespace

Handler rare(RareOp op) {
  switch (op) {
    case RareOp::kMul24:
      return run<RareOp::kMul24>;
    case RareOp::kMad24:
      return run<RareOp::kMad24>;
    case RareOp::kBmsk:
      return run<RareOp::kBmsk>;
    case RareOp::kSzext:
      return run<RareOp::kSzext>;
    case RareOp::kDp2a:
      return run<RareOp::kDp2a>;
  }
  return nullptr;
}

Handler test_property(Type type) {
  if (type == Type::kF32) return test<float, uint32_t>;
  return type == Type::kF64 ? test<double, uint64_t> : nullptr;
}

}  // namespace fa4::emulator::exec
