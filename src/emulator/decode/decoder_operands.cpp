// SPDX-License-Identifier: BSD-3-Clause
// The decoder's operands: registers, constants, special registers, addresses.
#include <bit>

#include "emulator/decode/decoder.h"
#include "emulator/memory.h"

namespace fa4::emulator::decode {
namespace {

using Kind = Operand::Kind;

struct Special {
  std::string_view name;
  PresetKind kind;
  bool vector;  ///< .x .y .z
};
constexpr Special kSpecials[] = {
    {"%tid", PresetKind::kTid, true},
    {"%ntid", PresetKind::kNTid, true},
    {"%ctaid", PresetKind::kCtaId, true},
    {"%nctaid", PresetKind::kNCtaId, true},
    {"%clusterid", PresetKind::kClusterId, true},
    {"%nclusterid", PresetKind::kNClusterId, true},
    {"%cluster_ctaid", PresetKind::kClusterCtaId, true},
    {"%cluster_nctaid", PresetKind::kClusterNCtaId, true},
    {"%cluster_ctarank", PresetKind::kClusterCtaRank, false},
    {"%cluster_nctarank", PresetKind::kClusterNCtaRank, false},
    {"%laneid", PresetKind::kLaneId, false},
    {"%warpid", PresetKind::kWarpId, false},
    {"%nwarpid", PresetKind::kNWarpId, false},
    {"%smid", PresetKind::kSmId, false},
    {"%nsmid", PresetKind::kNSmId, false},
    {"%gridid", PresetKind::kGridId, false},
    {"%lanemask_eq", PresetKind::kLaneMaskEq, false},
    {"%lanemask_lt", PresetKind::kLaneMaskLt, false},
    {"%lanemask_le", PresetKind::kLaneMaskLe, false},
    {"%lanemask_gt", PresetKind::kLaneMaskGt, false},
    {"%lanemask_ge", PresetKind::kLaneMaskGe, false},
    {"%dynamic_smem_size", PresetKind::kDynamicShared, false},
    {"%total_smem_size", PresetKind::kTotalShared, false},
    {"%is_explicit_cluster", PresetKind::kIsExplicitCluster, false},
};

/// Bytes of the type's register.
uint32_t register_bytes(Type t) {
  const uint32_t bytes = ptx::size_of(t);
  return bytes < 2 ? 2 : bytes;
}

}  // namespace

const Operand& Decoder::operand(size_t i) const {
  if (i >= source_->operands.size()) fail("an operand is missing");
  return source_->operands[i];
}

void Decoder::want_operands(size_t low, size_t high) {
  const size_t n = operand_count();
  if (n < low || n > high) {
    fail("has " + std::to_string(n) + " operands, " + std::to_string(low) +
         (high > low ? " to " + std::to_string(high) : "") + " are wanted");
  }
}

namespace {

/// The number that the digits are.
uint32_t number_of(std::string_view digits) {
  uint32_t number = 0;
  for (const char c : digits) number = number * 10 + static_cast<uint32_t>(c - '0');
  return number;
}

}  // namespace

std::optional<uint32_t> Decoder::find_register(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view family = name.substr(0, digits);
  const bool numbered = digits < name.size() && name.size() - digits < 9 &&
                        (name[digits] != '0' || digits + 1 == name.size());
  for (uint32_t s = scope_;; s = scopes_[s].parent) {
    Scope& scope = scopes_[s];
    if (const auto it = scope.registers.find(name); it != scope.registers.end()) return it->second;
    const auto it = numbered ? scope.families.find(family) : scope.families.end();
    if (it != scope.families.end() && number_of(name.substr(digits)) < it->second.count) {
      const uint32_t reg = registers_.add(it->second.type);
      scope.registers.emplace(name, reg);
      return reg;
    }
    if (s == scopes_[s].parent) return std::nullopt;
  }
}

std::optional<uint32_t> Decoder::find_special(std::string_view name) {
  uint8_t axis = 0;
  std::string_view base = name;
  if (name.size() > 2 && name[name.size() - 2] == '.' && name.back() >= 'x' && name.back() <= 'z') {
    axis = static_cast<uint8_t>(name.back() - 'x');
    base = name.substr(0, name.size() - 2);
  }
  for (const Special& s : kSpecials) {
    if (s.name != base || s.vector != (base.size() != name.size())) continue;
    return registers_.preset({s.kind, 4, axis, 0, 0});
  }
  return std::nullopt;
}

std::optional<Type> Decoder::declared(const Operand& o) const {
  if (o.kind != Kind::kName) return std::nullopt;
  const auto reg = const_cast<Decoder*>(this)->find_register(o.name);
  if (!reg) return std::nullopt;
  return registers_[*reg].type;
}

bool Decoder::is_predicate(const Operand& o) const { return declared(o) == Type::kPred; }

void Decoder::check_size(uint32_t reg, Type type, bool loose, const Operand& o) const {
  const VirtualRegister& r = registers_[reg];
  if (r.type == Type::kPred) fail(std::string(o.name) + " is a predicate");
  const uint32_t has = register_bytes(r.type), wants = register_bytes(type);
  if (has == wants || (loose && has > wants)) return;
  // A special register is 32 bits wide, but some may be read into 16 or 64.
  fail("register " + std::string(o.name) + " is ." + std::string(ptx::name_of(r.type)) + ", ." +
       std::string(ptx::name_of(type)) + " is wanted");
}

uint64_t Decoder::constant_bits(const Operand& o, Type type) const {
  if (o.kind == Kind::kInteger) {
    if (type == Type::kF32 || type == Type::kF64) fail("a floating-point constant is wanted");
    const uint32_t bytes = ptx::size_of(type);
    return bytes >= 8 ? o.bits : o.bits & ((uint64_t{1} << (8 * bytes)) - 1);
  }
  const double x = o.single ? std::bit_cast<float>(static_cast<uint32_t>(o.bits))
                            : std::bit_cast<double>(o.bits);
  if (type == Type::kF64) return std::bit_cast<uint64_t>(x);
  if (o.single && ptx::size_of(type) == 4) return o.bits;
  if (type == Type::kF32) return std::bit_cast<uint32_t>(static_cast<float>(x));
  if (type == Type::kB64 && !o.single) return o.bits;
  fail("a floating-point constant where ." + std::string(ptx::name_of(type)) + " is wanted");
}

uint32_t Decoder::symbol_register(const Symbol& s, int64_t offset, uint8_t bytes, bool generic) {
  uint64_t value = s.value + static_cast<uint64_t>(offset);
  if (generic && s.space == Space::kShared) value += kSharedWindow;
  if (generic && s.space == Space::kLocal) value += kLocalWindow;
  if (generic && s.space == Space::kParam) value += kParamWindow;
  if (s.space != Space::kShared) return registers_.constant(value, bytes);
  const PresetKind kind = s.dynamic ? PresetKind::kDynamicStart : PresetKind::kShared;
  return registers_.preset({kind, bytes, 0, 0, value});
}

uint32_t Decoder::reader(const Operand& o, Type type, bool loose) {
  if (o.kind == Kind::kSink) fail("'_' is not a value");
  const auto bytes = static_cast<uint8_t>(ptx::size_of(type) > 4 ? 8 : 4);
  if (o.kind == Kind::kInteger || o.kind == Kind::kFloat) {
    return registers_.constant(constant_bits(o, type), bytes);
  }
  if (o.kind != Kind::kName || o.negated) fail("a register or a constant is wanted");
  if (const auto reg = find_register(o.name)) {
    if (o.offset != 0) fail("an offset on register " + std::string(o.name));
    check_size(*reg, type, loose, o);
    return *reg;
  }
  if (const auto reg = find_special(o.name)) {
    if (ptx::size_of(type) != 4) fail(std::string(o.name) + " has 32 bits");
    return *reg;
  }
  if (o.name == "WARP_SZ") return registers_.constant(kLanes, bytes);
  if (const auto symbol = find_symbol(o.name)) {
    if (ptx::size_of(type) < 4) fail("an address has 32 or 64 bits");
    return symbol_register(*symbol, o.offset, bytes, false);
  }
  fail(std::string(o.name) + " is not declared");
}

uint32_t Decoder::writer(const Operand& o, Type type, bool loose) {
  if (o.kind == Kind::kSink) {
    const uint32_t bytes = ptx::size_of(type);
    return registers_.sink(static_cast<uint8_t>(bytes > 8 ? 16 : bytes > 4 ? 8 : 4));
  }
  if (o.kind != Kind::kName || o.negated || o.offset != 0) fail("a register is wanted");
  const auto reg = find_register(o.name);
  if (!reg) fail("register " + std::string(o.name) + " is not declared");
  check_size(*reg, type, loose, o);
  return *reg;
}

void Decoder::note(Field field, uint32_t reg, bool is_write) {
  pending_.push_back({0, reg, field, 0, !is_write, is_write});
}

void Decoder::note_list(uint32_t reg, bool is_write, bool is_read) {
  pending_.push_back(
      {0, reg, nullptr, static_cast<uint32_t>(kernel_.lists.size()), is_read, is_write});
  kernel_.lists.push_back(reg);
  ++inst.list_size;
}

uint32_t Decoder::read(Field field, const Operand& o, Type type, bool loose) {
  const uint32_t reg = reader(o, type, loose);
  note(field, reg, false);
  return registers_[reg].bytes;
}

uint32_t Decoder::write(Field field, const Operand& o, Type type, bool loose) {
  const uint32_t reg = writer(o, type, loose);
  note(field, reg, true);
  return registers_[reg].bytes;
}

void Decoder::update(Field field, const Operand& o, Type type) {
  const uint32_t reg = writer(o, type, false);
  note(field, reg, true);
  pending_.back().is_read = true;
}

void Decoder::read_list(const Operand& vector, Type type, bool loose) {
  if (vector.kind != Kind::kVector) return note_list(reader(vector, type, loose), false, true);
  for (const Operand& o : vector.parts) note_list(reader(o, type, loose), false, true);
}

void Decoder::write_list(const Operand& vector, Type type, bool loose) {
  if (vector.kind != Kind::kVector) return note_list(writer(vector, type, loose), true, false);
  for (const Operand& o : vector.parts) note_list(writer(o, type, loose), true, false);
}

void Decoder::update_list(const Operand& vector, Type type) {
  if (vector.kind != Kind::kVector) return note_list(writer(vector, type, false), true, true);
  for (const Operand& o : vector.parts) note_list(writer(o, type, false), true, true);
}

PredicateRef Decoder::predicate(const Operand& o) {
  if (o.kind == Kind::kInteger) {
    // mov.pred p, -1; some instructions take 0 or 1 where a predicate is meant.
    return registers_.constant_predicate(o.bits != 0);
  }
  if (o.kind != Kind::kName) fail("a predicate is wanted");
  const auto reg = find_register(o.name);
  if (!reg || registers_[*reg].type != Type::kPred) {
    fail(std::string(o.name) + " is not a predicate");
  }
  return *reg;
}

void Decoder::read_predicate(Field field, const Operand& o) {
  note(field, predicate(o), false);
  inst.*field = o.negated ? 1 : 0;  // completed when predicates get their numbers
}

void Decoder::write_predicate(Field field, const Operand& o) {
  if (o.kind == Kind::kSink) return;
  if (o.kind != Kind::kName || o.negated) fail("a predicate is wanted");
  note(field, predicate(o), true);
  inst.*field = 0;
}

int64_t Decoder::immediate(const Operand& o, int64_t low, int64_t high) const {
  const auto x = static_cast<int64_t>(o.bits);
  if (o.kind != Kind::kInteger || x < low || x > high) {
    fail("a constant from " + std::to_string(low) + " to " + std::to_string(high) + " is wanted");
  }
  return x;
}

void Decoder::constant(Field field, uint64_t value, uint8_t bytes) {
  note(field, registers_.constant(value, bytes), false);
}

void Decoder::address(Field field, const Operand& o, Space space) {
  if (o.kind != Kind::kAddress) fail("an address in brackets is wanted");
  inst.imm = 0;
  inst.mod[kAddressBytes] = 8;
  if (o.name.empty()) return constant(field, o.bits, 8);
  inst.imm = o.offset;
  if (const auto reg = find_register(o.name)) {
    const VirtualRegister& r = registers_[*reg];
    if (r.bytes != 8 && (r.bytes != 4 || register_bytes(r.type) != 4)) {
      fail("register " + std::string(o.name) + " can't hold an address");
    }
    inst.mod[kAddressBytes] = r.bytes;
    return note(field, *reg, false);
  }
  const auto symbol = find_symbol(o.name);
  if (!symbol) fail(std::string(o.name) + " is not declared");
  note(field, symbol_register(*symbol, 0, 8, space == Space::kGeneric), false);
}

}  // namespace fa4::emulator::decode
