// SPDX-License-Identifier: BSD-3-Clause
// Loads, stores, atomics, conversions of addresses: PTX ISA 9.7.9, 9.7.13.
#include "emulator/decode/families.h"
#include "emulator/exec/handlers.h"
#include "emulator/exec/sync_handlers.h"
#include "emulator/exec/warp_handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::MemoryForm;
using exec::ReduceOp;
using Kind = Operand::Kind;

Space take_space(Decoder& d) {
  switch (d.mods.take_one({"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                           "param", "param::entry", "param::func"})) {
    case 0:
      return Space::kGlobal;
    case 1:
    case 2:
      return Space::kShared;
    case 3:
      return Space::kSharedCluster;
    case 4:
      return Space::kLocal;
    case 5:
      return Space::kConst;
    case 6:
    case 7:
    case 8:
      return Space::kParam;
    default:
      return Space::kGeneric;
  }
}

/// Orderings, scopes and cache hints: memory here is sequentially consistent and has no caches.
void take_hints(Decoder& d) {
  for (const std::string_view hint : {"weak",
                                      "volatile",
                                      "relaxed",
                                      "acquire",
                                      "release",
                                      "acq_rel",
                                      "cta",
                                      "cluster",
                                      "gpu",
                                      "sys",
                                      "ca",
                                      "cg",
                                      "cs",
                                      "cv",
                                      "lu",
                                      "wb",
                                      "wt",
                                      "nc",
                                      "mmio",
                                      "unified",
                                      "L1::evict_normal",
                                      "L1::evict_unchanged",
                                      "L1::evict_first",
                                      "L1::evict_last",
                                      "L1::no_allocate",
                                      "L2::evict_normal",
                                      "L2::evict_first",
                                      "L2::evict_last",
                                      "L2::64B",
                                      "L2::128B",
                                      "L2::256B"}) {
    d.mods.take(hint);
  }
}

uint32_t take_vector(Decoder& d) {
  const int v = d.mods.take_one({"v2", "v4", "v8"});
  return v < 0 ? 1 : 2u << v;
}

Class class_of(Space space) {
  switch (space) {
    case Space::kShared:
    case Space::kSharedCluster:
      return Class::kShared;
    case Space::kLocal:
      return Class::kLocal;
    case Space::kParam:
      return Class::kParam;
    default:
      return Class::kGlobal;
  }
}

/// The declared size of the vector's registers, which must agree.
uint8_t register_bytes(Decoder& d, const Operand& vector, Type type) {
  uint32_t bytes = 0;
  const size_t n = vector.kind == Kind::kVector ? vector.parts.size() : 1;
  for (size_t i = 0; i < n; ++i) {
    const Operand& o = vector.kind == Kind::kVector ? vector.parts[i] : vector;
    const auto declared = d.declared(o);
    const uint32_t mine = declared ? ptx::size_of(*declared) : ptx::size_of(type);
    // A sink and a constant take the size of the others.
    if (!declared && bytes != 0) continue;
    if (declared && bytes != 0 && bytes != mine) d.fail("registers of different sizes");
    bytes = mine;
  }
  return static_cast<uint8_t>(bytes < 2 ? 2 : bytes);
}

/// An operand of a cache policy may stand at the end.
size_t without_policy(Decoder& d, size_t operands) {
  return operands + (d.mods.take("L2::cache_hint") ? 1 : 0);
}

/// ld and st: a register or a vector of them, and an address, in the order that the opcode has.
template <bool kLoads>
void load_or_store(Decoder& d) {
  if (!kLoads && d.mods.take("async")) return async_store(d, false);
  MemoryForm form;
  form.space = take_space(d);
  take_hints(d);
  const uint32_t count = take_vector(d);
  form.type = d.take_type();
  d.want_operands(without_policy(d, 2));
  const Operand& value = d.operand(kLoads ? 0 : 1);
  if (form.space == Space::kParam) form.space = d.param_space(d.operand(kLoads ? 1 : 0));
  form.register_bytes = register_bytes(d, value, form.type);
  d.address(&Inst::a, d.operand(kLoads ? 1 : 0), form.space);
  if (kLoads) {
    d.write_list(value, form.type, true);
  } else {
    d.read_list(value, form.type, true);
  }
  if (d.inst.list_size != count) d.fail("the vector has another size");
  d.emit(kLoads ? exec::load(form, d.inst) : exec::store(form, d.inst), class_of(form.space));
}

ReduceOp take_operation(Decoder& d) {
  const int op =
      d.mods.take_one({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (op < 0) d.fail("an operation is wanted");
  return static_cast<ReduceOp>(op);
}

void atomic(Decoder& d, bool result) {
  MemoryForm form;
  form.space = take_space(d);
  take_hints(d);
  const ReduceOp op = take_operation(d);
  d.mods.take("noftz");
  const uint32_t count = take_vector(d);
  form.type = d.take_type();
  const bool floats = ptx::is_float(form.type);
  if (floats && op != ReduceOp::kAdd) d.fail("only .add is supported for that type");
  const bool swap = op == ReduceOp::kCompareSwap;
  const size_t first = result ? 1 : 0;
  d.want_operands(without_policy(d, first + 2 + (swap ? 1 : 0)));
  d.address(&Inst::a, d.operand(first), form.space);
  d.read_list(d.operand(first + 1), form.type);
  if (d.inst.list_size != count) d.fail("the vector has another size");
  if (result) d.write_list(d.operand(0), form.type);
  if (swap) d.read(&Inst::c, d.operand(first + 2), form.type);
  d.inst.mod[4] = static_cast<uint8_t>(count);
  // Float32 atomics on global memory flush subnormals (PTX ISA 9.7.13.6).
  const bool global = class_of(form.space) == Class::kGlobal;
  d.emit(exec::atomic(form, op, global, d.inst), Class::kAtomic);
}
void atom(Decoder& d) { atomic(d, true); }
void red(Decoder& d) {
  if (d.mods.take("async")) return async_store(d, true);
  atomic(d, false);
}

// ---- addresses ---------------------------------------------------------------------------------

void set_sizes(Decoder& d, Space space, Type to, Type from) {
  d.inst.mod[14] = static_cast<uint8_t>(space);
  d.inst.mod[13] = static_cast<uint8_t>(ptx::size_of(from));
  d.inst.mod[12] = static_cast<uint8_t>(ptx::size_of(to));
}

void cvta(Decoder& d) {
  const bool from_generic = d.mods.take("to");
  const Space space = take_space(d);
  const Type type = d.take_type();
  d.want_operands(2);
  set_sizes(d, space, type, type);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  using exec::AddressOp;
  d.emit(exec::address_handler(from_generic ? AddressOp::kFromGeneric : AddressOp::kToGeneric),
         Class::kInteger);
}

void isspacep(Decoder& d) {
  const Space space = take_space(d);
  d.want_operands(2);
  set_sizes(d, space, Type::kU64, Type::kU64);
  d.write_predicate(&Inst::d, d.operand(0));
  d.read(&Inst::a, d.operand(1), Type::kU64);
  d.emit(exec::address_handler(exec::AddressOp::kIsSpace), Class::kPredicate);
}

void mapa(Decoder& d) {
  const Space space = take_space(d);
  const Type type = d.take_type();
  d.want_operands(3);
  set_sizes(d, space, type, type);
  d.write(&Inst::d, d.operand(0), type);
  d.read(&Inst::a, d.operand(1), type);
  d.read(&Inst::b, d.operand(2), Type::kU32);
  d.emit(exec::address_handler(exec::AddressOp::kMapa), Class::kInteger);
}

void getctarank(Decoder& d) {
  const Space space = take_space(d);
  const Type type = d.take_type();
  d.want_operands(2);
  set_sizes(d, space, Type::kU32, type);
  d.write(&Inst::d, d.operand(0), Type::kU32);
  d.read(&Inst::a, d.operand(1), type);
  d.emit(exec::address_handler(exec::AddressOp::kGetRank), Class::kInteger);
}

/// prefetch, prefetchu, applypriority, discard, createpolicy: no effect on results.
void hint(Decoder& d) {
  for (const std::string_view word : {"global", "local", "param", "const", "tensormap", "L1", "L2",
                                      "L2::evict_last", "L2::evict_normal"}) {
    d.mods.take(word);
  }
  d.emit(exec::sync_handler(exec::SyncOp::kNothing), Class::kOther);
}

void createpolicy(Decoder& d) {
  for (const std::string_view word :
       {"fractional", "range", "cvt", "global", "L2", "L2::evict_last", "L2::evict_normal",
        "L2::evict_first", "L2::evict_unchanged", "b64"}) {
    while (d.mods.take(word)) {
    }
  }
  d.write(&Inst::d, d.operand(0), Type::kB64);
  d.constant(&Inst::a, 0, 8);
  d.emit(exec::move(8), Class::kOther);
}

constexpr OpcodeEntry kMemoryOpcodes[] = {
    {"ld", load_or_store<true>},
    {"ldu", load_or_store<true>},
    {"st", load_or_store<false>},
    {"atom", atom},
    {"red", red},
    {"cvta", cvta},
    {"isspacep", isspacep},
    {"mapa", mapa},
    {"getctarank", getctarank},
    {"prefetch", hint},
    {"prefetchu", hint},
    {"applypriority", hint},
    {"discard", hint},
    {"createpolicy", createpolicy},
};

}  // namespace

std::span<const OpcodeEntry> memory_opcodes() { return kMemoryOpcodes; }

}  // namespace fa4::emulator::decode
