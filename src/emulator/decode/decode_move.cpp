// SPDX-License-Identifier: BSD-3-Clause
// Moves, conversions, comparisons, selection: PTX ISA 9.7.6, 9.7.9.1, 9.7.9.2, 9.7.9.21.
#include "emulator/decode/families.h"
#include "emulator/exec/handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::Conversion;
using Kind = Operand::Kind;

Type bits_type(uint32_t bytes) {
  switch (bytes) {
    case 1:
      return Type::kB8;
    case 2:
      return Type::kB16;
    case 4:
      return Type::kB32;
    default:
      return Type::kB64;
  }
}

/// mov.b32 %r, {%rs1, %rs2} and back.
void mov_vector(Decoder& d, Type type, bool pack) {
  const Operand& vector = d.operand(pack ? 1 : 0);
  const uint32_t total = ptx::size_of(type);
  const auto parts = static_cast<uint32_t>(vector.parts.size());
  if (parts == 0 || total % parts != 0 || total == parts * total)
    d.fail("a vector that does not fit");
  const uint32_t bytes = total / parts;
  const Type part = bits_type(bytes);
  if (pack) {
    d.write(&Inst::d, d.operand(0), type);
    d.read_list(vector, part, bytes == 1);
    d.emit(exec::pack(bytes, total), Class::kMove);
  } else {
    d.read(&Inst::a, d.operand(1), type);
    d.write_list(vector, part, bytes == 1);
    d.emit(exec::unpack(bytes, total), Class::kMove);
  }
}

void mov(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(2);
  if (type == Type::kPred) {
    d.write_predicate(&Inst::d, d.operand(0));
    d.read_predicate(&Inst::a, d.operand(1));
    return d.emit(exec::predicate(exec::PredicateOp::kMove), Class::kPredicate);
  }
  if (d.operand(0).kind == Kind::kVector) return mov_vector(d, type, false);
  if (d.operand(1).kind == Kind::kVector) return mov_vector(d, type, true);
  d.write(&Inst::d, d.operand(0), type);
  const std::string_view source = d.operand(1).name;
  if (source == "%clock" || source == "%clock64" || source == "%globaltimer" ||
      source == "%clock_hi" || source == "%globaltimer_lo" || source == "%globaltimer_hi") {
    return d.emit(exec::read_clock(ptx::size_of(type)), Class::kMove);
  }
  d.read(&Inst::a, d.operand(1), type);
  d.emit(exec::move(ptx::size_of(type)), Class::kMove);
}

void take_rounding(Decoder& d, Conversion& c) {
  switch (d.mods.take_one({"rn", "rz", "rm", "rp", "rna"})) {
    case 1:
      c.round = Round::kZero;
      break;
    case 2:
      c.round = Round::kDown;
      break;
    case 3:
      c.round = Round::kUp;
      break;
    case 4:
      c.round = Round::kNearestAway;
      break;
    default:
      break;
  }
  switch (d.mods.take_one({"rni", "rzi", "rmi", "rpi"})) {
    case 0:
      c.round = Round::kNearest;
      c.to_whole = true;
      break;
    case 1:
      c.round = Round::kZero;
      c.to_whole = true;
      break;
    case 2:
      c.round = Round::kDown;
      c.to_whole = true;
      break;
    case 3:
      c.round = Round::kUp;
      c.to_whole = true;
      break;
    default:
      break;
  }
}

void cvt(Decoder& d) {
  if (d.mods.take("pack")) d.fail("cvt.pack is not supported");
  Conversion c;
  take_rounding(d, c);
  c.to = d.take_type();
  c.from = d.take_type();
  c.flush = d.mods.take("ftz");
  c.finite = d.mods.take("satfinite");
  c.saturate = d.mods.take("sat");
  c.relu = d.mods.take("relu");
  const bool two = d.operand_count() == 3;
  d.want_operands(two ? 3 : 2);
  const bool pairs = ptx::size_of(c.to) <= 4 && (c.to == Type::kF16x2 || c.to == Type::kBF16x2 ||
                                                 c.to == Type::kE4M3x2 || c.to == Type::kE5M2x2);
  if (two != (pairs && c.from == Type::kF32)) d.fail("this number of operands does not fit");
  const uint32_t bytes = d.write(&Inst::d, d.operand(0), c.to, true);
  const auto declared = d.declared(d.operand(0));
  const uint32_t width = declared ? ptx::size_of(*declared) : 0;
  if (!ptx::is_float(c.to) && width > ptx::size_of(c.to) && (ptx::is_signed(c.to) || width > 4)) {
    c.extend = static_cast<uint8_t>(width);
  } else if (bytes > 4 && ptx::size_of(c.to) <= 4) {
    d.fail("a 64-bit register for a narrow result");
  }
  if (d.read(&Inst::a, d.operand(1), c.from, true) > 4 && ptx::size_of(c.from) <= 4) {
    const Handler low_bits = exec::convert_low_bits(c);
    if (low_bits == nullptr) d.fail("this conversion of a number in a 64-bit register");
    return d.emit(low_bits, Class::kConvert);
  }
  if (two) d.read(&Inst::b, d.operand(2), c.from);
  d.emit(exec::convert(c, d.inst), Class::kConvert);
}

exec::Compare comparison(Decoder& d, Type type) {
  using exec::Compare;
  const int i = d.mods.take_one({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu",
                                 "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs"});
  if (i < 0) d.fail("a comparison is wanted");
  if (i < 14) return static_cast<Compare>(i);
  if (ptx::is_float(type) || ptx::is_signed(type)) d.fail("an unsigned comparison of that type");
  constexpr Compare kUnsigned[] = {Compare::kLt, Compare::kLe, Compare::kGt, Compare::kGe};
  return kUnsigned[i - 14];
}

void setp(Decoder& d) {
  const Type type = d.take_type();
  const exec::Compare compare = comparison(d, type);
  const int combine = d.mods.take_one({"and", "or", "xor"});
  const bool flush = d.mods.take("ftz");
  d.inst.mod[0] = static_cast<uint8_t>(combine + 1);
  d.want_operands(combine < 0 ? 3 : 4);
  const Operand& result = d.operand(0);
  if (result.kind == Kind::kPair) {
    d.write_predicate(&Inst::d, result.parts[0]);
    d.write_predicate(&Inst::e, result.parts[1]);
  } else {
    d.write_predicate(&Inst::d, result);
  }
  if (d.inst.d == kNone) d.fail("a predicate is wanted");
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), type);
  if (combine >= 0) d.read_predicate(&Inst::c, d.operand(3));
  d.emit(exec::setp(compare, type, flush), Class::kPredicate);
}

void selp(Decoder& d) {
  const Type type = d.take_type();
  d.want_operands(4);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), type);
  d.read_predicate(&Inst::c, d.operand(3));
  d.emit(exec::selp(ptx::size_of(type)), Class::kPredicate);
}

/// d = p ? a : b, the second part of instructions that make p first.
void emit_selection(Decoder& d, Type type, uint32_t p) {
  d.use_predicate(&Inst::c, p, false);
  d.emit(exec::selp(ptx::size_of(type)), Class::kPredicate);
}

/// set.compare{.and}.dtype.stype d, a, b{, c}: ones (or 1.0) where it holds, else 0.
void set(Decoder& d) {
  const Type result = d.take_type(), type = d.take_type();
  if (result != Type::kU32 && result != Type::kS32 && result != Type::kF32) {
    d.fail("a result of another type than .u32, .s32, .f32 is not supported");
  }
  const exec::Compare compare = comparison(d, type);
  const int combine = d.mods.take_one({"and", "or", "xor"});
  const bool flush = d.mods.take("ftz");
  d.want_operands(combine < 0 ? 3 : 4);
  const uint32_t p = d.temporary_predicate();
  d.inst.mod[0] = static_cast<uint8_t>(combine + 1);
  d.use_predicate(&Inst::d, p, true);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), type);
  if (combine >= 0) d.read_predicate(&Inst::c, d.operand(3));
  d.emit(exec::setp(compare, type, flush), Class::kPredicate);
  d.next_part();
  d.write(&Inst::d, d.operand(0), result);
  d.constant(&Inst::a, result == Type::kF32 ? 0x3f800000 : 0xffffffff, 4);
  d.constant(&Inst::b, 0, 4);
  emit_selection(d, result, p);
}

/// slct.dtype.ctype d, a, b, c: a where c >= 0, else (c is NaN too) b.
void slct(Decoder& d) {
  const Type result = d.take_type(), type = d.take_type();
  if (type != Type::kS32 && type != Type::kF32) d.fail(".s32 or .f32 is wanted");
  const bool flush = d.mods.take("ftz");
  d.want_operands(4);
  const uint32_t p = d.temporary_predicate();
  d.use_predicate(&Inst::d, p, true);
  d.read(&Inst::a, d.operand(3), type);
  d.constant(&Inst::b, 0, 4);
  d.emit(exec::setp(exec::Compare::kGe, type, flush), Class::kPredicate);
  d.next_part();
  d.write(&Inst::d, d.operand(0), result);
  d.read(&Inst::a, d.operand(1), result);
  d.read(&Inst::b, d.operand(2), result);
  emit_selection(d, result, p);
}

constexpr OpcodeEntry kMoveOpcodes[] = {{"mov", mov},   {"cvt", cvt}, {"setp", setp},
                                        {"selp", selp}, {"set", set}, {"slct", slct}};

}  // namespace

std::span<const OpcodeEntry> move_opcodes() { return kMoveOpcodes; }

}  // namespace fa4::emulator::decode
