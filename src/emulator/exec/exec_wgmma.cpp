// SPDX-License-Identifier: BSD-3-Clause
// Warpgroup matrix products: PTX ISA 9.7.15. The four warps of a warpgroup issue a product each for
// its own 16 rows of D; it is done, for all four, when the adversary wants, from what shared memory
// holds then. A in registers is taken when it is issued.
#include <cstring>
#include <vector>

#include "emulator/exec/matrix_handlers.h"
#include "emulator/exec/targets.h"
#include "emulator/monitor.h"
#include "emulator/numeric.h"
#include "emulator/tensor_sum.h"
#include "emulator/worker.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_wgmma.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// d[lane] += sum over k of a[k][lane] * b[k][lane % 4], for the two halves of a fragment: rows
/// 0-7 and 8-15. a: [depth][2][32], b: a column pattern every `step` floats.
HWY_INLINE void accumulate(const float* a, const float* b, uint32_t step, uint32_t depth,
                           float* low, float* high) {
  const hn::CappedTag<float, 8> d;
  constexpr size_t kN = hn::MaxLanes(hn::CappedTag<float, 8>());
  constexpr size_t kVectors = kLanes / kN;
  hn::Vec<decltype(d)> x[kVectors], y[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    x[v] = hn::LoadU(d, low + v * kN);
    y[v] = hn::LoadU(d, high + v * kN);
  }
  for (uint32_t k = 0; k < depth; ++k, a += 2 * kLanes, b += step) {
    const auto pattern = hn::LoadDup128(d, b);
    for (size_t v = 0; v < kVectors; ++v) {
      x[v] = hn::MulAdd(hn::LoadU(d, a + v * kN), pattern, x[v]);
      y[v] = hn::MulAdd(hn::LoadU(d, a + kLanes + v * kN), pattern, y[v]);
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(x[v], d, low + v * kN);
    hn::StoreU(y[v], d, high + v * kN);
  }
}

}  // namespace

/// One warp's 16 rows by `columns`: fragment register 4 i + 2 half + parity has, in lane t, row
/// t / 4 + 8 half and column 8 i + 2 (t % 4) + parity. b: [k][i][parity][4].
void warp_product(const float* a, const float* b, uint32_t depth, uint32_t columns,
                  float* const* d) {
  for (uint32_t i = 0; i < columns / 8; ++i) {
    for (uint32_t parity = 0; parity < 2; ++parity) {
      accumulate(a, b + 8 * i + 4 * parity, columns, depth, d[4 * i + parity],
                 d[4 * i + 2 + parity]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {
namespace {

constexpr uint32_t kWarps = 4;
constexpr uint32_t kRows = 16;  ///< Of a warp.
constexpr uint32_t kMaxColumns = 256;
constexpr uint32_t kMaxDepth = 32;

void put(const WgmmaForm& f, Inst& i) {
  i.mod = {static_cast<uint8_t>(f.a),
           static_cast<uint8_t>(f.b),
           static_cast<uint8_t>(f.columns / 8),
           f.a_in_registers,
           f.negate_a,
           f.negate_b,
           f.a_m_major,
           f.b_n_major,
           static_cast<uint8_t>(f.d)};
}
WgmmaForm form_of(const Inst& i) {
  WgmmaForm f;
  f.a = static_cast<ElementType>(i.mod[0]);
  f.b = static_cast<ElementType>(i.mod[1]);
  f.columns = 8u * i.mod[2];
  f.a_in_registers = i.mod[3] != 0;
  f.negate_a = i.mod[4] != 0;
  f.negate_b = i.mod[5] != 0;
  f.a_m_major = i.mod[6] != 0;
  f.b_n_major = i.mod[7] != 0;
  f.d = static_cast<Type>(i.mod[8]);
  return f;
}

/// A warp's share of a product in flight.
struct Share {
  Warp* warp = nullptr;
  bool keep = false;     ///< scale-d
  std::vector<float> a;  ///< From registers: [k][16 rows].
};

class Product final : public AsyncOp {
 public:
  Product(Warp& warp, const Inst& inst, uint64_t a, uint64_t b)
      : AsyncOp(*warp.cta->cluster, warp.pc), inst_(inst), a_(a), b_(b) {}

  /// What the other warps of the warpgroup must agree on.
  bool is(uint32_t site, uint64_t a, uint64_t b) const {
    return pc == site && (form_of(inst_).a_in_registers || a_ == a) && b_ == b;
  }
  void add(Warp& warp, Share share) { shares_[warp.index % kWarps] = std::move(share); }

  bool ready() const override {
    for (const Share& s : shares_) {
      if (s.warp == nullptr) return false;
    }
    return true;
  }
  bool step() override;

 private:
  void prepare(const WgmmaForm& f, Cta& cta, std::vector<float>& a, std::vector<float>& b) const;
  void multiply(const WgmmaForm& f, Share& share, const float* a, const float* b) const;

  const Inst& inst_;
  uint64_t a_, b_;
  Share shares_[kWarps];
};

/// Both operands as floats: a [k][64 rows] (left alone if in registers), b [k][i][parity][4].
void Product::prepare(const WgmmaForm& f, Cta& cta, std::vector<float>& a,
                      std::vector<float>& b) const {
  const uint32_t depth = k_of(f.b), n = f.columns;
  if (!f.a_in_registers) {
    a.resize(size_t{depth} * kRows * kWarps);
    fetch_operand(*cluster, cta.rank, decode_wgmma_descriptor(a_), !f.a_m_major, f.a,
                  kRows * kWarps, a.data());
  }
  std::vector<float> rows(size_t{depth} * n);
  fetch_operand(*cluster, cta.rank, decode_wgmma_descriptor(b_), !f.b_n_major, f.b, n, rows.data());
  b.resize(rows.size());
  const float sign = f.negate_a != f.negate_b ? -1.0f : 1.0f;
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t i = 0; i < n; i += 8) {
      const float* from = &rows[k * n + i];
      float* to = &b[k * n + i];
      for (uint32_t c = 0; c < 4; ++c) {
        to[c] = sign * from[2 * c];
        to[4 + c] = sign * from[2 * c + 1];
      }
    }
  }
}

/// D's registers as floats, and back: float16 has two columns a register, int32 whole numbers.
void load_d(const Warp& w, const uint32_t* list, const WgmmaForm& f, float* d) {
  for (uint32_t r = 0; r < f.columns / 2; ++r) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t word = w.reg<uint32_t>(list[r / 2])[l];
      d[r * kLanes + l] = from_float16(r % 2 != 0 ? word >> 16 : word & 0xffff);
    }
  }
}
void store_d(const Warp& w, const uint32_t* list, const WgmmaForm& f, const float* d) {
  for (uint32_t r = 0; r < f.columns / 2; r += 2) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      w.reg<uint32_t>(list[r / 2])[l] =
          to_float16(d[(r + 1) * kLanes + l]) << 16 | to_float16(d[r * kLanes + l]);
    }
  }
}

/// [k][rows] of one warp to [k][half][lane]: lane t needs row t / 4 + 8 half.
void spread_rows(const float* a, uint32_t stride, uint32_t depth, float* out) {
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t row = 0; row < kRows; ++row) {
      const float x = a[k * stride + row];
      float* to = out + (k * 2 + row / 8) * kLanes + row % 8 * 4;
      to[0] = to[1] = to[2] = to[3] = x;
    }
  }
}

/// As warp_product, with the hardware's sums.
void hopper_product(const float* a, const float* b, const WgmmaForm& f, float* const* d) {
  for (uint32_t r = 0; r < f.columns / 2; ++r) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      const Factors factors{a + r / 2 % 2 * kLanes + l, 2 * kLanes,
                            b + r / 4 * 8 + r % 2 * 4 + l % 4, f.columns, k_of(f.b)};
      d[r][l] = hopper_sum(factors, d[r][l], size_of(f.a) == 1 ? kTinySumBits : kSumBits);
    }
  }
}

void Product::multiply(const WgmmaForm& f, Share& share, const float* a, const float* b) const {
  Warp& w = *share.warp;
  const uint32_t depth = k_of(f.b), registers = f.columns / 2;
  const uint32_t* list = &w.program().lists[inst_.list];
  float spread[kMaxDepth * 2 * kLanes];
  if (f.a_in_registers) {
    spread_rows(share.a.data(), kRows, depth, spread);
  } else {
    spread_rows(a + w.index % kWarps * kRows, kRows * kWarps, depth, spread);
  }
  float* d[kMaxColumns / 2];
  std::vector<float> copy;
  if (f.d != Type::kF32) copy.resize(size_t{registers} * kLanes);
  for (uint32_t r = 0; r < registers; ++r) {
    d[r] = f.d == Type::kF32 ? w.reg<float>(list[r]) : &copy[r * kLanes];
  }
  if (f.d == Type::kF16 && share.keep) load_d(w, list, f, copy.data());
  if (f.d == Type::kF32 && !share.keep) {
    for (uint32_t r = 0; r < registers; ++r) std::memset(d[r], 0, kLanes * sizeof(float));
  }
  if (f.d != Type::kS32 && w.worker->grid().options.sums == Sums::kHopper) {
    hopper_product(spread, b, f, d);
  } else {
    FA4_EMULATOR_BEST(warp_product(spread, b, depth, f.columns, d));
  }
  if (f.d == Type::kF16) store_d(w, list, f, copy.data());
  if (f.d != Type::kS32) return;
  // Sums of 32 products of 8-bit numbers are exact in float32.
  for (uint32_t r = 0; r < registers; ++r) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      uint32_t& x = w.reg<uint32_t>(list[r])[l];
      x = (share.keep ? x : 0) + static_cast<uint32_t>(static_cast<int32_t>(d[r][l]));
    }
  }
}

bool Product::step() {
  const WgmmaForm f = form_of(inst_);
  Cta& cta = *shares_[0].warp->cta;
  std::vector<float> a, b;
  prepare(f, cta, a, b);
  for (Share& share : shares_) {
    multiply(f, share, a.data(), b.data());
    Warp& w = *share.warp;
    ++w.wgmma.groups.done;
    if (w.wake(WaitKind::kWgmma, std::nullopt)) w.worker->enqueue(w);
  }
  cluster->worker->tally().matrix_flops += uint64_t{2} * kRows * kWarps * f.columns * k_of(f.b);
  ++cta.wgmma[shares_[0].warp->index / kWarps]->first;
  return true;
}

/// A's four registers: lane t has row t / 4 (+ 8) and columns from 2 (t % 4) on, in packed pairs.
std::vector<float> a_of_registers(const Warp& w, const Inst& i, const WgmmaForm& f) {
  const uint32_t e = size_of(f.a), depth = k_of(f.a), per_word = 4 / e;
  const uint32_t* list = &w.program().lists[i.list + i.list_size - 4];
  std::vector<float> a(size_t{depth} * kRows);
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t* words = w.reg<uint32_t>(list[r]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t row = l / 4 + 8 * (r % 2), k = l % 4 * per_word + r / 2 * (depth / 2);
      std::byte bytes[4];
      std::memcpy(bytes, &words[l], 4);
      for (uint32_t j = 0; j < per_word; ++j) {
        a[(k + j) * kRows + row] = element_value(bytes + j * e, f.a);
      }
    }
  }
  return a;
}

Step issue(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != kAllLanes) throw Fault("wgmma by a part of a warp");
  if (w.cta->warps.size() < (w.index / kWarps + 1) * kWarps) {
    throw Fault("wgmma by a warpgroup of less than four warps");
  }
  const WgmmaForm f = form_of(i);
  WgmmaQueue& queue = *w.cta->wgmma[w.index / kWarps];
  const uint64_t a = f.a_in_registers ? 0 : w.reg<uint64_t>(i.a)[0];
  const uint64_t b = w.reg<uint64_t>(i.b)[0];
  Share share;
  share.warp = &w;
  share.keep = (w.lanes_of(i.c) & 1) != 0;
  if (f.a_in_registers) share.a = a_of_registers(w, i, f);

  const uint64_t number = w.wgmma.groups.issued - queue.first;
  ++w.wgmma.groups.issued;
  if (number >= queue.queue.ops.size()) {
    w.worker->start(queue.queue, std::make_unique<Product>(w, i, a, b));
  }
  auto& product = static_cast<Product&>(*queue.queue.ops[number]);
  if (!product.is(w.pc, a, b)) {
    throw Fault(
        Rule::kWgmmaDiffers,
        "the warps of a warpgroup issue different wgmma: another instruction or descriptor");
  }
  product.add(w, std::move(share));
  if (Monitor* monitor = w.worker->monitor()) monitor->op_joined(product);
  if (product.ready()) w.worker->nudge();
  return Step::kNext;
}

Step commit(Warp& w, const Inst&, uint32_t) {
  w.wgmma.groups.commit();
  return Step::kNext;
}

Step wait(Warp& w, const Inst& i, uint32_t) {
  const auto pending = static_cast<uint32_t>(i.imm);
  if (w.wgmma.groups.reached(pending)) return w.pass();
  return w.block({WaitKind::kWgmma, pending, 0});
}

}  // namespace

Handler wgmma(const WgmmaForm& form, Inst& inst) {
  put(form, inst);
  return issue;
}
Handler wgmma_wait() { return wait; }
Handler wgmma_commit() { return commit; }

}  // namespace fa4::emulator::exec
#endif
