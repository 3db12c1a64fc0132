// SPDX-License-Identifier: BSD-3-Clause
// Barriers, mbarriers, fences: PTX ISA 9.7.13.
#include "emulator/decode/families.h"
#include "emulator/exec/sync_handlers.h"
#include "emulator/exec/tensor_map_handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::ArriveForm;
using exec::SyncOp;

void emit_sync(Decoder& d, SyncOp op, uint8_t flags = 0) {
  d.emit(exec::sync_handler(op), Class::kBarrier, flags);
}

/// An instruction that orders what other instructions do: nothing to do where all is in order.
void fence(Decoder& d) {
  const bool map = d.mods.take("tensormap::generic"), acquires = d.mods.take("acquire");
  for (const std::string_view word :
       {"proxy", "alias", "async", "async::generic", "global", "shared::cta", "shared::cluster",
        "sync_restrict::shared::cta", "sync_restrict::shared::cluster", "mbarrier_init", "sc",
        "acq_rel", "release", "cta", "cluster", "gpu", "gl", "sys"}) {
    d.mods.take(word);
  }
  if (!map || !acquires) {
    d.want_operands(0);
    return emit_sync(d, SyncOp::kNothing);
  }
  d.want_operands(2);
  d.immediate(d.operand(1), 128, 128);
  d.address(&Inst::a, d.operand(0), Space::kGeneric);
  d.emit(exec::acquire_tensor_map(), Class::kBarrier);
}

/// bar.sync, bar.arrive, bar.red, bar.warp.sync, barrier[.cta] with and without .aligned.
void bar_family(Decoder& d, bool aligned) {
  d.mods.take("cta");
  if (d.mods.take("warp")) {
    if (!d.mods.take("sync")) d.fail(".sync is wanted");
    d.want_operands(1);
    d.read(&Inst::a, d.operand(0), Type::kB32);
    return emit_sync(d, SyncOp::kWarpSync);
  }
  const int what = d.mods.take_one({"sync", "arrive", "red"});
  if (what < 0) d.fail(".sync, .arrive or .red is wanted");
  aligned |= d.mods.take("aligned");
  d.inst.mod[0] = aligned ? 1 : 0;
  const uint8_t flags = aligned ? kConverged : 0;
  if (what == 2) {
    const int op = d.mods.take_one({"popc", "and", "or"});
    if (op < 0) d.fail("an operation is wanted");
    d.inst.mod[1] = static_cast<uint8_t>(op);
    d.mods.take(op == 0 ? "u32" : "pred");
    d.want_operands(3, 4);
    if (op == 0) {
      d.write(&Inst::d, d.operand(0), Type::kU32);
    } else {
      d.write_predicate(&Inst::d, d.operand(0));
    }
    d.read(&Inst::a, d.operand(1), Type::kU32);
    if (d.operand_count() == 4) d.read(&Inst::b, d.operand(2), Type::kU32);
    d.read_predicate(&Inst::c, d.operand(d.operand_count() - 1));
    return emit_sync(d, SyncOp::kBarrierReduce, flags);
  }
  d.want_operands(what == 1 ? 2 : 1, 2);
  d.read(&Inst::a, d.operand(0), Type::kU32);
  if (d.operand_count() == 2) d.read(&Inst::b, d.operand(1), Type::kU32);
  emit_sync(d, what == 0 ? SyncOp::kBarrierSync : SyncOp::kBarrierArrive, flags);
}

void bar(Decoder& d) { bar_family(d, true); }

void barrier(Decoder& d) {
  if (!d.mods.take("cluster")) return bar_family(d, false);
  const bool arrive = d.mods.take("arrive");
  if (!arrive && !d.mods.take("wait")) d.fail(".arrive or .wait is wanted");
  d.mods.take_one({"release", "acquire", "relaxed"});
  const uint8_t flags = d.mods.take("aligned") ? kConverged : 0;
  d.want_operands(0);
  emit_sync(d, arrive ? SyncOp::kClusterArrive : SyncOp::kClusterWait, flags);
}

// ---- mbarrier ----------------------------------------------------------------------------------

void barrier_operand(Decoder& d, const Operand& o) {
  Space space = Space::kGeneric;
  switch (d.mods.take_one({"shared::cta", "shared::cluster", "shared"})) {
    case 0:
    case 2:
      space = Space::kShared;
      break;
    case 1:
      space = Space::kSharedCluster;
      break;
    default:
      break;
  }
  d.address(&Inst::a, o, space);
  d.inst.mod[14] = static_cast<uint8_t>(space);
}

void take_order(Decoder& d) {
  d.mods.take_one({"release", "acquire", "relaxed"});
  d.mods.take_one({"cta", "cluster"});
}

/// mbarrier.arrive{.expect_tx}{.noComplete} {state,} [addr] {, count}; the drop forms likewise.
void arrive(Decoder& d, bool drop) {
  const bool expect = d.mods.take("expect_tx");
  d.inst.mod[1] = d.mods.take("noComplete") ? 1 : 0;
  take_order(d);
  const bool result = d.operand(0).kind != Operand::Kind::kAddress;
  const size_t at = result ? 1 : 0;
  d.want_operands(at + 1, at + 2);
  if (result && d.operand(0).kind != Operand::Kind::kSink) {
    d.write(&Inst::d, d.operand(0), Type::kB64);
  }
  barrier_operand(d, d.operand(at));
  if (d.operand_count() == at + 2) d.read(&Inst::b, d.operand(at + 1), Type::kU32);
  if (expect && d.operand_count() != at + 2) d.fail("a number of bytes is wanted");
  const ArriveForm form = drop ? (expect ? ArriveForm::kDropExpect : ArriveForm::kDrop)
                               : (expect ? ArriveForm::kArriveExpect : ArriveForm::kArrive);
  d.inst.mod[0] = static_cast<uint8_t>(form);
  emit_sync(d, SyncOp::kMbarrierArrive);
}

/// mbarrier.{try,test}_wait{.parity} p, [addr], state or parity {, time}
void wait(Decoder& d, bool may_wait) {
  const bool parity = d.mods.take("parity");
  take_order(d);
  d.want_operands(3, may_wait ? 4 : 3);
  d.write_predicate(&Inst::d, d.operand(0));
  if (d.inst.d == kNone) d.fail("a predicate is wanted");
  barrier_operand(d, d.operand(1));
  d.read(&Inst::b, d.operand(2), parity ? Type::kU32 : Type::kB64);
  d.inst.mod[0] = parity ? 0 : 1;
  d.inst.mod[1] = may_wait ? 1 : 0;
  emit_sync(d, SyncOp::kMbarrierWait);
}

void count_bytes(Decoder& d, bool expect) {
  take_order(d);
  d.want_operands(2);
  barrier_operand(d, d.operand(0));
  d.read(&Inst::b, d.operand(1), Type::kU32);
  d.inst.mod[0] = static_cast<uint8_t>(ArriveForm::kExpect);
  emit_sync(d, expect ? SyncOp::kMbarrierArrive : SyncOp::kMbarrierComplete);
}

void mbarrier(Decoder& d) {
  d.mods.take("b64");
  const int what = d.mods.take_one({"init", "inval", "arrive", "arrive_drop", "test_wait",
                                    "try_wait", "pending_count", "expect_tx", "complete_tx"});
  // .expect_tx is a modifier of .arrive too, and then stands behind it.
  switch (what) {
    case 0:
      d.want_operands(2);
      barrier_operand(d, d.operand(0));
      d.read(&Inst::b, d.operand(1), Type::kU32);
      return emit_sync(d, SyncOp::kMbarrierInit);
    case 1:
      d.want_operands(1);
      barrier_operand(d, d.operand(0));
      return emit_sync(d, SyncOp::kMbarrierInvalidate);
    case 2:
      return arrive(d, false);
    case 3:
      return arrive(d, true);
    case 4:
      return wait(d, false);
    case 5:
      return wait(d, true);
    case 6:
      d.want_operands(2);
      d.write(&Inst::d, d.operand(0), Type::kU32);
      d.read(&Inst::a, d.operand(1), Type::kB64);
      return emit_sync(d, SyncOp::kMbarrierPending);
    case 7:
      return count_bytes(d, true);
    case 8:
      return count_bytes(d, false);
    default:
      d.fail("this form is not known");
  }
}

// ---- others ------------------------------------------------------------------------------------

void setmaxnreg(Decoder& d) {
  const bool more = d.mods.take("inc");
  if (!more && !d.mods.take("dec")) d.fail(".inc or .dec is wanted");
  d.mods.take("sync");
  d.mods.take("aligned");
  d.mods.take("u32");
  d.want_operands(1);
  const int64_t n = d.immediate(d.operand(0), 24, 256);
  if (n % 8 != 0) d.fail("a multiple of 8 is wanted");
  d.inst.imm = n;
  d.inst.mod[0] = more ? 1 : 0;
  emit_sync(d, SyncOp::kRegisters, kConverged);
}

void griddepcontrol(Decoder& d) {
  if (!d.mods.take("wait") && !d.mods.take("launch_dependents")) d.fail("this form is not known");
  emit_sync(d, SyncOp::kNothing);
}

void nanosleep(Decoder& d) {
  d.mods.take("u32");
  emit_sync(d, SyncOp::kYield);
}

constexpr OpcodeEntry kSyncOpcodes[] = {
    {"bar", bar},
    {"barrier", barrier},
    {"mbarrier", mbarrier},
    {"fence", fence},
    {"membar", fence},
    {"setmaxnreg", setmaxnreg},
    {"nanosleep", nanosleep},
    {"griddepcontrol", griddepcontrol},
};

}  // namespace

std::span<const OpcodeEntry> sync_opcodes() { return kSyncOpcodes; }

}  // namespace fa4::emulator::decode
