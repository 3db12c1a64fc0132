// SPDX-License-Identifier: BSD-3-Clause
// tcgen05.mma: PTX ISA 9.7.16.10. Dense products with A in shared or tensor memory; where rows and
// columns of D lie is 9.7.16.10.5 (layouts A, B, D and F).
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "emulator/exec/matrix_descriptor.h"
#include "emulator/exec/tcgen05.h"
#include "emulator/exec/tcgen05_access.h"
#include "emulator/exec/tcgen05_async.h"
#include "emulator/exec/tcgen05_product.h"
#include "emulator/numeric.h"

namespace fa4::emulator {
namespace {

using exec::TensorKind;

enum class Accumulator : uint8_t { kF16, kF32, kS32 };

/// The instruction descriptor (PTX ISA 9.7.16.4.2, table 42), checked.
struct ProductForm {
  uint32_t m = 0, n = 0, k = 0;
  TensorElement a = TensorElement::kF16, b = TensorElement::kF16;
  Accumulator d = Accumulator::kF32;
  bool saturate = false;
  bool negate = false;  ///< A or B, not both.
  MajorLayout a_major = MajorLayout::kK, b_major = MajorLayout::kK;
};

uint32_t bits(uint32_t word, int first, int count) { return word >> first & ((1u << count) - 1); }

[[noreturn]] void wrong(uint32_t word, const std::string& what) {
  throw Fault("instruction descriptor " + hex(word) + ": " + what);
}

TensorElement element_type(uint32_t word, TensorKind kind, uint32_t code, const char* name) {
  const auto unknown = [&](const char* allowed) {
    wrong(word, "type " + std::to_string(code) + " of " + name + "; allowed: " + allowed);
  };
  switch (kind) {
    case TensorKind::kF16:
      if (code > 1) unknown("0 (f16), 1 (bf16)");
      return code == 0 ? TensorElement::kF16 : TensorElement::kBF16;
    case TensorKind::kTF32:
      if (code != 2) unknown("2 (tf32)");
      return TensorElement::kTF32;
    case TensorKind::kI8:
      if (code > 1) unknown("0 (u8), 1 (s8)");
      return code == 0 ? TensorElement::kU8 : TensorElement::kS8;
    case TensorKind::kF8F6F4:
      break;
  }
  if (code >= 3 && code <= 5) {
    wrong(word,
          "the 6- and 4-bit type " + std::to_string(code) + " of " + name + " is not supported");
  }
  if (code > 1) unknown("0 (e4m3), 1 (e5m2)");
  return code == 0 ? TensorElement::kE4M3 : TensorElement::kE5M2;
}

Accumulator accumulator_type(uint32_t word, TensorKind kind) {
  const uint32_t code = bits(word, 4, 2);
  const bool fits = kind == TensorKind::kI8     ? code == 2
                    : kind == TensorKind::kTF32 ? code == 1
                                                : code <= 1;
  if (!fits) wrong(word, "type " + std::to_string(code) + " of D with this kind");
  return static_cast<Accumulator>(code);
}

/// PTX ISA table 39 and 9.7.16.10.1, table 52.
void check_shape(uint32_t word, const ProductForm& f, TensorKind kind, uint32_t group) {
  const std::string shape = "M " + std::to_string(f.m) + ", N " + std::to_string(f.n);
  const bool m_fits = group == 1 ? f.m == 64 || f.m == 128 : f.m == 128 || f.m == 256;
  if (!m_fits) wrong(word, shape + "; allowed M: " + (group == 1 ? "64, 128" : "128, 256"));
  uint32_t step = 8 * group;
  if (kind == TensorKind::kI8) step = group == 2 ? 32 : f.n > 32 ? 16 : 8;
  const bool bytes = bits_of(f.b) == 8;
  if (bytes && f.b_major == MajorLayout::kMN) step = 16 * group;
  if (f.n == 0 || f.n > 256 || f.n % step != 0) {
    wrong(word, shape + "; allowed N: multiples of " + std::to_string(step) + " up to 256");
  }
}

ProductForm parse_form(uint32_t word, TensorKind kind, uint32_t group) {
  if (bits(word, 2, 1) != 0) wrong(word, "sparse matrices are not supported");
  if (bits(word, 6, 1) != 0 || bits(word, 23, 1) != 0 || bits(word, 29, 1) != 0) {
    wrong(word, "bit 6, 23 or 29 is set");
  }
  if (bits(word, 30, 2) != 0) wrong(word, "a shift of B outside .ws");
  ProductForm f;
  f.a = element_type(word, kind, bits(word, 7, 3), "A");
  f.b = element_type(word, kind, bits(word, 10, 3), "B");
  f.d = accumulator_type(word, kind);
  f.saturate = bits(word, 3, 1) != 0;
  if (f.saturate && kind != TensorKind::kI8) wrong(word, "saturation of a floating-point type");
  f.negate = bits(word, 13, 1) != bits(word, 14, 1);
  if (kind == TensorKind::kI8 && (bits(word, 13, 2) != 0)) wrong(word, "negation of integers");
  if (f.d == Accumulator::kF16 && kind == TensorKind::kF16 &&
      (f.a != TensorElement::kF16 || f.b != TensorElement::kF16)) {
    wrong(word, "a f16 result of bf16 operands");
  }
  f.a_major = bits(word, 15, 1) != 0 ? MajorLayout::kMN : MajorLayout::kK;
  f.b_major = bits(word, 16, 1) != 0 ? MajorLayout::kMN : MajorLayout::kK;
  f.n = bits(word, 17, 6) << 3;
  f.m = bits(word, 24, 5) << 4;
  f.k = kDepthBytes * 8 / bits_of(f.a);
  check_shape(word, f, kind, group);
  return f;
}

/// PTX ISA table 54: transposed 32-bit types want the swizzle with 32-byte atoms, others refuse it.
void check_layout(const TensorDescriptor& d, MajorLayout major, TensorElement type,
                  const char* name) {
  if (major == MajorLayout::kK) return;
  const bool atoms_of_32 = d.swizzle == SmemSwizzle::k128B32;
  if (atoms_of_32 == (bits_of(type) == 32)) return;
  throw Fault(std::string(name) + " is transposed with swizzle " +
              std::to_string(static_cast<int>(d.swizzle)) + "; allowed: " +
              (atoms_of_32 ? "all but 1 for 8- and 16-bit types" : "1 alone for 32-bit types"));
}

struct ProductOperands {
  uint32_t d = 0;  ///< Address in tensor memory.
  bool a_in_tensor = false;
  uint32_t a_address = 0;
  TensorDescriptor a, b;
  float scale = 0;  ///< Of the old D; 0: it is not read.
  std::array<uint32_t, 8> disabled{};
};

/// Rows of D in a CTA that lie in neighbouring lanes, and the part of N that they have.
struct LaneBlock {
  uint32_t lane;
  uint32_t row;  ///< Of the CTA's rows.
  uint32_t rows;
  uint32_t first_n;
  uint32_t columns;
};

/// Where the parts of D lie in one CTA. `base`: 0 or 16, of half-used lanes.
std::vector<LaneBlock> lane_blocks(const ProductForm& f, uint32_t group, uint32_t base) {
  if (group == 2 && f.m == 128) {
    return {{0, 0, 64, 0, f.n / 2}, {64, 0, 64, f.n / 2, f.n / 2}};
  }
  if (group == 1 && f.m == 64) {
    std::vector<LaneBlock> blocks;
    for (uint32_t i = 0; i < 4; ++i) blocks.push_back({32 * i + base, 16 * i, 16, 0, f.n});
    return blocks;
  }
  return {{0, 0, 128, 0, f.n}};
}

constexpr uint32_t kMaxDepth = 32;
constexpr uint32_t kMaxN = 256;

/// Work space of a product; one for each thread of the host.
struct Scratch {
  std::vector<float> a = std::vector<float>(size_t{kMaxDepth} * kTensorLanes);
  std::vector<float> b = std::vector<float>(size_t{kMaxDepth} * kMaxN);
  std::vector<float> d = std::vector<float>(size_t{kMaxN} * kTensorLanes);
};

Scratch& scratch() {
  static thread_local Scratch s;
  return s;
}

int32_t add_integers(int32_t a, float b, bool saturate) {
  const int64_t sum = int64_t{a} + static_cast<int64_t>(b);
  if (!saturate) return static_cast<int32_t>(sum);
  return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
}

class MmaOp final : public TensorOp {
 public:
  MmaOp(Warp& w, uint32_t lane, uint32_t group, const ProductForm& form,
        const ProductOperands& operands)
      : TensorOp(w, lane, group, Kind::kMma),
        form_(form),
        operands_(operands),
        blocks_(lane_blocks(form, group, operands.d >> 16)) {}

 private:
  void perform() override {
    load_b();
    for (uint32_t i = 0; i < group_; ++i) {
      Cta& cta = cta_of_pair(i);
      TensorMemory& t = tensor_memory(cta);
      t.check(operands_.d & 0xffff, blocks_[0].columns, "D");
      if (!operands_.a_in_tensor) load_a(cta);
      for (const LaneBlock& block : blocks_) {
        tell(cta, block);
        multiply(t, block, i);
      }
    }
  }

  void tell(Cta& cta, const LaneBlock& block) const {
    if (operands_.a_in_tensor) {
      exec::tell_tensor(cta,
                        {block.lane, block.rows, operands_.a_address & 0xffff, kDepthBytes / 4},
                        Access::kRead);
    }
    const TensorBlock d{block.lane, block.rows, operands_.d & 0xffff, block.columns};
    if (operands_.scale != 0) exec::tell_tensor(cta, d, Access::kRead);
    exec::tell_tensor(cta, d, Access::kWrite);
  }

  /// Each CTA of a pair has half of B's rows.
  void load_b() const {
    const uint32_t rows = form_.n / group_;
    for (uint32_t i = 0; i < group_; ++i) {
      load_panel(operands_.b, cta_of_pair(i), form_.b_major, form_.b, rows,
                 {scratch().b.data() + i * rows, kMaxN});
    }
  }

  void load_a(Cta& cta) const {
    load_panel(operands_.a, cta, form_.a_major, form_.a, form_.m / group_,
               {scratch().a.data(), kTensorLanes});
    negate(form_.m / group_);
  }

  void negate(uint32_t rows) const {
    if (!form_.negate) return;
    for (uint32_t k = 0; k < form_.k; ++k) {
      float* a = scratch().a.data() + size_t{k} * kTensorLanes;
      for (uint32_t row = 0; row < rows; ++row) a[row] = -a[row];
    }
  }

  LaneSet enabled(const LaneBlock& block, uint32_t cta) const {
    LaneSet lanes = LaneSet::range(block.lane, block.rows);
    const uint32_t* words = operands_.disabled.data() + size_t{4} * cta;
    LaneSet off;
    for (size_t i = 0; i < 2; ++i) {
      off.bits[i] = uint64_t{words[2 * i + 1]} << 32 | words[2 * i];
    }
    lanes.remove(off);
    return lanes;
  }

  void multiply(TensorMemory& t, const LaneBlock& block, uint32_t cta) const {
    const LaneSet lanes = enabled(block, cta);
    check_written(t, block, lanes);
    Scratch& s = scratch();
    size_t row = block.row;
    if (operands_.a_in_tensor) {
      t.check(operands_.a_address & 0xffff, kDepthBytes / 4, "A");
      load_panel(t, operands_.a_address & 0xffff, block.lane, form_.a, block.rows,
                 {s.a.data(), kTensorLanes});
      negate(block.rows);
      row = 0;
    }
    const uint32_t column = operands_.d & 0xffff;
    ProductBlock p;
    p.a = s.a.data() + row;
    p.a_stride = kTensorLanes;
    p.b = s.b.data() + block.first_n;
    p.b_stride = kMaxN;
    p.lanes = block.rows;
    p.columns = block.columns;
    p.depth = form_.k;
    p.scale = operands_.scale;
    const bool direct =
        form_.d == Accumulator::kF32 && lanes.contains(LaneSet::range(block.lane, block.rows));
    if (direct) {
      p.d = reinterpret_cast<float*>(t.column(column)) + block.lane;
      p.d_stride = kTensorLanes;
      multiply_add(p);
    } else {
      multiply_aside(t, block, lanes, p);
    }
    for (uint32_t c = column; c < column + block.columns; ++c) t.written[c].add(lanes);
  }

  /// By way of floats beside D: for other types of D, and disabled lanes.
  void multiply_aside(TensorMemory& t, const LaneBlock& block, const LaneSet& lanes,
                      ProductBlock p) const {
    const uint32_t column = operands_.d & 0xffff;
    const bool integers = form_.d == Accumulator::kS32;
    p.d = scratch().d.data();
    p.d_stride = kTensorLanes;
    if (integers) p.scale = 0;
    const auto for_each = [&](auto f) {
      for (uint32_t c = 0; c < block.columns; ++c) {
        for (uint32_t l = 0; l < block.rows; ++l) {
          if (!lanes.has(block.lane + l)) continue;
          f(t.column(column + c)[block.lane + l], p.d[c * p.d_stride + l]);
        }
      }
    };
    if (p.scale != 0) {
      for_each([&](uint32_t cell, float& x) {
        x = form_.d == Accumulator::kF16 ? from_float16(cell & 0xffff) : std::bit_cast<float>(cell);
      });
    }
    multiply_add(p);
    for_each([&](uint32_t& cell, float x) {
      switch (form_.d) {
        case Accumulator::kF16:
          cell = to_float16(x);
          break;
        case Accumulator::kF32:
          cell = std::bit_cast<uint32_t>(x);
          break;
        case Accumulator::kS32: {
          const int32_t old = operands_.scale != 0 ? static_cast<int32_t>(cell) : 0;
          cell = static_cast<uint32_t>(add_integers(old, x, form_.saturate));
          break;
        }
      }
    });
  }

  void check_written(const TensorMemory& t, const LaneBlock& block, const LaneSet& lanes) const {
    if (operands_.scale == 0) return;
    const uint32_t column = operands_.d & 0xffff;
    for (uint32_t c = column; c < column + block.columns; ++c) {
      if (t.written[c].contains(lanes)) continue;
      throw Fault(Rule::kTensorUndefined,
                  "the product adds to tensor memory that nobody wrote: column " +
                      std::to_string(c) + ", lanes from " + std::to_string(block.lane));
    }
  }

  ProductForm form_;
  ProductOperands operands_;
  std::vector<LaneBlock> blocks_;
};

/// D's lane is 0, or 16 where only half of the lanes are used; A's in tensor memory is the same.
void check_addresses(const ProductForm& f, uint32_t group, const ProductOperands& o) {
  const bool half = group == 1 && f.m == 64;
  const uint32_t lane = o.d >> 16;
  if (lane != 0 && !(half && lane == 16)) {
    throw Fault("D at tensor memory address " + hex(o.d) + ", lane " + std::to_string(lane) +
                "; allowed: lane 0" + (half ? " or 16" : ""));
  }
  if (o.a_in_tensor && o.a_address >> 16 != lane) {
    throw Fault("A at tensor memory address " + hex(o.a_address) + ", lane " +
                std::to_string(o.a_address >> 16) + "; allowed: D's, " + std::to_string(lane));
  }
}

}  // namespace

namespace exec {

Step tensor_mma(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t lane = issuing_lane(mask);
  const uint32_t group = i.mod[0];
  use_group(*w.cta, group);
  const ProductForm form =
      parse_form(w.reg<uint32_t>(i.c)[lane], static_cast<TensorKind>(i.mod[1]), group);
  ProductOperands o;
  o.d = w.reg<uint32_t>(i.d)[lane] + static_cast<uint32_t>(i.imm);
  o.a_in_tensor = i.mod[2] != 0;
  if (o.a_in_tensor) {
    o.a_address = w.reg<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.imm >> 32);
    if (form.a_major != MajorLayout::kK) throw Fault("A in tensor memory can't be transposed");
  } else {
    o.a = TensorDescriptor::parse(w.reg<uint64_t>(i.a)[lane], "A");
    check_layout(o.a, form.a_major, form.a, "A");
  }
  o.b = TensorDescriptor::parse(w.reg<uint64_t>(i.b)[lane], "B");
  check_layout(o.b, form.b_major, form.b, "B");
  check_addresses(form, group, o);
  const bool accumulate = (w.lanes_of(i.e) >> lane & 1) != 0;
  o.scale = accumulate ? 1.0f / static_cast<float>(1u << i.mod[3]) : 0.0f;
  const uint32_t* list = i.list_size > 0 ? &w.program().lists[i.list] : nullptr;
  for (uint32_t k = 0; k < i.list_size; ++k) o.disabled[k] = w.reg<uint32_t>(list[k])[lane];

  const TensorMemory& t = tensor_memory(*w.cta);
  t.check(o.d & 0xffff, group == 2 && form.m == 128 ? form.n / 2 : form.n, "D");
  if (o.a_in_tensor) t.check(o.a_address & 0xffff, kDepthBytes / 4, "A");
  w.worker->tally().matrix_flops += uint64_t{2} * form.m * form.n * form.k;
  issue(w, group, std::make_unique<MmaOp>(w, lane, group, form, o));
  return Step::kNext;
}

}  // namespace exec
}  // namespace fa4::emulator
