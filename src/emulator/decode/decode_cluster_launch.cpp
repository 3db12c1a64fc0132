// SPDX-License-Identifier: BSD-3-Clause
// Cluster launch control: PTX ISA 9.7.13.17, 9.7.13.18.
#include "emulator/decode/families.h"
#include "emulator/exec/cluster_launch.h"

namespace fa4::emulator::decode {
namespace {

using exec::LaunchInst;

void try_cancel(Decoder& d) {
  if (!d.mods.take("async") || !d.mods.take("mbarrier::complete_tx::bytes")) {
    d.fail(".async.mbarrier::complete_tx::bytes is wanted");
  }
  const Space space = d.mods.take("shared::cta") ? Space::kShared : Space::kGeneric;
  const bool multicast = d.mods.take("multicast::cluster::all");
  if (!d.mods.take("b128")) d.fail(".b128 is wanted");
  d.want_operands(2);
  d.address(&Inst::a, d.operand(0), space);
  const auto response = static_cast<uint32_t>(d.inst.imm);
  d.inst.mod[13] = d.inst.mod[kAddressBytes];
  d.address(&Inst::b, d.operand(1), space);
  d.inst.mod[12] = d.inst.mod[kAddressBytes];
  d.inst.imm = static_cast<int64_t>(static_cast<uint64_t>(d.inst.imm) << 32 | response);
  d.inst.mod[14] = static_cast<uint8_t>(space);
  d.inst.mod[0] = multicast ? 1 : 0;
  d.emit(exec::launch_handler(LaunchInst::kTryCancel), Class::kOther);
}

void query_cancel(Decoder& d) {
  const bool canceled = d.mods.take("is_canceled");
  const bool all = d.mods.take("get_first_ctaid");
  const int axis =
      d.mods.take_one({"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
  d.mods.take(canceled ? "pred" : "b32");
  if (all && !d.mods.take("v4")) d.fail(".v4 is wanted");
  if (!d.mods.take("b128")) d.fail(".b128 is wanted");
  d.want_operands(2);
  d.read(&Inst::a, d.operand(1), Type::kB128);
  if (canceled) {
    d.write_predicate(&Inst::d, d.operand(0));
    return d.emit(exec::launch_handler(LaunchInst::kIsCanceled), Class::kOther);
  }
  if (all) {
    d.write_list(d.operand(0), Type::kB32);
    return d.emit(exec::launch_handler(LaunchInst::kFirstCta), Class::kOther);
  }
  if (axis < 0) d.fail(".is_canceled or .get_first_ctaid is wanted");
  d.inst.mod[0] = static_cast<uint8_t>(axis);
  d.write(&Inst::d, d.operand(0), Type::kB32);
  d.emit(exec::launch_handler(LaunchInst::kFirstCtaAxis), Class::kOther);
}

void clusterlaunchcontrol(Decoder& d) {
  if (d.mods.take("try_cancel")) return try_cancel(d);
  if (d.mods.take("query_cancel")) return query_cancel(d);
  d.fail("this form is not known");
}

constexpr OpcodeEntry kLaunchOpcodes[] = {{"clusterlaunchcontrol", clusterlaunchcontrol}};

}  // namespace

std::span<const OpcodeEntry> launch_opcodes() { return kLaunchOpcodes; }

}  // namespace fa4::emulator::decode
