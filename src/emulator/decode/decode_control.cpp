// SPDX-License-Identifier: BSD-3-Clause
// Control flow and communication within a warp: PTX ISA 9.7.12, 9.7.9.6, 9.7.13.
#include <algorithm>

#include "emulator/decode/families.h"
#include "emulator/exec/handlers.h"
#include "emulator/exec/warp_handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::WarpOp;
using Kind = Operand::Kind;

void bra(Decoder& d) {
  d.mods.take("uni");
  d.want_operands(1);
  d.branch_to(d.operand(0));
  d.emit(exec::warp_handler(WarpOp::kBranch), Class::kControl, kBranch);
}

void ret(Decoder& d) {
  d.mods.take("uni");
  if (d.return_from_call()) {
    return d.emit(exec::warp_handler(WarpOp::kBranch), Class::kControl, kBranch);
  }
  d.emit(exec::warp_handler(WarpOp::kExit), Class::kControl, kEnds);
}

void exit(Decoder& d) { d.emit(exec::warp_handler(WarpOp::kExit), Class::kControl, kEnds); }

void call(Decoder& d) {
  d.mods.take("uni");
  d.call();
}

/// brx.idx a, table: a comparison and a branch for each label. In lanes whose guard does not hold
/// the predicate stays false, and they go on.
void brx(Decoder& d) {
  if (!d.mods.take("idx")) d.fail(".idx is wanted");
  d.mods.take("uni");
  d.want_operands(2);
  const std::string_view name = d.operand(1).name;
  const auto& tables = d.function().tables;
  const auto table = std::find_if(tables.begin(), tables.end(),
                                  [&](const ptx::BranchTable& t) { return t.name == name; });
  if (table == tables.end()) d.fail(std::string(name) + " is no list of labels");
  const uint32_t here = d.temporary_predicate();
  if (d.inst.guard != kNone) {
    d.next_part(false);
    d.use_predicate(&Inst::d, here, true);
    Operand never;
    never.kind = Kind::kInteger;
    d.read_predicate(&Inst::a, never);
    d.emit(exec::predicate(exec::PredicateOp::kMove), Class::kPredicate);
  }
  for (size_t i = 0; i < table->labels.size(); ++i) {
    d.next_part();
    d.use_predicate(&Inst::d, here, true);
    d.read(&Inst::a, d.operand(0), Type::kU32);
    d.constant(&Inst::b, i, 4);
    d.emit(exec::setp(exec::Compare::kEq, Type::kU32, false), Class::kPredicate);
    d.next_part(false);
    d.use_predicate(&Inst::guard, here, false);
    d.branch_to(table->labels[i]);
    d.emit(exec::warp_handler(WarpOp::kBranch), Class::kControl, kBranch);
  }
  d.next_part();
  d.emit(exec::warp_handler(WarpOp::kBadIndex), Class::kControl, kEnds);
}

void trap(Decoder& d) { d.emit(exec::warp_handler(WarpOp::kTrap), Class::kControl, kEnds); }

void want_sync(Decoder& d) {
  if (!d.mods.take("sync")) d.fail("only the .sync form is supported");
}

/// shfl.sync.mode.b32 d|p, a, b, c, members
void shfl(Decoder& d) {
  want_sync(d);
  const int mode = d.mods.take_one({"up", "down", "bfly", "idx"});
  if (mode < 0) d.fail("a mode is wanted");
  const Type type = d.take_type();
  if (ptx::size_of(type) != 4) d.fail("a 32-bit type is wanted");
  d.want_operands(5);
  d.inst.mod[0] = static_cast<uint8_t>(mode);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Kind::kPair;
  d.write(&Inst::d, pair ? result.parts[0] : result, type);
  if (pair) d.write_predicate(&Inst::e, result.parts[1]);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), Type::kB32);
  d.read(&Inst::c, d.operand(3), Type::kB32);
  d.read(&Inst::f, d.operand(4), Type::kB32);
  d.emit(exec::warp_handler(WarpOp::kShuffle), Class::kWarp);
}

void vote(Decoder& d) {
  want_sync(d);
  const int mode = d.mods.take_one({"all", "any", "uni", "ballot"});
  if (mode < 0) d.fail("a mode is wanted");
  const bool ballot = mode == 3;
  if (!d.mods.take(ballot ? "b32" : "pred")) d.fail("another type is wanted");
  d.want_operands(3);
  d.inst.mod[0] = static_cast<uint8_t>(mode);
  if (ballot) {
    d.write(&Inst::d, d.operand(0), Type::kB32);
  } else {
    d.write_predicate(&Inst::d, d.operand(0));
    if (d.inst.d == kNone) d.fail("a result is wanted");
  }
  d.read_predicate(&Inst::a, d.operand(1));
  d.read(&Inst::f, d.operand(2), Type::kB32);
  d.emit(exec::warp_handler(WarpOp::kVote), Class::kWarp);
}

void elect(Decoder& d) {
  want_sync(d);
  d.want_operands(2);
  const Operand& result = d.operand(0);
  if (result.kind != Kind::kPair) d.fail("a register and a predicate are wanted");
  d.write(&Inst::d, result.parts[0], Type::kB32);
  d.write_predicate(&Inst::e, result.parts[1]);
  d.read(&Inst::f, d.operand(1), Type::kB32);
  d.emit(exec::warp_handler(WarpOp::kElect), Class::kWarp);
}

void match(Decoder& d) {
  const bool all = d.mods.take("all");
  if (!all && !d.mods.take("any")) d.fail(".all or .any is wanted");
  want_sync(d);
  const Type type = d.take_type();
  d.want_operands(3);
  d.inst.mod[0] = all ? 1 : 0;
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Kind::kPair;
  d.write(&Inst::d, pair ? result.parts[0] : result, Type::kB32);
  if (pair) d.write_predicate(&Inst::e, result.parts[1]);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::f, d.operand(2), Type::kB32);
  d.emit(exec::warp_handler(ptx::size_of(type) == 8 ? WarpOp::kMatch64 : WarpOp::kMatch32),
         Class::kWarp);
}

void redux(Decoder& d) {
  want_sync(d);
  const int op = d.mods.take_one({"add", "min", "max", "and", "or", "xor"});
  if (op < 0) d.fail("an operation is wanted");
  d.inst.mod[2] = d.mods.take("abs") ? 1 : 0;
  const bool nan = d.mods.take("NaN");
  const Type type = d.take_type();
  const bool is_float = type == Type::kF32;
  if (is_float && op != 1 && op != 2) d.fail("only .min and .max are for .f32");
  if (!is_float && ptx::size_of(type) != 4) d.fail("a 32-bit type is wanted");
  d.inst.mod[0] = static_cast<uint8_t>(op);
  d.inst.mod[1] = is_float ? nan : ptx::is_signed(type);
  d.want_operands(3);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::f, d.operand(2), Type::kB32);
  d.emit(exec::warp_handler(is_float ? WarpOp::kReduxFloat : WarpOp::kRedux), Class::kWarp);
}

void activemask(Decoder& d) {
  if (!d.mods.take("b32")) d.fail(".b32 is wanted");
  d.want_operands(1);
  d.write(&Inst::d, d.operand(0), Type::kB32);
  d.emit(exec::warp_handler(WarpOp::kActiveMask), Class::kWarp);
}

constexpr OpcodeEntry kControlOpcodes[] = {
    {"bra", bra},
    {"ret", ret},
    {"exit", exit},
    {"call", call},
    {"brx", brx},
    {"trap", trap},
    {"brkpt", trap},
    {"shfl", shfl},
    {"vote", vote},
    {"elect", elect},
    {"match", match},
    {"redux", redux},
    {"activemask", activemask},
};

}  // namespace

std::span<const OpcodeEntry> control_opcodes() { return kControlOpcodes; }

}  // namespace fa4::emulator::decode
