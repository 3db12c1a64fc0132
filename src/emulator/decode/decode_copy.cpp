// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous copies: PTX ISA 9.7.9.25, 9.7.9.27.
#include "emulator/decode/families.h"
#include "emulator/exec/copy_handlers.h"
#include "emulator/exec/sync_handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::BulkKind;
using Kind = Operand::Kind;

/// Appends an address's base register to the list. Returns its bytes.
uint8_t list_address(Decoder& d, const Operand& o, uint32_t Inst::*offset) {
  if (o.kind != Kind::kAddress) d.fail("an address in brackets is wanted");
  if (o.offset != static_cast<int32_t>(o.offset)) d.fail("an offset that large");
  if (offset != nullptr) d.inst.*offset = static_cast<uint32_t>(o.offset);
  Operand base;
  base.name = o.name;
  if (o.name.empty()) {
    base.kind = Kind::kInteger;
    base.bits = o.bits;
  }
  const auto declared = d.declared(base);
  const uint32_t bytes = declared ? ptx::size_of(*declared) : 8;
  if (bytes != 4 && bytes != 8)
    d.fail("register " + std::string(o.name) + " can't hold an address");
  d.read_list(base, bytes == 8 ? Type::kB64 : Type::kB32);
  return static_cast<uint8_t>(bytes);
}

/// The mbarrier, the CTA mask and the cache policy at an instruction's end.
void barrier_and_mask(Decoder& d, size_t at, bool multicast) {
  d.inst.mod[11] = list_address(d, d.operand(at++), &Inst::e);
  if (multicast) {
    const auto declared = d.declared(d.operand(at));
    const bool narrow = !declared || ptx::size_of(*declared) == 2;
    d.read_list(d.operand(at++), narrow ? Type::kB16 : Type::kB32);
  }
  d.want_operands(at + (d.mods.take("L2::cache_hint") ? 1 : 0));
}

void tensor_copy(Decoder& d, bool load, ReduceKind reduce) {
  const int dim = d.mods.take_one({"1d", "2d", "3d", "4d", "5d"});
  if (dim < 0) d.fail("a number of dimensions is wanted");
  for (const std::string_view mode : {"im2col", "im2col::w", "im2col::w::128", "im2col_no_offs"}) {
    if (!d.mods.take(mode)) continue;
    d.fail(
        std::string("tensor copies by .").append(mode).append(" are not emulated; allowed: .tile"));
  }
  // A column, and four rows that need not be neighbours.
  const bool four_rows = d.mods.take(load ? "tile::gather4" : "tile::scatter4");
  if (four_rows && (dim != 1 || reduce != ReduceKind::kReplace)) d.fail("this form is not known");
  const size_t coordinates = four_rows ? 5 : static_cast<size_t>(dim) + 1;
  if (!four_rows) d.mods.take("tile");
  d.inst.mod[0] = static_cast<uint8_t>(load ? BulkKind::kTensorLoad : BulkKind::kTensorStore);
  d.inst.mod[1] = static_cast<uint8_t>(dim + 1);
  d.inst.mod[2] = static_cast<uint8_t>(reduce);
  d.inst.mod[7] = four_rows ? 1 : 0;
  const Operand& map = d.operand(load ? 1 : 0);
  const Operand& shared = d.operand(load ? 0 : 1);
  if (map.parts.size() != 1 || map.parts[0].parts.size() != coordinates) {
    d.fail("[map, {coordinates}] is wanted");
  }
  Operand address = map;
  address.parts.clear();
  d.inst.mod[8] = list_address(d, address, &Inst::b);
  if (d.inst.mod[8] != 8) d.fail("a 64-bit tensor map address is wanted");
  d.inst.mod[9] = list_address(d, shared, &Inst::c);
  d.read_list(map.parts[0], Type::kB32);
  if (!load) return d.want_operands(2 + (d.mods.take("L2::cache_hint") ? 1 : 0));
  const bool multicast = d.mods.take("multicast::cluster");
  d.inst.mod[4] = d.mods.take("cta_group::2") ? 1 : 0;
  d.mods.take("cta_group::1");
  d.inst.mod[5] = multicast ? 1 : 0;
  barrier_and_mask(d, 2, multicast);
}

void plain_copy(Decoder& d, BulkKind kind, ReduceKind reduce, MapType type) {
  d.inst.mod[0] = static_cast<uint8_t>(kind);
  d.inst.mod[2] = static_cast<uint8_t>(reduce);
  d.inst.mod[3] = static_cast<uint8_t>(type);
  d.inst.mod[8] = list_address(d, d.operand(0), &Inst::b);
  d.inst.mod[9] = list_address(d, d.operand(1), &Inst::c);
  d.read_list(d.operand(2), Type::kB32);
  if (kind == BulkKind::kStore) {
    return d.want_operands(3 + (d.mods.take("L2::cache_hint") ? 1 : 0));
  }
  const bool multicast = d.mods.take("multicast::cluster");
  d.inst.mod[5] = multicast ? 1 : 0;
  barrier_and_mask(d, 3, multicast);
}

/// Which way a bulk copy goes, from the spaces in its name: destination first.
BulkKind direction(Decoder& d) {
  const auto& words = d.mods.rest();
  const auto is_shared = [](std::string_view w) { return w.substr(0, 6) == "shared"; };
  std::string_view spaces[2];
  size_t count = 0;
  for (const std::string_view w : words) {
    if (count < 2 && (w == "global" || is_shared(w))) spaces[count++] = w;
  }
  if (count < 2) d.fail("two state spaces are wanted");
  for (const std::string_view s : spaces) d.mods.take(s);
  if (is_shared(spaces[0]) && spaces[1] == "global") return BulkKind::kLoad;
  if (is_shared(spaces[0])) return BulkKind::kSharedToShared;
  if (is_shared(spaces[1])) return BulkKind::kStore;
  d.fail("a copy from global to global memory");
}

ReduceKind reduction(Decoder& d) {
  const int op = d.mods.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  if (op < 0) d.fail("an operation is wanted");
  return static_cast<ReduceKind>(op + 1);
}

MapType map_type(const Decoder& d, Type type) {
  switch (type) {
    case Type::kU32:
    case Type::kB32:
      return MapType::kU32;
    case Type::kS32:
      return MapType::kS32;
    case Type::kU64:
    case Type::kB64:
      return MapType::kU64;
    case Type::kS64:
      return MapType::kS64;
    case Type::kF16:
      return MapType::kF16;
    case Type::kBF16:
      return MapType::kBF16;
    case Type::kF32:
      return MapType::kF32;
    case Type::kF64:
      return MapType::kF64;
    default:
      d.fail("a reduction of that type");
  }
}

MapType element_type(Decoder& d) {
  d.mods.take("noftz");
  return map_type(d, d.take_type());
}

void bulk_copy(Decoder& d, bool reduces) {
  const BulkKind kind = direction(d);
  const bool load = kind != BulkKind::kStore;
  if (!d.mods.take(load ? "mbarrier::complete_tx::bytes" : "bulk_group")) {
    d.fail("another way of completion");
  }
  const bool tensor = d.mods.take("tensor");
  const ReduceKind reduce = reduces ? reduction(d) : ReduceKind::kReplace;
  if (tensor) {
    if (kind == BulkKind::kSharedToShared || (load && reduces)) d.fail("this form is not known");
    tensor_copy(d, load, reduce);
  } else {
    plain_copy(d, kind, reduce, reduces ? element_type(d) : MapType::kU8);
  }
  d.emit(exec::bulk_copy(), Class::kCopy);
}

void bulk(Decoder& d) {
  if (d.mods.take("commit_group")) {
    d.want_operands(0);
    return d.emit(exec::bulk_commit(), Class::kCopy);
  }
  if (d.mods.take("wait_group")) {
    d.want_operands(1);
    d.inst.mod[0] = d.mods.take("read") ? 1 : 0;
    d.inst.imm = d.immediate(d.operand(0), 0, 1 << 20);
    return d.emit(exec::bulk_wait(), Class::kCopy);
  }
  if (d.mods.take("prefetch")) {
    // No effect on results, whatever the mode.
    for (const std::string_view word :
         {"L2", "global", "tensor", "1d", "2d", "3d", "4d", "5d", "tile", "tile::gather4", "im2col",
          "im2col::w", "im2col::w::128", "L2::cache_hint"}) {
      d.mods.take(word);
    }
    return d.emit(exec::sync_handler(exec::SyncOp::kNothing), Class::kCopy);
  }
  bulk_copy(d, false);
}

// ---- cp.async ----------------------------------------------------------------------------------

void copy_small(Decoder& d) {
  const bool all = d.mods.take("ca");
  if (!all && !d.mods.take("cg")) d.fail(".ca or .cg is wanted");
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B", "global"}) {
    d.mods.take(hint);
  }
  d.mods.take_one({"shared::cta", "shared"});
  const size_t policy = d.mods.take("L2::cache_hint") ? 1 : 0;
  d.want_operands(3, 4 + policy);
  const int64_t size = d.immediate(d.operand(2), 4, 16);
  if (size != 4 && size != 8 && size != 16) d.fail("4, 8 or 16 bytes are wanted");
  d.inst.mod[0] = static_cast<uint8_t>(size);
  d.address(&Inst::b, d.operand(1), Space::kGlobal);
  d.inst.mod[2] = d.inst.mod[kAddressBytes];
  if (d.inst.imm != static_cast<int32_t>(d.inst.imm)) d.fail("an offset that large");
  d.inst.e = static_cast<uint32_t>(d.inst.imm);
  d.address(&Inst::a, d.operand(0), Space::kShared);
  d.inst.mod[1] = d.inst.mod[kAddressBytes];
  if (d.operand_count() > 3 + policy) {
    const Operand& last = d.operand(3);
    if (d.is_predicate(last)) {
      d.read_predicate(&Inst::f, last);
    } else {
      d.read(&Inst::c, last, Type::kU32);
    }
  }
  d.emit(exec::copy_async(), Class::kCopy);
}

void mbarrier_arrive(Decoder& d) {
  if (!d.mods.take("arrive")) d.fail("this form is not known");
  d.inst.mod[0] = d.mods.take("noinc") ? 1 : 0;
  d.mods.take_one({"shared::cta", "shared"});
  d.mods.take("b64");
  d.want_operands(1);
  d.address(&Inst::a, d.operand(0), Space::kShared);
  d.emit(exec::copy_arrive(), Class::kCopy);
}

void cp(Decoder& d) {
  if (d.mods.take("reduce")) {
    if (!d.mods.take("async") || !d.mods.take("bulk")) d.fail("this form is not known");
    return bulk_copy(d, true);
  }
  if (!d.mods.take("async")) d.fail("this form is not known");
  if (d.mods.take("bulk")) return bulk(d);
  if (d.mods.take("mbarrier")) return mbarrier_arrive(d);
  if (d.mods.take("commit_group")) return d.emit(exec::copy_commit(), Class::kCopy);
  if (d.mods.take("wait_all")) {
    d.inst.mod[0] = 1;
    return d.emit(exec::copy_wait(), Class::kCopy);
  }
  if (d.mods.take("wait_group")) {
    d.want_operands(1);
    d.inst.imm = d.immediate(d.operand(0), 0, 1 << 20);
    return d.emit(exec::copy_wait(), Class::kCopy);
  }
  copy_small(d);
}

constexpr OpcodeEntry kCopyOpcodes[] = {{"cp", cp}};

}  // namespace

/// st.async [a], b, [mbar] and red.async.op [a], b, [mbar]
void async_store(Decoder& d, bool reduces) {
  for (const std::string_view word : {"weak", "relaxed", "cluster", "shared::cluster"}) {
    d.mods.take(word);
  }
  if (!d.mods.take("mbarrier::complete_tx::bytes")) {
    d.fail("only .mbarrier::complete_tx::bytes is supported");
  }
  const size_t count = d.mods.take("v2") ? 2 : d.mods.take("v4") ? 4 : 1;
  const ReduceKind reduce = reduces ? reduction(d) : ReduceKind::kReplace;
  const Type type = d.take_type();
  const uint32_t bytes = ptx::size_of(type);
  if ((bytes != 4 && bytes != 8) || bytes * count > 16 ||
      (reduces && (count > 1 || ptx::is_float(type)))) {
    d.fail("no such form");
  }
  if (reduces) {
    d.inst.mod[2] = static_cast<uint8_t>(reduce);
    d.inst.mod[3] = static_cast<uint8_t>(map_type(d, type));
  }
  d.inst.mod[5] = static_cast<uint8_t>(bytes);
  d.want_operands(3);
  d.inst.mod[8] = list_address(d, d.operand(0), &Inst::b);
  d.inst.mod[9] = list_address(d, d.operand(2), &Inst::c);
  d.read_list(d.operand(1), type);
  if (d.inst.list_size != 2 + count) d.fail("the vector has another size");
  d.emit(exec::async_store(), Class::kCopy);
}

std::span<const OpcodeEntry> copy_opcodes() { return kCopyOpcodes; }

}  // namespace fa4::emulator::decode
