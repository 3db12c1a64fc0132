// SPDX-License-Identifier: BSD-3-Clause
// Instructions that compilers seldom write: PTX ISA 9.7.1, 9.7.3.1.
#include "emulator/decode/families.h"
#include "emulator/exec/handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::RareOp;

Type take_word(Decoder& d) {
  const auto type = d.mods.take_type();
  if (!type || ptx::size_of(*type) != 4 || ptx::is_float(*type)) {
    d.fail("a type of 32 bits is wanted");
  }
  return *type;
}

void emit_rare(Decoder& d, RareOp op, size_t sources) {
  constexpr Decoder::Field kFields[] = {&Inst::a, &Inst::b, &Inst::c};
  d.want_operands(1 + sources);
  d.write(&Inst::d, d.operand(0), Type::kB32);
  for (size_t i = 0; i < sources; ++i) d.read(kFields[i], d.operand(i + 1), Type::kB32);
  d.emit(exec::rare(op), Class::kInteger);
}

void product24(Decoder& d, RareOp op, size_t sources) {
  d.inst.mod[0] = d.take_high() ? 1 : 0;
  d.inst.mod[1] = ptx::is_signed(take_word(d)) ? 1 : 0;
  emit_rare(d, op, sources);
}
void mul24(Decoder& d) { product24(d, RareOp::kMul24, 2); }
void mad24(Decoder& d) { product24(d, RareOp::kMad24, 3); }

void bits(Decoder& d, RareOp op) {
  const int mode = d.mods.take_one({"clamp", "wrap"});
  if (mode < 0) d.fail(".clamp or .wrap is wanted");
  d.inst.mod[0] = static_cast<uint8_t>(mode);
  d.inst.mod[1] = ptx::is_signed(take_word(d)) ? 1 : 0;
  emit_rare(d, op, 2);
}
void bmsk(Decoder& d) { bits(d, RareOp::kBmsk); }
void szext(Decoder& d) { bits(d, RareOp::kSzext); }

void dp2a(Decoder& d) {
  const bool high = d.take_high();
  const Type a = take_word(d), b = take_word(d);
  d.inst.mod[0] = ptx::is_signed(a) ? 1 : 0;
  d.inst.mod[1] = ptx::is_signed(b) ? 1 : 0;
  d.inst.mod[2] = high ? 1 : 0;
  emit_rare(d, RareOp::kDp2a, 3);
}

void testp(Decoder& d) {
  const int op =
      d.mods.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (op < 0) d.fail("a property is wanted");
  const Type type = d.take_type();
  d.want_operands(2);
  d.inst.mod[0] = static_cast<uint8_t>(op);
  d.write_predicate(&Inst::d, d.operand(0));
  if (d.inst.d == kNone) d.fail("a predicate is wanted");
  d.read(&Inst::a, d.operand(1), type);
  d.emit(exec::test_property(type), Class::kPredicate);
}

constexpr OpcodeEntry kRareOpcodes[] = {{"mul24", mul24}, {"mad24", mad24}, {"bmsk", bmsk},
                                        {"szext", szext}, {"dp2a", dp2a},   {"testp", testp}};

}  // namespace

std::span<const OpcodeEntry> rare_opcodes() { return kRareOpcodes; }

}  // namespace fa4::emulator::decode
