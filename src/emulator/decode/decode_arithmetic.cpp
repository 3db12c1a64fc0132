// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic: integer (PTX ISA 9.7.1), float (9.7.3 to 9.7.5), logic and shifts (9.7.8).
#include "emulator/decode/families.h"
#include "emulator/exec/handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::FloatForm;
using exec::FloatOp;
using exec::IntegerOp;

constexpr Decoder::Field kSources[] = {&Inst::a, &Inst::b, &Inst::c, &Inst::e};

void emit_integer(Decoder& d, IntegerOp op, Type type, size_t sources) {
  d.want_operands(1 + sources);
  d.write(&Inst::d, d.operand(0), type);
  for (size_t i = 0; i < sources; ++i) d.read(kSources[i], d.operand(i + 1), type);
  d.emit(exec::integer(op, type), Class::kInteger);
}

/// Rounding, flushing, saturation of float instructions.
FloatForm float_form(Decoder& d, FloatOp op, Type type) {
  FloatForm form;
  form.op = op;
  form.type = type;
  const int round = d.mods.take_one({"rn", "rz", "rm", "rp"});
  if (round > 0) form.round = static_cast<Round>(round);
  form.flush = d.mods.take("ftz");
  form.saturate = d.mods.take("sat");
  form.relu = d.mods.take("relu");
  return form;
}

bool is_special(FloatOp op) { return op >= FloatOp::kRcp && op <= FloatOp::kTanh; }

void emit_float(Decoder& d, const FloatForm& form, size_t sources) {
  d.want_operands(1 + sources);
  d.write(&Inst::d, d.operand(0), form.type);
  for (size_t i = 0; i < sources; ++i) d.read(kSources[i], d.operand(i + 1), form.type);
  d.emit(exec::floating(form, d.inst), is_special(form.op) ? Class::kSpecial : Class::kFloat);
}

/// add, sub and fma.f32.f16 or .bf16: all sources but the last are narrow. They are made float32
/// first, which is exact; the sum is rounded once.
void emit_mixed(Decoder& d, const FloatForm& form, Type narrow, size_t sources) {
  if (form.type != Type::kF32 || form.flush || form.relu ||
      (narrow != Type::kF16 && narrow != Type::kBF16)) {
    d.fail("no such mixed form; allowed: .f32.f16 and .f32.bf16");
  }
  d.want_operands(1 + sources);
  uint32_t wide[2] = {};
  for (size_t i = 0; i + 1 < sources; ++i) {
    exec::Conversion widening;
    widening.from = narrow;
    wide[i] = d.temporary(Type::kF32);
    d.use_temporary(&Inst::d, wide[i], true);
    d.read(&Inst::a, d.operand(i + 1), narrow);
    d.emit(exec::convert(widening, d.inst), Class::kConvert);
    d.next_part();
  }
  d.write(&Inst::d, d.operand(0), Type::kF32);
  for (size_t i = 0; i + 1 < sources; ++i) d.use_temporary(kSources[i], wide[i], false);
  d.read(kSources[sources - 1], d.operand(sources), Type::kF32);
  d.emit(exec::floating(form, d.inst), Class::kFloat);
}

/// An instruction of one type, or of a narrow one that it names too.
void emit_float_or_mixed(Decoder& d, FloatOp op, Type type, size_t sources) {
  const auto narrow = d.mods.take_type();
  const FloatForm form = float_form(d, op, type);
  if (narrow) return emit_mixed(d, form, *narrow, sources);
  emit_float(d, form, sources);
}

/// The forms that set the carry (.cc) or take it in (addc, subc, madc): PTX ISA 9.7.2.
void emit_carry(Decoder& d, exec::CarryOp op, Type type, bool takes, bool sets) {
  const uint32_t size = ptx::size_of(type);
  if (ptx::is_float(type) || (size != 4 && size != 8)) d.fail("a type of 32 or 64 bits is wanted");
  const size_t sources = op >= exec::CarryOp::kMadLow ? 3 : 2;
  d.want_operands(1 + sources);
  d.write(&Inst::d, d.operand(0), type);
  for (size_t i = 0; i < sources; ++i) d.read(kSources[i], d.operand(i + 1), type);
  if (takes) d.use_predicate(&Inst::f, d.carry(), false);
  if (sets) d.use_predicate(&Inst::e, d.carry(), true);
  d.emit(exec::carry(op, type), Class::kInteger);
}

template <exec::CarryOp kOp>
void with_carry(Decoder& d) {
  const bool sets = d.mods.take("cc");
  const Type type = d.take_type();
  exec::CarryOp op = kOp;
  if (op == exec::CarryOp::kMadLow) {
    if (d.take_high()) op = exec::CarryOp::kMadHigh;
  }
  emit_carry(d, op, type, true, sets);
}

void add_or_sub(Decoder& d, bool sub) {
  const Type type = d.take_type();
  if (d.mods.take("cc")) {
    return emit_carry(d, sub ? exec::CarryOp::kSub : exec::CarryOp::kAdd, type, false, true);
  }
  if (ptx::is_float(type)) {
    return emit_float_or_mixed(d, sub ? FloatOp::kSub : FloatOp::kAdd, type, 2);
  }
  IntegerOp op = sub ? IntegerOp::kSub : IntegerOp::kAdd;
  if (d.mods.take("sat")) {
    if (type != Type::kS32) d.fail(".sat is for .s32");
    op = sub ? IntegerOp::kSubSaturate : IntegerOp::kAddSaturate;
  }
  emit_integer(d, op, type, 2);
}
void add(Decoder& d) { add_or_sub(d, false); }
void sub(Decoder& d) { add_or_sub(d, true); }

/// Wide forms: sources of the type, result (and addend) twice as wide.
void emit_wide(Decoder& d, IntegerOp op, Type type, size_t sources) {
  const bool is_signed = ptx::is_signed(type);
  const Type twice = ptx::size_of(type) == 2 ? (is_signed ? Type::kS32 : Type::kU32)
                                             : (is_signed ? Type::kS64 : Type::kU64);
  d.want_operands(1 + sources);
  d.write(&Inst::d, d.operand(0), twice);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), type);
  if (sources == 3) d.read(&Inst::c, d.operand(3), twice);
  d.emit(exec::integer(op, type), Class::kInteger);
}

void mul(Decoder& d) {
  const Type type = d.take_type();
  if (ptx::is_float(type)) return emit_float(d, float_form(d, FloatOp::kMul, type), 2);
  switch (d.mods.take_one({"lo", "hi", "wide"})) {
    case 0:
      return emit_integer(d, IntegerOp::kMulLow, type, 2);
    case 1:
      return emit_integer(d, IntegerOp::kMulHigh, type, 2);
    case 2:
      return emit_wide(d, IntegerOp::kMulWide, type, 2);
    default:
      d.fail(".lo, .hi or .wide is wanted");
  }
}

void mad(Decoder& d) {
  const Type type = d.take_type();
  if (ptx::is_float(type)) return emit_float(d, float_form(d, FloatOp::kFma, type), 3);
  if (d.mods.take("cc")) {
    const bool high = d.take_high();
    return emit_carry(d, high ? exec::CarryOp::kMadHigh : exec::CarryOp::kMadLow, type, false,
                      true);
  }
  switch (d.mods.take_one({"lo", "hi", "wide"})) {
    case 0:
      return emit_integer(d, IntegerOp::kMadLow, type, 3);
    case 1:
      return emit_integer(d, IntegerOp::kMadHigh, type, 3);
    case 2:
      return emit_wide(d, IntegerOp::kMadWide, type, 3);
    default:
      d.fail(".lo, .hi or .wide is wanted");
  }
}

void fma(Decoder& d) { emit_float_or_mixed(d, FloatOp::kFma, d.take_type(), 3); }

void div(Decoder& d) {
  const Type type = d.take_type();
  if (!ptx::is_float(type)) return emit_integer(d, IntegerOp::kDiv, type, 2);
  const bool approx = d.mods.take_one({"full", "approx"}) == 1;
  emit_float(d, float_form(d, approx ? FloatOp::kDivApprox : FloatOp::kDiv, type), 2);
}

void rem(Decoder& d) { emit_integer(d, IntegerOp::kRem, d.take_type(), 2); }

void min_or_max(Decoder& d, bool max) {
  const Type type = d.take_type();
  if (!ptx::is_float(type)) {
    return emit_integer(d, max ? IntegerOp::kMax : IntegerOp::kMin, type, 2);
  }
  const bool nan = d.mods.take("NaN");
  const bool three = d.operand_count() == 4;
  FloatOp op =
      max ? (nan ? FloatOp::kMaxNan : FloatOp::kMax) : (nan ? FloatOp::kMinNan : FloatOp::kMin);
  if (three) {
    op = max ? (nan ? FloatOp::kMaxNan3 : FloatOp::kMax3)
             : (nan ? FloatOp::kMinNan3 : FloatOp::kMin3);
  }
  emit_float(d, float_form(d, op, type), three ? 3 : 2);
}
void min(Decoder& d) { min_or_max(d, false); }
void max(Decoder& d) { min_or_max(d, true); }

template <IntegerOp kInteger, FloatOp kFloat>
void integer_or_float_unary(Decoder& d) {
  const Type type = d.take_type();
  if (ptx::is_float(type)) return emit_float(d, float_form(d, kFloat, type), 1);
  emit_integer(d, kInteger, type, 1);
}

template <FloatOp kOp>
void float_unary(Decoder& d) {
  const Type type = d.take_type();
  d.mods.take("approx");
  emit_float(d, float_form(d, kOp, type), 1);
}

void copysign(Decoder& d) { emit_float(d, float_form(d, FloatOp::kCopysign, d.take_type()), 2); }

void sad(Decoder& d) { emit_integer(d, IntegerOp::kSad, d.take_type(), 3); }

void logic_op(Decoder& d, IntegerOp op, exec::PredicateOp predicate) {
  const Type type = d.take_type();
  const bool one = op == IntegerOp::kNot;
  if (type != Type::kPred) return emit_integer(d, op, type, one ? 1 : 2);
  d.want_operands(one ? 2 : 3);
  d.write_predicate(&Inst::d, d.operand(0));
  d.read_predicate(&Inst::a, d.operand(1));
  if (!one) d.read_predicate(&Inst::b, d.operand(2));
  d.emit(exec::predicate(predicate), Class::kPredicate);
}
void bit_and(Decoder& d) { logic_op(d, IntegerOp::kAnd, exec::PredicateOp::kAnd); }
void bit_or(Decoder& d) { logic_op(d, IntegerOp::kOr, exec::PredicateOp::kOr); }
void bit_xor(Decoder& d) { logic_op(d, IntegerOp::kXor, exec::PredicateOp::kXor); }
void bit_not(Decoder& d) { logic_op(d, IntegerOp::kNot, exec::PredicateOp::kNot); }

template <IntegerOp kOp>
void one_type_unary(Decoder& d) {
  emit_integer(d, kOp, d.take_type(), 1);
}

/// The second source is a 32-bit number whatever the type.
template <IntegerOp kOp>
void shift(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(3);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), Type::kU32);
  d.emit(exec::integer(kOp, type), Class::kInteger);
}

/// popc, clz, bfind: 32 bits come out.
template <IntegerOp kOp>
void count(Decoder& d) {
  IntegerOp op = kOp;
  if (op == IntegerOp::kBfind && d.mods.take("shiftamt")) op = IntegerOp::kBfindShift;
  const Type type = d.take_type();
  d.want_operands(2);
  d.write(&Inst::d, d.operand(0), Type::kU32);
  d.read(&Inst::a, d.operand(1), type);
  d.emit(exec::integer(op, type), Class::kInteger);
}

void bfe(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(4);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), Type::kU32);
  d.read(&Inst::c, d.operand(3), Type::kU32);
  d.emit(exec::integer(IntegerOp::kBfe, type), Class::kInteger);
}

void bfi(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(5);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), type);
  d.read(&Inst::c, d.operand(3), Type::kU32);
  d.read(&Inst::e, d.operand(4), Type::kU32);
  d.emit(exec::integer(IntegerOp::kBfi, type), Class::kInteger);
}

void shf(Decoder& d) {
  const bool left = d.mods.take("l");
  if (!left && !d.mods.take("r")) d.fail(".l or .r is wanted");
  const bool wrap = d.mods.take("wrap");
  if (!wrap && !d.mods.take("clamp")) d.fail(".wrap or .clamp is wanted");
  const Type type = d.take_type();
  const IntegerOp op = left ? (wrap ? IntegerOp::kShfLeftWrap : IntegerOp::kShfLeftClamp)
                            : (wrap ? IntegerOp::kShfRightWrap : IntegerOp::kShfRightClamp);
  emit_integer(d, op, type, 3);
}

void lop3(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(5);
  d.write(&Inst::d, d.operand(0), type);
  for (size_t i = 0; i < 3; ++i) d.read(kSources[i], d.operand(i + 1), type);
  d.inst.imm = d.immediate(d.operand(4), 0, 255);
  d.emit(exec::integer(IntegerOp::kLop3, type), Class::kInteger);
}

void prmt(Decoder& d) {
  const int mode = d.mods.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  d.inst.mod[0] = static_cast<uint8_t>(mode + 1);
  emit_integer(d, IntegerOp::kPrmt, d.take_type(), 3);
}

void dp4a(Decoder& d) {
  const Type a = d.take_type(), b = d.take_type();
  d.inst.mod[0] = ptx::is_signed(a) ? 1 : 0;
  d.inst.mod[1] = ptx::is_signed(b) ? 1 : 0;
  emit_integer(d, IntegerOp::kDp4a, Type::kU32, 3);
}

constexpr OpcodeEntry kArithmeticOpcodes[] = {
    {"add", add},
    {"sub", sub},
    {"addc", with_carry<exec::CarryOp::kAdd>},
    {"subc", with_carry<exec::CarryOp::kSub>},
    {"madc", with_carry<exec::CarryOp::kMadLow>},
    {"mul", mul},
    {"mad", mad},
    {"fma", fma},
    {"div", div},
    {"rem", rem},
    {"min", min},
    {"max", max},
    {"abs", integer_or_float_unary<IntegerOp::kAbs, FloatOp::kAbs>},
    {"neg", integer_or_float_unary<IntegerOp::kNeg, FloatOp::kNeg>},
    {"rcp", float_unary<FloatOp::kRcp>},
    {"sqrt", float_unary<FloatOp::kSqrt>},
    {"rsqrt", float_unary<FloatOp::kRsqrt>},
    {"ex2", float_unary<FloatOp::kEx2>},
    {"lg2", float_unary<FloatOp::kLg2>},
    {"sin", float_unary<FloatOp::kSin>},
    {"cos", float_unary<FloatOp::kCos>},
    {"tanh", float_unary<FloatOp::kTanh>},
    {"copysign", copysign},
    {"sad", sad},
    {"and", bit_and},
    {"or", bit_or},
    {"xor", bit_xor},
    {"not", bit_not},
    {"cnot", one_type_unary<IntegerOp::kCnot>},
    {"brev", one_type_unary<IntegerOp::kBrev>},
    {"shl", shift<IntegerOp::kShl>},
    {"shr", shift<IntegerOp::kShr>},
    {"popc", count<IntegerOp::kPopc>},
    {"clz", count<IntegerOp::kClz>},
    {"bfind", count<IntegerOp::kBfind>},
    {"bfe", bfe},
    {"bfi", bfi},
    {"shf", shf},
    {"lop3", lop3},
    {"prmt", prmt},
    {"dp4a", dp4a},
};

}  // namespace

std::span<const OpcodeEntry> arithmetic_opcodes() { return kArithmeticOpcodes; }

}  // namespace fa4::emulator::decode
