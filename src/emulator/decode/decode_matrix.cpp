// SPDX-License-Identifier: BSD-3-Clause
// Matrix instructions: PTX ISA 9.7.14, 9.7.15.
#include "emulator/decode/families.h"
#include "emulator/exec/matrix_handlers.h"
#include "emulator/exec/sync_handlers.h"

namespace fa4::emulator::decode {
namespace {

using exec::MmaForm;
using exec::WgmmaForm;
using Kind = Operand::Kind;

void load_or_store_matrix(Decoder& d, bool store) {
  if (!d.mods.take("sync") || !d.mods.take("aligned")) d.fail(".sync.aligned is wanted");
  if (!d.mods.take("m8n8") || !d.mods.take("b16")) d.fail("only .m8n8 and .b16 are supported");
  const int count = d.mods.take_one({"x1", "x2", "x4"});
  if (count < 0) d.fail("a number of matrices is wanted");
  d.inst.mod[0] = d.mods.take("trans") ? 1 : 0;
  Space space = Space::kGeneric;
  if (d.mods.take_one({"shared", "shared::cta"}) >= 0) space = Space::kShared;
  d.want_operands(2);
  d.address(&Inst::a, d.operand(store ? 0 : 1), space);
  d.inst.mod[14] = static_cast<uint8_t>(space);
  if (store) {
    d.read_list(d.operand(1), Type::kB32);
  } else {
    d.write_list(d.operand(0), Type::kB32);
  }
  if (d.inst.list_size != 1u << count) d.fail("the vector has another size");
  d.emit(store ? exec::store_matrix() : exec::load_matrix(), Class::kMatrix, kConverged);
}
void ldmatrix(Decoder& d) { load_or_store_matrix(d, false); }
void stmatrix(Decoder& d) { load_or_store_matrix(d, true); }

ElementType operand_type(Decoder& d) {
  const auto type = d.mods.take_type();
  if (type == Type::kF16) return ElementType::kF16;
  if (type == Type::kBF16) return ElementType::kBF16;
  if (type == Type::kTF32) return ElementType::kTF32;
  if (type == Type::kE4M3) return ElementType::kE4M3;
  if (type == Type::kE5M2) return ElementType::kE5M2;
  if (type == Type::kS8) return ElementType::kS8;
  if (type == Type::kU8) return ElementType::kU8;
  d.fail("products of that type are not supported");
}

struct Shape {
  uint32_t m = 0, n = 0, k = 0;
};

/// "m64n128k16"
Shape take_shape(Decoder& d) {
  for (const std::string_view word : d.mods.rest()) {
    if (word.empty() || word[0] != 'm') continue;
    Shape s;
    uint32_t* number = nullptr;
    bool good = true;
    for (const char c : word) {
      if (c == 'm' || c == 'n' || c == 'k') {
        number = c == 'm' ? &s.m : c == 'n' ? &s.n : &s.k;
      } else if (c >= '0' && c <= '9' && number != nullptr && *number < 1000) {
        *number = *number * 10 + static_cast<uint32_t>(c - '0');
      } else {
        good = false;
      }
    }
    if (!good) continue;
    d.mods.take(word);
    return s;
  }
  d.fail("a shape is wanted");
}

Type accumulator_type(Decoder& d) {
  const auto type = d.mods.take_type();
  if (type != Type::kF32 && type != Type::kF16 && type != Type::kS32) {
    d.fail(".f32, .f16 or .s32 is wanted for D");
  }
  return *type;
}

bool is_integer(ElementType t) { return t == ElementType::kS8 || t == ElementType::kU8; }

// ---- mma.sync ----------------------------------------------------------------------------------

void mma(Decoder& d) {
  if (!d.mods.take("sync") || !d.mods.take("aligned")) d.fail(".sync.aligned is wanted");
  const Shape shape = take_shape(d);
  if (!d.mods.take("row") || !d.mods.take("col")) d.fail(".row.col is wanted");
  MmaForm f;
  f.m = shape.m;
  f.n = shape.n;
  f.k = shape.k;
  f.d = accumulator_type(d);
  f.a = operand_type(d);
  f.b = operand_type(d);
  if (accumulator_type(d) != f.d) d.fail("C and D of different types");
  if (is_integer(f.a) != (f.d == Type::kS32)) d.fail("these types don't go together");
  d.want_operands(4);
  const Type word = f.d == Type::kF32 ? Type::kF32 : Type::kB32;
  d.write_list(d.operand(0), word);
  d.read_list(d.operand(1), Type::kB32);
  d.read_list(d.operand(2), Type::kB32);
  d.read_list(d.operand(3), word);
  d.emit(exec::mma(f, d.inst), Class::kMatrix, kConverged);
}

// ---- wgmma -------------------------------------------------------------------------------------

bool sign(Decoder& d, const Operand& o) {
  const int64_t x = d.immediate(o, -1, 1);
  if (x == 0) d.fail("1 or -1 is wanted");
  return x < 0;
}

/// d, a, b, scale-d {, imm-scale-a, imm-scale-b {, imm-trans-a}, imm-trans-b}
void product(Decoder& d) {
  const Shape shape = take_shape(d);
  WgmmaForm f;
  f.columns = shape.n;
  f.d = accumulator_type(d);
  f.a = operand_type(d);
  f.b = operand_type(d);
  if (shape.m != 64 || shape.n % 8 != 0 || shape.n == 0 || shape.n > 256 || shape.k != k_of(f.a) ||
      size_of(f.a) != size_of(f.b)) {
    d.fail("no such shape");
  }
  if (is_integer(f.a) != (f.d == Type::kS32)) d.fail("these types don't go together");
  f.a_in_registers = d.operand(1).kind == Kind::kVector;
  const Type word = f.d == Type::kF32 ? Type::kF32 : Type::kB32;
  d.update_list(d.operand(0), word);
  const uint32_t registers = f.d == Type::kF16 ? shape.n / 4 : shape.n / 2;
  if (d.inst.list_size != registers) d.fail("D has another number of registers");
  if (f.a_in_registers) {
    d.read_list(d.operand(1), Type::kB32);
    if (d.inst.list_size != registers + 4) d.fail("A has another number of registers");
  } else {
    d.read(&Inst::a, d.operand(1), Type::kB64);
  }
  d.read(&Inst::b, d.operand(2), Type::kB64);
  d.read_predicate(&Inst::c, d.operand(3));
  const bool transposes = size_of(f.a) == 2;
  const size_t signs = is_integer(f.a) ? 0 : 2;
  d.want_operands(4 + signs + (transposes ? (f.a_in_registers ? 1 : 2) : 0));
  if (signs != 0) {
    f.negate_a = sign(d, d.operand(4));
    f.negate_b = sign(d, d.operand(5));
  }
  if (transposes) {
    size_t at = 6;
    if (!f.a_in_registers) f.a_m_major = d.immediate(d.operand(at++), 0, 1) != 0;
    f.b_n_major = d.immediate(d.operand(at), 0, 1) != 0;
  }
  d.emit(exec::wgmma(f, d.inst), Class::kMatrix, kConverged | kAsyncResult);
}

void wgmma(Decoder& d) {
  const int what = d.mods.take_one({"fence", "mma_async", "commit_group", "wait_group"});
  if (what < 0) d.fail("this form is not known");
  if (!d.mods.take("sync") || !d.mods.take("aligned")) d.fail(".sync.aligned is wanted");
  switch (what) {
    case 0:
      return d.emit(exec::sync_handler(exec::SyncOp::kNothing), Class::kMatrix, kConverged);
    case 1:
      return product(d);
    case 2:
      return d.emit(exec::wgmma_commit(), Class::kMatrix, kConverged);
    default:
      d.want_operands(1);
      d.inst.imm = d.immediate(d.operand(0), 0, 7);
      return d.emit(exec::wgmma_wait(), Class::kMatrix, kConverged | kAsyncWait);
  }
}

constexpr OpcodeEntry kMatrixOpcodes[] = {
    {"ldmatrix", ldmatrix}, {"stmatrix", stmatrix}, {"mma", mma}, {"wgmma", wgmma}};

}  // namespace

std::span<const OpcodeEntry> matrix_opcodes() { return kMatrixOpcodes; }

}  // namespace fa4::emulator::decode
