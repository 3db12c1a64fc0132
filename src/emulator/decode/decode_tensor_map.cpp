// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps that kernels change: PTX ISA 9.7.9.28, 9.7.13.16.
#include "emulator/decode/families.h"
#include "emulator/exec/tensor_map_handlers.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::decode {
namespace {

/// tensormap.replace.tile.field{.ss}.b1024.type [addr], {ord,} new_val
void replace(Decoder& d) {
  if (!d.mods.take("tile")) d.fail(".tile is wanted");
  const int which =
      d.mods.take_one({"global_address", "rank", "box_dim", "global_dim", "global_stride",
                       "element_stride", "elemtype", "interleave_layout", "swizzle_mode",
                       "swizzle_atomicity", "fill_mode"});  // by TensorMapField
  if (which < 0) d.fail("a field is wanted");
  const auto field = static_cast<TensorMapField>(which);
  Space space = Space::kGeneric;
  if (d.mods.take("global")) space = Space::kGlobal;
  if (d.mods.take_one({"shared::cta", "shared"}) >= 0) space = Space::kShared;
  if (!d.mods.take("b1024")) d.fail(".b1024 is wanted");
  const bool wide =
      field == TensorMapField::kGlobalAddress || field == TensorMapField::kGlobalStride;
  const Type type = d.take_type();
  if (type != (wide ? Type::kB64 : Type::kB32)) {
    d.fail(wide ? ".b64 is wanted for that field" : ".b32 is wanted for that field");
  }
  const bool has_ordinal = is_of_dimension(field);
  const size_t value = has_ordinal ? 2 : 1;
  d.want_operands(value + 1);
  d.address(&Inst::a, d.operand(0), space);
  d.inst.mod[14] = static_cast<uint8_t>(space);
  d.inst.mod[0] = static_cast<uint8_t>(field);
  if (has_ordinal) {
    const int64_t most = field == TensorMapField::kGlobalStride ? 3 : 4;
    d.inst.mod[1] = static_cast<uint8_t>(d.immediate(d.operand(1), 0, most));
  }
  if (field >= TensorMapField::kElementType) {
    if (!d.is_immediate(d.operand(value))) d.fail("an immediate is wanted for that field");
    d.inst.mod[2] = static_cast<uint8_t>(d.immediate(d.operand(value), 0, most_of(field)));
  } else {
    d.read(&Inst::b, d.operand(value), type);
  }
  d.emit(exec::replace_field(), Class::kOther);
}

/// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned
/// [dst], [src], 128
void copy_and_fence(Decoder& d) {
  for (const std::string_view word :
       {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"}) {
    if (!d.mods.take(word)) d.fail(std::string(1, '.').append(word).append(" is wanted"));
  }
  if (d.mods.take_one({"cta", "cluster", "gpu", "sys"}) < 0) d.fail("a scope is wanted");
  d.want_operands(3);
  d.immediate(d.operand(2), 128, 128);
  d.address(&Inst::b, d.operand(1), Space::kShared);
  d.inst.mod[1] = d.inst.mod[kAddressBytes];
  if (d.inst.imm != static_cast<int32_t>(d.inst.imm)) d.fail("an offset that large");
  d.inst.e = static_cast<uint32_t>(d.inst.imm);
  d.address(&Inst::a, d.operand(0), Space::kGlobal);
  d.emit(exec::copy_tensor_map(), Class::kOther, kConverged);
}

void tensormap(Decoder& d) {
  if (d.mods.take("replace")) return replace(d);
  if (d.mods.take("cp_fenceproxy")) return copy_and_fence(d);
  d.fail("this form is not known");
}

constexpr OpcodeEntry kTensorMapOpcodes[] = {{"tensormap", tensormap}};

}  // namespace

std::span<const OpcodeEntry> tensor_map_opcodes() { return kTensorMapOpcodes; }

}  // namespace fa4::emulator::decode
