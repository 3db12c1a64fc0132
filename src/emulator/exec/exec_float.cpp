// SPDX-License-Identifier: BSD-3-Clause
// Float32, packed float32 and float64 instructions: PTX ISA 9.7.3.
#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_float.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/float-inl.h"
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

using exec::FloatForm;

template <FloatOp kOp, bool kFlush, bool kSaturate, bool kDirected>
HWY_INLINE uint32_t float_word(uint32_t x, uint32_t y, uint32_t z, Round round) {
  float a = std::bit_cast<float>(x), b = std::bit_cast<float>(y), c = std::bit_cast<float>(z);
  if constexpr (kFlush) a = flush(a), b = flush(b), c = flush(c);
  float r = 0;
  if constexpr (kDirected) {
    r = apply_rounded<kOp>(a, b, c, round);
  } else {
    r = apply<kOp>(a, b, c);
  }
  if constexpr (kFlush) r = flush(r);
  if constexpr (kSaturate) r = clamp_unit(r);
  return std::bit_cast<uint32_t>(r);
}

template <FloatOp kOp, bool kFlush, bool kSaturate, bool kDirected>
Step float32(Warp& w, const Inst& i, uint32_t mask) {
  const auto round = static_cast<Round>(i.mod[0]);
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = operands_of(kOp) >= 2 ? w.reg<uint32_t>(i.b) : a;
  const uint32_t* c = operands_of(kOp) >= 3 ? w.reg<uint32_t>(i.c) : a;
  for_lanes(w.reg<uint32_t>(i.d), mask, [=](uint32_t l) {
    return float_word<kOp, kFlush, kSaturate, kDirected>(a[l], b[l], c[l], round);
  });
  return Step::kNext;
}

/// Two floats in a 64-bit register: 64 words in a row.
template <FloatOp kOp, bool kFlush, bool kDirected>
Step float32x2(Warp& w, const Inst& i, uint32_t mask) {
  const auto round = static_cast<Round>(i.mod[0]);
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = operands_of(kOp) >= 3 ? w.reg<uint32_t>(i.c) : a;
  uint32_t* d = w.reg<uint32_t>(i.d);
  if (mask == kAllLanes) {
    FA4_LANES_APART
    for (uint32_t k = 0; k < 2 * kLanes; ++k) {
      d[k] = float_word<kOp, kFlush, false, kDirected>(a[k], b[k], c[k], round);
    }
    return Step::kNext;
  }
  for (uint32_t k = 0; k < 2 * kLanes; ++k) {
    if ((mask >> (k / 2) & 1) == 0) continue;
    d[k] = float_word<kOp, kFlush, false, kDirected>(a[k], b[k], c[k], round);
  }
  return Step::kNext;
}

/// -0 counts as less than +0; a number wins over a NaN of either kind.
HWY_INLINE double pick_double(double a, double b, bool max) {
  if (std::isnan(a)) return std::isnan(b) ? a + b : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a > b) == max ? a : b;
}

template <FloatOp kOp>
HWY_INLINE double apply_double(double a, double b, double c) {
  switch (kOp) {
    case FloatOp::kAdd:
      return a + b;
    case FloatOp::kSub:
      return a - b;
    case FloatOp::kMul:
      return a * b;
    case FloatOp::kFma:
      return std::fma(a, b, c);
    case FloatOp::kDiv:
      return a / b;
    case FloatOp::kRcp:
      return 1 / a;
    case FloatOp::kSqrt:
      return std::sqrt(a);
    case FloatOp::kRsqrt:
      return 1 / std::sqrt(a);
    case FloatOp::kMin:
      return pick_double(a, b, false);
    case FloatOp::kMax:
      return pick_double(a, b, true);
    // NaNs keep their sign and become quiet.
    case FloatOp::kAbs:
      return std::isnan(a) ? a + a : std::fabs(a);
    case FloatOp::kNeg:
      return std::isnan(a) ? a + a : -a;
    case FloatOp::kCopysign:
      return std::copysign(b, a);
    default:
      return a;
  }
}

template <FloatOp kOp>
Step float64(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = w.reg<uint64_t>(i.a);
  const uint64_t* b = operands_of(kOp) >= 2 ? w.reg<uint64_t>(i.b) : a;
  const uint64_t* c = operands_of(kOp) >= 3 ? w.reg<uint64_t>(i.c) : a;
  for_lanes(w.reg<uint64_t>(i.d), mask, [=](uint32_t l) {
    return std::bit_cast<uint64_t>(apply_double<kOp>(
        std::bit_cast<double>(a[l]), std::bit_cast<double>(b[l]), std::bit_cast<double>(c[l])));
  });
  return Step::kNext;
}

// ---- choice ------------------------------------------------------------------------------------

template <FloatOp kOp>
Handler arithmetic(const FloatForm& f) {
  const bool directed = f.round != Round::kNearest;
  switch (f.type) {
    case Type::kF64:
      return directed || f.flush || f.saturate ? nullptr : float64<kOp>;
    case Type::kF32x2:
      if (f.saturate) return nullptr;
      if (directed) return f.flush ? float32x2<kOp, true, true> : float32x2<kOp, false, true>;
      return f.flush ? float32x2<kOp, true, false> : float32x2<kOp, false, false>;
    case Type::kF32:
      break;
    default:
      return nullptr;
  }
  if (directed) {
    if (f.saturate)
      return f.flush ? float32<kOp, true, true, true> : float32<kOp, false, true, true>;
    return f.flush ? float32<kOp, true, false, true> : float32<kOp, false, false, true>;
  }
  if (f.saturate)
    return f.flush ? float32<kOp, true, true, false> : float32<kOp, false, true, false>;
  return f.flush ? float32<kOp, true, false, false> : float32<kOp, false, false, false>;
}

/// div, rcp, sqrt: float64 to nearest, float32 in every mode.
template <FloatOp kOp>
Handler quotient(const FloatForm& f) {
  if (f.saturate || (f.type != Type::kF32 && f.type != Type::kF64)) return nullptr;
  return arithmetic<kOp>(f);
}

template <FloatOp kOp>
Handler plain(const FloatForm& f) {
  if (f.saturate || f.type != Type::kF32) return nullptr;
  return f.flush ? float32<kOp, true, false, false> : float32<kOp, false, false, false>;
}

template <FloatOp kOp>
Handler plain_or_double(const FloatForm& f) {
  if (f.type == Type::kF64) return f.flush ? nullptr : float64<kOp>;
  return plain<kOp>(f);
}

}  // namespace

Handler float_handler(const FloatForm& f) {
  switch (f.op) {
    case FloatOp::kAdd:
      return arithmetic<FloatOp::kAdd>(f);
    case FloatOp::kSub:
      return arithmetic<FloatOp::kSub>(f);
    case FloatOp::kMul:
      return arithmetic<FloatOp::kMul>(f);
    case FloatOp::kFma:
      return arithmetic<FloatOp::kFma>(f);
    case FloatOp::kMin:
      return plain_or_double<FloatOp::kMin>(f);
    case FloatOp::kMax:
      return plain_or_double<FloatOp::kMax>(f);
    case FloatOp::kAbs:
      return plain_or_double<FloatOp::kAbs>(f);
    case FloatOp::kNeg:
      return plain_or_double<FloatOp::kNeg>(f);
    case FloatOp::kDiv:
      return quotient<FloatOp::kDiv>(f);
    case FloatOp::kRcp:
      return quotient<FloatOp::kRcp>(f);
    case FloatOp::kSqrt:
      return quotient<FloatOp::kSqrt>(f);
    case FloatOp::kRsqrt:
      return plain_or_double<FloatOp::kRsqrt>(f);
    case FloatOp::kCopysign:
      return plain_or_double<FloatOp::kCopysign>(f);
    case FloatOp::kMinNan:
      return plain<FloatOp::kMinNan>(f);
    case FloatOp::kMaxNan:
      return plain<FloatOp::kMaxNan>(f);
    case FloatOp::kMin3:
      return plain<FloatOp::kMin3>(f);
    case FloatOp::kMax3:
      return plain<FloatOp::kMax3>(f);
    case FloatOp::kMinNan3:
      return plain<FloatOp::kMinNan3>(f);
    case FloatOp::kMaxNan3:
      return plain<FloatOp::kMaxNan3>(f);
    case FloatOp::kEx2:
      return plain<FloatOp::kEx2>(f);
    case FloatOp::kLg2:
      return plain<FloatOp::kLg2>(f);
    case FloatOp::kSin:
      return plain<FloatOp::kSin>(f);
    case FloatOp::kCos:
      return plain<FloatOp::kCos>(f);
    case FloatOp::kTanh:
      return plain<FloatOp::kTanh>(f);
    case FloatOp::kDivApprox:
      return plain<FloatOp::kDivApprox>(f);
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler floating(const FloatForm& form, Inst& inst) {
  inst.mod[0] = static_cast<uint8_t>(form.round);
  switch (form.type) {
    case Type::kF16:
    case Type::kBF16:
    case Type::kF16x2:
    case Type::kBF16x2:
      return half_precision(form, inst);
    default:
      return FA4_EMULATOR_BEST(float_handler(form));
  }
}

}  // namespace fa4::emulator::exec
#endif
