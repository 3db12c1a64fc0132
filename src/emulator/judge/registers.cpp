// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/registers.h"

#include <algorithm>

namespace fa4::emulator::judge {
namespace {

/// The registers that a wgmma accumulates in.
uint32_t accumulators(const Inst& i) {
  const bool a_in_registers = i.mod[3] != 0;
  return i.list_size - (a_in_registers ? 4 : 0);
}

bool in_list(const Kernel& kernel, const Inst& i, uint32_t count, uint32_t slot) {
  const uint32_t* list = kernel.lists.data() + i.list;
  return std::find(list, list + count, slot) != list + count;
}

}  // namespace

RegisterWatch::RegisterWatch(const Kernel& kernel)
    : kernel_(&kernel),
      registers_(kernel.register_bytes / kSlotBytes + 4),
      predicates_(kernel.predicates) {
  for (const Preset& p : kernel.presets) registers_[p.slot / kSlotBytes].defined = kAllLanes;
  for (const uint32_t p : kernel.true_predicates) predicates_[p] = kAllLanes;
  for (const uint32_t p : kernel.false_predicates) predicates_[p] = kAllLanes;
}

/// Reads that need not be of something defined.
bool RegisterWatch::skips(const Warp& warp, const EffectInfo& effect, uint32_t pc,
                          const RegisterUse& use) const {
  const Inst& i = kernel_->code[pc];
  switch (effect.effect) {
    case Effect::kMove:
      return !(use.predicate && use.slot == (i.guard & ~1u));
    case Effect::kSelect:
      return !use.predicate;
    case Effect::kStore:
      // Shared and local memory take what is undefined, and remember it.
      return !use.predicate && use.slot != i.a && i.kind != Class::kGlobal;
    case Effect::kWgmma: {
      const bool keeps = (warp.lanes_of(i.c) & 1) != 0;
      return !use.predicate && !keeps && in_list(*kernel_, i, accumulators(i), use.slot);
    }
    default:
      return false;
  }
}

std::optional<RegisterFault> RegisterWatch::check(const Warp& warp, const EffectInfo& effect,
                                                  uint32_t pc, uint32_t lanes) const {
  const bool flying = issued_ > waited_;
  for (uint32_t k = kernel_->first_use[pc]; k < kernel_->first_use[pc + 1]; ++k) {
    const RegisterUse& use = kernel_->uses[k];
    uint32_t bad = lanes;
    if (use.predicate) {
      bad &= ~predicates_[use.slot >> 1];
    } else {
      const Register& r = registers_[use.slot / kSlotBytes];
      bad &= ~r.defined;
      if (flying && r.product > waited_) {
        if (auto fault = check_flying(pc, use)) return fault;
      }
    }
    if (bad == 0 || use.write || skips(warp, effect, pc, use)) continue;
    return RegisterFault{false, use.slot, use.predicate, bad, 0};
  }
  return std::nullopt;
}

void RegisterWatch::wrote(const Warp& warp, const EffectInfo& effect, uint32_t pc, uint32_t lanes) {
  const Inst& i = kernel_->code[pc];
  uint32_t good = kAllLanes;
  const uint32_t begin = kernel_->first_use[pc], end = kernel_->first_use[pc + 1];
  if (effect.effect == Effect::kMove) {
    for (uint32_t k = begin; k < end; ++k) {
      const RegisterUse& use = kernel_->uses[k];
      if (!use.write && !use.predicate) good &= registers_[use.slot / kSlotBytes].defined;
    }
  } else if (effect.effect == Effect::kSelect) {
    const uint32_t first = warp.lanes_of(i.c);
    good = (defined(i.a) & first) | (defined(i.b) & ~first);
  }
  ++time_;
  for (uint32_t k = begin; k < end; ++k) {
    const RegisterUse& use = kernel_->uses[k];
    if (!use.write) continue;
    if (use.predicate) {
      predicates_[use.slot >> 1] |= lanes;
      continue;
    }
    set(use.slot, lanes, good);
    if (effect.effect != Effect::kWgmma) registers_[use.slot / kSlotBytes].written = time_;
  }
}

bool RegisterWatch::wants_fence(const Kernel& kernel, uint32_t pc) const {
  if (fence_time_ == 0) return true;
  const Inst& i = kernel.code[pc];
  for (uint32_t k = 0; k < i.list_size; ++k) {
    if (registers_[kernel.lists[i.list + k] / kSlotBytes].written > fence_time_) return true;
  }
  return false;
}

void RegisterWatch::issue(uint32_t pc) {
  ++issued_;
  const Inst& i = kernel_->code[pc];
  for (uint32_t k = 0; k < accumulators(i); ++k) {
    Register& r = registers_[kernel_->lists[i.list + k] / kSlotBytes];
    r.product = issued_;
    r.pc = pc;
  }
}

/// A register that a product in flight accumulates in. Another product may go on with the same
/// accumulators.
std::optional<RegisterFault> RegisterWatch::check_flying(uint32_t pc,
                                                         const RegisterUse& use) const {
  const uint32_t product = registers_[use.slot / kSlotBytes].pc;
  const Inst &now = kernel_->code[pc], &before = kernel_->code[product];
  if ((now.flags & kAsyncResult) != 0) {
    if (same_now_ != pc || same_before_ != product) {
      same_now_ = pc;
      same_before_ = product;
      const uint32_t* list = kernel_->lists.data();
      same_ = accumulators(now) == accumulators(before) &&
              std::equal(list + now.list, list + now.list + accumulators(now), list + before.list);
    }
    if (same_) return std::nullopt;
  }
  return RegisterFault{true, use.slot, false, kAllLanes, product};
}

}  // namespace fa4::emulator::judge
