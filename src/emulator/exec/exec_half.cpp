// SPDX-License-Identifier: BSD-3-Clause
// 16-bit floats, alone and in pairs: PTX ISA 9.7.4, 9.7.5. Each operation is done in float64,
// which holds sums and products of these formats, and rounded once.
#include <bit>
#include <cmath>

#include "emulator/exec/handlers.h"
#include "emulator/machine.h"

namespace fa4::emulator::exec {
namespace {

/// Makes a sum that float64 rounded show on which side the rest lies, so that rounding it again is
/// right.
double with_rest(double a, double b) {
  const double sum = a + b;
  const double z = sum - a;
  const double rest = (a - (sum - z)) + (b - z);
  if (rest == 0 || !std::isfinite(sum)) return sum;
  const double next = std::nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
  return (std::bit_cast<uint64_t>(sum) & 1) != 0 ? sum : next;
}

double pick(double a, double b, bool max, bool nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (nan || (std::isnan(a) && std::isnan(b))) return NAN;
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a > b) == max ? a : b;
}

double apply(FloatOp op, double a, double b, double c) {
  switch (op) {
    case FloatOp::kAdd:
      return with_rest(a, b);
    case FloatOp::kSub:
      return with_rest(a, -b);
    case FloatOp::kMul:
      return a * b;
    case FloatOp::kFma:
      return with_rest(a * b, c);
    case FloatOp::kMin:
      return pick(a, b, false, false);
    case FloatOp::kMax:
      return pick(a, b, true, false);
    case FloatOp::kMinNan:
      return pick(a, b, false, true);
    case FloatOp::kMaxNan:
      return pick(a, b, true, true);
    case FloatOp::kAbs:
      return std::fabs(a);
    case FloatOp::kNeg:
      return -a;
    case FloatOp::kEx2:
      return std::exp2(a);
    case FloatOp::kTanh:
      return std::tanh(a);
    default:
      return NAN;
  }
}

uint32_t one(FloatOp op, SmallFormat f, bool flush_zero, bool saturate, uint32_t a, uint32_t b,
             uint32_t c) {
  const auto value = [&](uint32_t bits) {
    const double x = decode_small(bits & 0xffff, f);
    return flush_zero && std::fabs(x) < 0x1p-14 ? std::copysign(0.0, x) : x;
  };
  double r = apply(op, value(a), value(b), value(c));
  if (saturate) r = std::isnan(r) ? 0 : std::fmin(std::fmax(r, 0), 1);
  if (flush_zero && std::fabs(r) < 0x1p-14) r = std::copysign(0.0, r);
  return encode_small(r, f, Round::kNearest, false);
}

/// mod[0] operation, mod[1] bfloat16, mod[2] flush, mod[3] saturate, mod[4] halves, mod[5] relu.
Step run(Warp& w, const Inst& i, uint32_t mask) {
  const auto op = static_cast<FloatOp>(i.mod[0]);
  const SmallFormat f = i.mod[1] != 0 ? kBFloat16 : kFloat16;
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = i.b != kNone ? w.reg<uint32_t>(i.b) : a;
  const uint32_t* c = i.c != kNone ? w.reg<uint32_t>(i.c) : a;
  uint32_t* d = w.reg<uint32_t>(i.d);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    uint32_t y = 0;
    for (uint32_t h = 0; h < i.mod[4]; ++h) {
      uint32_t r =
          one(op, f, i.mod[2] != 0, i.mod[3] != 0, a[l] >> 16 * h, b[l] >> 16 * h, c[l] >> 16 * h);
      const bool negative = (r & 0x8000) != 0 && r != 0x8000;
      if (i.mod[5] != 0 && (negative || r == 0x8000)) r = 0;
      y |= r << 16 * h;
    }
    d[l] = y;
  }
  return Step::kNext;
}

}  // namespace

Handler half_precision(const FloatForm& form, Inst& inst) {
  const bool pair = form.type == Type::kF16x2 || form.type == Type::kBF16x2;
  const bool brain = form.type == Type::kBF16 || form.type == Type::kBF16x2;
  if (form.round != Round::kNearest) return nullptr;
  inst.mod[0] = static_cast<uint8_t>(form.op);
  inst.mod[1] = brain ? 1 : 0;
  inst.mod[2] = form.flush ? 1 : 0;
  inst.mod[3] = form.saturate ? 1 : 0;
  inst.mod[4] = pair ? 2 : 1;
  inst.mod[5] = form.relu ? 1 : 0;
  switch (form.op) {
    case FloatOp::kAdd:
    case FloatOp::kSub:
    case FloatOp::kMul:
    case FloatOp::kFma:
    case FloatOp::kMin:
    case FloatOp::kMax:
    case FloatOp::kMinNan:
    case FloatOp::kMaxNan:
    case FloatOp::kAbs:
    case FloatOp::kNeg:
    case FloatOp::kEx2:
    case FloatOp::kTanh:
      return run;
    default:
      return nullptr;
  }
}

}  // namespace fa4::emulator::exec
