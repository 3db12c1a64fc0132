// SPDX-License-Identifier: BSD-3-Clause
// tcgen05.ld, st, wait: PTX ISA 9.7.16.8. Between registers and the 32 lanes that the warp owns.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/exec/tcgen05.h"
#include "emulator/exec/tcgen05_access.h"
#include "emulator/numeric.h"
#include "emulator/tensor_memory.h"

namespace fa4::emulator {
namespace exec {
namespace {

constexpr uint32_t kQuarter = 32;  ///< Lanes of a warp.

struct Cell {
  uint32_t row;
  uint32_t column;
};

/// Where register r of thread t lies, relative to the address (PTX ISA 9.7.16.2.3.1). `split` is
/// the distance of the halves of .16x32bx2.
Cell cell_of(TensorShape shape, uint32_t t, uint32_t r, uint32_t split) {
  switch (shape) {
    case TensorShape::k32x32b:
      return {t, r};
    case TensorShape::k16x64b:
      return {t / 4 + 8 * (t % 2), t / 2 % 2 + 2 * r};
    case TensorShape::k16x128b:
      return {t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2)};
    case TensorShape::k16x256b:
      return {t / 4 + 8 * (r / 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r / 4)};
    case TensorShape::k16x32bx2:
      return {t % 16, r + t / 16 * split};
  }
  return {0, 0};
}

}  // namespace

/// What a load or store touches.
struct TensorPatch {
  TensorShape shape = TensorShape::k32x32b;
  uint32_t lane = 0;
  uint32_t column = 0;
  uint32_t registers = 0;
  uint32_t split = 0;
  bool packed = false;  ///< A register holds two neighbouring columns' lower halves.

  uint32_t columns_of_half() const {
    const uint32_t words = shape == TensorShape::k16x64b    ? 2 * registers
                           : shape == TensorShape::k16x128b ? 2 * registers
                           : shape == TensorShape::k16x256b ? 2 * registers
                                                            : registers;
    return packed ? 2 * words : words;
  }
  uint32_t rows() const { return shape == TensorShape::k32x32b ? 32 : 16; }
  /// Throws Fault unless the columns are allocated.
  void check(const TensorMemory& t) const {
    t.check(column, columns_of_half(), "access by the warp");
    if (shape == TensorShape::k16x32bx2) {
      t.check(column + split, columns_of_half(), "access by the warp, second half");
    }
  }
  void tell(Cta& cta, Access access) const {
    tell_tensor(cta, {lane, rows(), column, columns_of_half()}, access);
    if (shape == TensorShape::k16x32bx2) {
      tell_tensor(cta, {lane, rows(), column + split, columns_of_half()}, access);
    }
  }
  /// f(thread, register, lane, column) for every register of every thread; the column is the first
  /// of two if packed.
  template <class F>
  void for_each(F f) const {
    for (uint32_t r = 0; r < registers; ++r) {
      for (uint32_t t = 0; t < kLanes; ++t) {
        Cell c = cell_of(shape, t, r, packed ? 0 : split);
        if (packed) {
          c.column *= 2;
          if (shape == TensorShape::k16x32bx2) c.column += t / 16 * split;
        }
        f(t, r, lane + c.row, column + c.column);
      }
    }
  }
};

namespace {

/// mod[1] shape, mod[2] packed, f split; a + imm the address.
TensorPatch patch_of(Warp& w, const Inst& i, uint32_t mask) {
  check_whole_warp(mask);
  TensorPatch p;
  p.shape = static_cast<TensorShape>(i.mod[1]);
  p.packed = i.mod[2] != 0;
  p.split = p.shape == TensorShape::k16x32bx2 ? i.f : 0;
  p.registers = i.list_size;
  const uint32_t address =
      uniform<uint32_t>(w, i.a, mask, "the address") + static_cast<uint32_t>(i.imm);
  p.lane = address >> 16;
  p.column = address & 0xffff;
  const uint32_t own = w.index % 4 * kQuarter;
  const bool mine = p.lane == own || (p.rows() == 16 && p.lane == own + 16);
  if (!mine) {
    throw Fault(Rule::kTensorForeignLanes,
                "tensor memory address " + hex(address) + " names lane " + std::to_string(p.lane) +
                    "; allowed for warp " + std::to_string(w.index) + ": lane " +
                    std::to_string(own) +
                    (p.rows() == 16 ? " or " + std::to_string(own + 16) : ""));
  }
  p.check(tensor_memory(*w.cta));
  return p;
}

class StoreOp final : public AsyncOp {
 public:
  StoreOp(Warp& warp, const TensorPatch& patch, uint32_t site)
      : AsyncOp(*warp.cta->cluster, site), warp_(&warp), patch_(patch) {
    std::vector<std::vector<uint32_t>>& spare = spare_values();
    if (!spare.empty()) {
      values_ = std::move(spare.back());
      spare.pop_back();
    }
    values_.resize(size_t{patch.registers} * kLanes);
  }
  ~StoreOp() override { spare_values().push_back(std::move(values_)); }

  uint32_t* values(uint32_t r) { return values_.data() + size_t{r} * kLanes; }

  bool step() override {
    TensorMemory& t = tensor_memory(*warp_->cta);
    patch_.check(t);
    patch_.tell(*warp_->cta, Access::kWrite);
    patch_.for_each([&](uint32_t thread, uint32_t r, uint32_t lane, uint32_t column) {
      const uint32_t x = values_[size_t{r} * kLanes + thread];
      t.column(column)[lane] = patch_.packed ? x & 0xffff : x;
      t.written[column].bits[lane / 64] |= uint64_t{1} << (lane % 64);
      if (!patch_.packed) return;
      t.column(column + 1)[lane] = x >> 16;
      t.written[column + 1].bits[lane / 64] |= uint64_t{1} << (lane % 64);
    });
    if (--t.pending_stores[warp_->index] == 0) {
      warp_->cta->wake(WaitKind::kTensorStore, warp_->index);
    }
    return true;
  }

 private:
  /// Memory of stores that are over, for the next ones.
  static std::vector<std::vector<uint32_t>>& spare_values() {
    thread_local std::vector<std::vector<uint32_t>> spare;
    return spare;
  }

  Warp* warp_;  ///< It lives as long as its cluster.
  TensorPatch patch_;
  std::vector<uint32_t> values_;
};

float with_nan(float a, float b, float least, bool nan) {
  if (std::isnan(a)) return nan ? canonical_nan() : b;
  if (std::isnan(b)) return nan ? canonical_nan() : a;
  return least;
}

uint32_t reduce(TensorReduce op, uint32_t modifiers, uint32_t x, uint32_t y) {
  const auto as_signed = [](uint32_t u) { return static_cast<int32_t>(u); };
  const float a = std::bit_cast<float>(x), b = std::bit_cast<float>(y);
  const bool nan = (modifiers & 2) != 0;
  switch (op) {
    case TensorReduce::kMinU32:
      return std::min(x, y);
    case TensorReduce::kMaxU32:
      return std::max(x, y);
    case TensorReduce::kMinS32:
      return as_signed(x) < as_signed(y) ? x : y;
    case TensorReduce::kMaxS32:
      return as_signed(x) < as_signed(y) ? y : x;
    case TensorReduce::kMinF32:
      return std::bit_cast<uint32_t>(with_nan(a, b, std::fmin(a, b), nan));
    case TensorReduce::kMaxF32:
      return std::bit_cast<uint32_t>(with_nan(a, b, std::fmax(a, b), nan));
  }
  return x;
}

/// Only the shapes whose threads hold one lane's columns: a thread reduces what it has loaded.
void reduce_row(Warp& w, const Inst& i) {
  const uint32_t* list = &w.program().lists[i.list];
  const auto op = static_cast<TensorReduce>(i.mod[3]);
  const bool absolute = (i.mod[4] & 1) != 0;
  const auto value = [&](uint32_t r, uint32_t lane) {
    const uint32_t x = w.reg<uint32_t>(list[r])[lane];
    return absolute ? x & 0x7fffffff : x;
  };
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    uint32_t result = value(0, lane);
    for (uint32_t r = 1; r < i.list_size; ++r) {
      result = reduce(op, i.mod[4], result, value(r, lane));
    }
    w.reg<uint32_t>(i.d)[lane] = result;
  }
}

}  // namespace
}  // namespace exec

/// A load that has not yet read. It reads when the adversary says so, at the latest when one of its
/// registers is used or waited for.
class TensorLoad final : public AsyncOp {
 public:
  TensorLoad(Warp& w, const Inst& i, const exec::TensorPatch& patch)
      : AsyncOp(*w.cta->cluster, w.pc), warp_(&w), inst_(&i), patch_(patch) {}

  bool step() override {
    complete();
    return true;
  }

  void complete() {
    if (done_) return;
    done_ = true;
    std::vector<TensorLoad*>& pending = tensor_memory(*warp_->cta).pending_loads[warp_->index];
    pending.erase(std::find(pending.begin(), pending.end(), this));
    Monitor* monitor = warp_->worker->monitor();
    if (monitor != nullptr) monitor->op_begins(*this);
    read();
    if (monitor == nullptr) return;
    tell_defined(*monitor);
    monitor->op_ends(*this);
  }

  /// Whether the instruction at pc reads or writes one of the load's registers.
  bool meets(uint32_t at) const {
    const Kernel& kernel = warp_->program();
    const uint32_t* list = &kernel.lists[inst_->list];
    for (uint32_t k = kernel.first_use[at]; k < kernel.first_use[at + 1]; ++k) {
      const RegisterUse& use = kernel.uses[k];
      if (use.predicate) continue;
      if (use.slot == inst_->d) return true;
      if (std::find(list, list + inst_->list_size, use.slot) != list + inst_->list_size) {
        return true;
      }
    }
    return false;
  }

 private:
  void read() {
    TensorMemory& t = tensor_memory(*warp_->cta);
    patch_.check(t);
    patch_.tell(*warp_->cta, Access::kRead);
    const uint32_t* list = &warp_->program().lists[inst_->list];
    if (patch_.shape == exec::TensorShape::k32x32b && !patch_.packed) {
      for (uint32_t r = 0; r < patch_.registers; ++r) {
        std::memcpy(warp_->reg<uint32_t>(list[r]), t.column(patch_.column + r) + patch_.lane,
                    kLanes * sizeof(uint32_t));
      }
    } else {
      patch_.for_each([&](uint32_t thread, uint32_t r, uint32_t lane, uint32_t column) {
        uint32_t x = t.column(column)[lane];
        if (patch_.packed) x = (x & 0xffff) | t.column(column + 1)[lane] << 16;
        warp_->reg<uint32_t>(list[r])[thread] = x;
      });
    }
    if (inst_->d != kNone) exec::reduce_row(*warp_, *inst_);
  }

  /// Which registers come from cells that somebody wrote.
  void tell_defined(Monitor& monitor) const {
    const TensorMemory& t = tensor_memory(*warp_->cta);
    const uint32_t* list = &warp_->program().lists[inst_->list];
    std::vector<uint32_t> defined(patch_.registers);
    patch_.for_each([&](uint32_t thread, uint32_t r, uint32_t lane, uint32_t column) {
      const bool written =
          t.written[column].has(lane) && (!patch_.packed || t.written[column + 1].has(lane));
      defined[r] |= static_cast<uint32_t>(written) << thread;
    });
    uint32_t all = kAllLanes;
    for (uint32_t r = 0; r < patch_.registers; ++r) {
      monitor.tensor_loaded(*warp_, list[r], defined[r]);
      all &= defined[r];
    }
    if (inst_->d != kNone) monitor.tensor_loaded(*warp_, inst_->d, all);
  }

  Warp* warp_;  ///< It lives as long as its cluster.
  const Inst* inst_;
  exec::TensorPatch patch_;
  bool done_ = false;
};

namespace exec {
namespace {

/// Stands before an instruction's own handler.
Step complete_loads(Warp& w, const Inst& i, uint32_t mask) {
  if (TensorMemory* t = w.cta->tensor.get()) {
    std::vector<TensorLoad*>& pending = t->pending_loads[w.index];
    for (size_t k = 0; k < pending.size();) {
      // complete() takes it out of the list.
      if (pending[k]->meets(w.pc)) {
        pending[k]->complete();
      } else {
        ++k;
      }
    }
  }
  return w.program().after_loads[w.pc](w, i, mask);
}

bool is_load(const Inst& i) {
  return i.run == tensor_handler(TensorInst::kLoad) ||
         i.run == tensor_handler(TensorInst::kLoadReduce);
}

}  // namespace

void watch_tensor_loads(Kernel& kernel) {
  std::vector<uint32_t> slots;
  for (const RegisterUse& use : kernel.uses) {
    if (use.write && !use.predicate && is_load(kernel.code[use.pc])) slots.push_back(use.slot);
  }
  if (slots.empty()) return;
  std::sort(slots.begin(), slots.end());
  for (const Inst& i : kernel.code) kernel.after_loads.push_back(i.run);
  for (const RegisterUse& use : kernel.uses) {
    if (use.predicate || !std::binary_search(slots.begin(), slots.end(), use.slot)) continue;
    kernel.code[use.pc].run = complete_loads;
  }
}

Step tensor_load(Warp& w, const Inst& i, uint32_t mask) {
  const TensorPatch patch = patch_of(w, i, mask);
  auto op = std::make_unique<TensorLoad>(w, i, patch);
  TensorLoad& load = *op;
  tensor_memory(*w.cta).pending_loads[w.index].push_back(&load);
  if (!w.worker->grid().options.late_loads) {
    if (Monitor* monitor = w.worker->monitor()) monitor->op_starts(load);
    load.complete();
    return Step::kNext;
  }
  w.worker->start(std::move(op));
  return Step::kNext;
}

Step tensor_load_reduce(Warp& w, const Inst& i, uint32_t mask) { return tensor_load(w, i, mask); }

Step tensor_store(Warp& w, const Inst& i, uint32_t mask) {
  const TensorPatch patch = patch_of(w, i, mask);
  auto op = std::make_unique<StoreOp>(w, patch, w.pc);
  const uint32_t* list = &w.program().lists[i.list];
  for (uint32_t r = 0; r < patch.registers; ++r) {
    std::memcpy(op->values(r), w.reg<uint32_t>(list[r]), kLanes * sizeof(uint32_t));
  }
  ++tensor_memory(*w.cta).pending_stores[w.index];
  if (w.worker->grid().options.late_stores) {
    w.worker->start(std::move(op));
  } else {
    w.worker->run_now(*op);
  }
  return Step::kNext;
}

Step tensor_wait_load(Warp& w, const Inst&, uint32_t mask) {
  check_whole_warp(mask);
  // What has not read yet reads now: later than this it can't be.
  std::vector<TensorLoad*>& pending = tensor_memory(*w.cta).pending_loads[w.index];
  while (!pending.empty()) pending.front()->complete();
  return Step::kNext;
}

Step tensor_wait_store(Warp& w, const Inst&, uint32_t mask) {
  check_whole_warp(mask);
  if (tensor_memory(*w.cta).pending_stores[w.index] == 0) return w.pass();
  return w.block({WaitKind::kTensorStore, 0, w.index});
}

}  // namespace exec
}  // namespace fa4::emulator
