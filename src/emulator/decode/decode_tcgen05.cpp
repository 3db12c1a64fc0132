// SPDX-License-Identifier: BSD-3-Clause
// The tensor core of sm_100: PTX ISA 9.7.16.
#include "emulator/decode/families.h"
#include "emulator/exec/sync_handlers.h"
#include "emulator/exec/tcgen05.h"

namespace fa4::emulator::decode {
namespace {

using exec::TensorCopy;
using exec::TensorInst;
using exec::TensorKind;
using exec::TensorReduce;
using exec::TensorShape;
using Kind = Operand::Kind;

void take_group(Decoder& d) {
  const int group = d.mods.take_one({"cta_group::1", "cta_group::2"});
  if (group < 0) d.fail(".cta_group::1 or .cta_group::2 is wanted");
  d.inst.mod[0] = static_cast<uint8_t>(group + 1);
}

void take_aligned(Decoder& d) {
  if (!d.mods.take("sync") || !d.mods.take("aligned")) d.fail(".sync.aligned is wanted");
}

void take_space(Decoder& d, std::string_view shared, Space space) {
  const bool named = d.mods.take(shared);
  d.inst.mod[14] = static_cast<uint8_t>(named ? space : Space::kGeneric);
}

/// An address in tensor memory: the register to `field`; the offset is returned.
uint32_t tensor_address(Decoder& d, Decoder::Field field, const Operand& o) {
  if (o.kind != Kind::kAddress) d.fail("an address in brackets is wanted");
  if (o.name.empty()) {
    d.constant(field, o.bits, 4);
    return 0;
  }
  d.address(field, o, Space::kShared);
  if (d.inst.mod[kAddressBytes] != 4) d.fail("an address in tensor memory has 32 bits");
  return static_cast<uint32_t>(d.inst.imm);
}

// ---- allocation --------------------------------------------------------------------------------

void alloc(Decoder& d) {
  take_group(d);
  take_aligned(d);
  take_space(d, "shared::cta", Space::kShared);
  d.mods.take("b32");
  d.want_operands(2);
  const auto space = static_cast<Space>(d.inst.mod[14]);
  d.address(&Inst::a, d.operand(0), space);
  d.read(&Inst::b, d.operand(1), Type::kB32);
  d.emit(exec::tensor_handler(TensorInst::kAlloc), Class::kTensor, kConverged);
}

void dealloc(Decoder& d) {
  take_group(d);
  take_aligned(d);
  d.mods.take("b32");
  d.want_operands(2);
  d.read(&Inst::a, d.operand(0), Type::kB32);
  d.read(&Inst::b, d.operand(1), Type::kB32);
  d.emit(exec::tensor_handler(TensorInst::kDealloc), Class::kTensor, kConverged);
}

void relinquish(Decoder& d) {
  take_group(d);
  take_aligned(d);
  d.want_operands(0);
  d.emit(exec::tensor_handler(TensorInst::kRelinquish), Class::kTensor, kConverged);
}

// ---- registers ---------------------------------------------------------------------------------

struct Access {
  TensorShape shape = TensorShape::k32x32b;
  uint32_t registers = 0;
};

/// Shape, count and packing; `packing` is the word for it.
Access take_access(Decoder& d, std::string_view packing) {
  take_aligned(d);
  const int shape = d.mods.take_one({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
  if (shape < 0) d.fail("a shape is wanted: .32x32b, .16x64b, .16x128b, .16x256b or .16x32bx2");
  const int count = d.mods.take_one({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  if (count < 0) d.fail("a count is wanted: .x1, .x2, .x4 and so on to .x128");
  Access a;
  a.shape = static_cast<TensorShape>(shape);
  a.registers = registers_of(a.shape) << count;
  if (a.registers > 128) d.fail("more than 128 registers");
  d.inst.mod[1] = static_cast<uint8_t>(shape);
  d.inst.mod[2] = d.mods.take(packing) ? 1 : 0;
  return a;
}

void take_split(Decoder& d, const Access& a, size_t at) {
  if (a.shape != TensorShape::k16x32bx2) return;
  d.inst.f = static_cast<uint32_t>(d.immediate(d.operand(at), 0, 511));
}

void check_list(Decoder& d, const Access& a) {
  if (d.inst.list_size == a.registers) return;
  d.fail(std::to_string(d.inst.list_size) + " registers; the shape has " +
         std::to_string(a.registers));
}

void take_reduction(Decoder& d) {
  const int op = d.mods.take_one({"min", "max"});
  const int type = d.mods.take_one({"f32", "u32", "s32"});
  if (op < 0 || type < 0) d.fail(".min or .max and .f32, .u32 or .s32 are wanted");
  d.inst.mod[3] = static_cast<uint8_t>(2 * type + op);
  const bool absolute = d.mods.take("abs");
  const bool nan = d.mods.take("NaN");
  if (type != 0 && (absolute || nan)) d.fail(".abs and .NaN go with .f32 alone");
  d.inst.mod[4] = static_cast<uint8_t>((absolute ? 1 : 0) + (nan ? 2 : 0));
}

void load(Decoder& d) {
  const bool reduces = d.mods.take("red");
  const Access a = take_access(d, "pack::16b");
  if (reduces) {
    take_reduction(d);
    const bool row_wise = a.shape == TensorShape::k32x32b || a.shape == TensorShape::k16x32bx2;
    if (!row_wise || a.registers < 2 || d.inst.mod[2] != 0) {
      d.fail(".red goes with .32x32b and .16x32bx2 from .x2, unpacked");
    }
  } else if (!d.mods.take("b32")) {
    d.fail(".b32 is wanted");
  }
  const size_t results = reduces ? 2 : 1;
  const bool halves = a.shape == TensorShape::k16x32bx2;
  d.want_operands(results + (halves ? 2 : 1));
  d.write_list(d.operand(0), Type::kB32);
  check_list(d, a);
  if (reduces) d.write(&Inst::d, d.operand(1), Type::kB32);
  d.inst.imm = tensor_address(d, &Inst::a, d.operand(results));
  take_split(d, a, results + 1);
  d.emit(exec::tensor_handler(reduces ? TensorInst::kLoadReduce : TensorInst::kLoad),
         Class::kTensor, kConverged);
}

void store(Decoder& d) {
  const Access a = take_access(d, "unpack::16b");
  if (!d.mods.take("b32")) d.fail(".b32 is wanted");
  const bool halves = a.shape == TensorShape::k16x32bx2;
  d.want_operands(halves ? 3 : 2);
  d.inst.imm = tensor_address(d, &Inst::a, d.operand(0));
  take_split(d, a, 1);
  d.read_list(d.operand(halves ? 2 : 1), Type::kB32);
  check_list(d, a);
  d.emit(exec::tensor_handler(TensorInst::kStore), Class::kTensor, kConverged);
}

void wait(Decoder& d, TensorInst inst) {
  take_aligned(d);
  d.want_operands(0);
  d.emit(exec::tensor_handler(inst), Class::kTensor, kConverged);
}

// ---- products, copies --------------------------------------------------------------------------

void take_kind(Decoder& d) {
  for (const char* other : {"ws", "sp", "block_scale", "ashift"}) {
    if (d.mods.take(other)) d.fail(std::string(other) + " is not supported");
  }
  const int kind = d.mods.take_one({"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8"});
  if (kind < 0) d.fail("a kind is wanted: .kind::f16, .kind::tf32, .kind::f8f6f4 or .kind::i8");
  d.inst.mod[1] = static_cast<uint8_t>(kind);
  d.mods.take_one({"collector::a::fill", "collector::a::use", "collector::a::lastuse",
                   "collector::a::discard"});
}

void tensor_mma(Decoder& d) {
  take_group(d);
  take_kind(d);
  d.want_operands(5, 7);
  const uint32_t d_offset = tensor_address(d, &Inst::d, d.operand(0));
  uint32_t a_offset = 0;
  if (d.operand(1).kind == Kind::kAddress) {
    a_offset = tensor_address(d, &Inst::a, d.operand(1));
    d.inst.mod[2] = 1;
  } else {
    d.read(&Inst::a, d.operand(1), Type::kB64);
  }
  d.inst.imm = static_cast<int64_t>(uint64_t{a_offset} << 32 | d_offset);
  d.read(&Inst::b, d.operand(2), Type::kB64);
  d.read(&Inst::c, d.operand(3), Type::kB32);
  size_t at = 4;
  if (d.operand(at).kind == Kind::kVector) {
    const size_t words = size_t{4} * d.inst.mod[0];
    if (d.operand(at).parts.size() != words) {
      d.fail(std::to_string(d.operand(at).parts.size()) +
             " words of disabled lanes; allowed: " + std::to_string(words));
    }
    d.read_list(d.operand(at++), Type::kB32);
  }
  if (at >= d.operand_count()) d.fail("the predicate enable-input-d is missing");
  d.read_predicate(&Inst::e, d.operand(at++));
  if (at < d.operand_count()) {
    const auto kind = static_cast<TensorKind>(d.inst.mod[1]);
    if (kind != TensorKind::kF16 && kind != TensorKind::kTF32) {
      d.fail("scale-input-d goes with .kind::f16 and .kind::tf32 alone");
    }
    d.inst.mod[3] = static_cast<uint8_t>(d.immediate(d.operand(at++), 0, 15));
  }
  d.want_operands(at);
  d.emit(exec::tensor_handler(TensorInst::kMma), Class::kMatrix);
}

TensorCopy take_copy(Decoder& d) {
  const int pair = d.mods.take_one({"warpx2::02_13", "warpx2::01_23"});
  const bool all = d.mods.take("warpx4");
  switch (d.mods.take_one({"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"})) {
    case 0:
      if (pair < 0 && !all) return TensorCopy::k128x256b;
      break;
    case 1:
      if (pair < 0 && !all) return TensorCopy::k4x256b;
      break;
    case 2:
      if (pair < 0 && !all) return TensorCopy::k128x128b;
      break;
    case 3:
      if (pair == 0 && !all) return TensorCopy::k64x128bPairs02;
      if (pair == 1 && !all) return TensorCopy::k64x128bPairs01;
      break;
    case 4:
      if (pair < 0 && all) return TensorCopy::k32x128b;
      break;
    default:
      break;
  }
  d.fail(
      "a shape is wanted: .128x256b, .4x256b, .128x128b, .64x128b with .warpx2, .32x128b with "
      ".warpx4");
}

void tensor_cp(Decoder& d) {
  take_group(d);
  d.inst.mod[1] = static_cast<uint8_t>(take_copy(d));
  if (d.mods.take("b8x16")) d.fail("decompression (.b8x16) is not supported");
  d.want_operands(2);
  d.inst.imm = tensor_address(d, &Inst::a, d.operand(0));
  d.read(&Inst::b, d.operand(1), Type::kB64);
  d.emit(exec::tensor_handler(TensorInst::kCopy), Class::kTensor);
}

void shift(Decoder& d) {
  take_group(d);
  if (!d.mods.take("down")) d.fail(".down is wanted");
  d.want_operands(1);
  d.inst.imm = tensor_address(d, &Inst::a, d.operand(0));
  d.emit(exec::tensor_handler(TensorInst::kShift), Class::kTensor);
}

void commit(Decoder& d) {
  take_group(d);
  if (!d.mods.take("mbarrier::arrive::one")) d.fail(".mbarrier::arrive::one is wanted");
  take_space(d, "shared::cluster", Space::kSharedCluster);
  const bool multicast = d.mods.take("multicast::cluster");
  if (!d.mods.take("b64")) d.fail(".b64 is wanted");
  d.want_operands(multicast ? 2 : 1);
  const auto space = static_cast<Space>(d.inst.mod[14]);
  d.address(&Inst::a, d.operand(0), space);
  if (multicast) d.read(&Inst::b, d.operand(1), Type::kB16);
  d.emit(exec::tensor_handler(TensorInst::kCommit), Class::kTensor);
}

void tcgen05(Decoder& d) {
  if (d.mods.take("mma")) return tensor_mma(d);
  if (d.mods.take("ld")) return load(d);
  if (d.mods.take("st")) return store(d);
  if (d.mods.take("wait::ld")) return wait(d, TensorInst::kWaitLoad);
  if (d.mods.take("wait::st")) return wait(d, TensorInst::kWaitStore);
  if (d.mods.take("commit")) return commit(d);
  if (d.mods.take_one({"fence::before_thread_sync", "fence::after_thread_sync"}) >= 0) {
    return d.emit(exec::sync_handler(exec::SyncOp::kNothing), Class::kTensor);
  }
  if (d.mods.take("alloc")) return alloc(d);
  if (d.mods.take("dealloc")) return dealloc(d);
  if (d.mods.take("relinquish_alloc_permit")) return relinquish(d);
  if (d.mods.take("cp")) return tensor_cp(d);
  if (d.mods.take("shift")) return shift(d);
  d.fail("this form is not known");
}

constexpr OpcodeEntry kTensorOpcodes[] = {{"tcgen05", tcgen05}};

}  // namespace

std::span<const OpcodeEntry> tensor_opcodes() { return kTensorOpcodes; }

}  // namespace fa4::emulator::decode
