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

RegisterWatch::RegisterWatch(const Kernel& kernel, const RegisterPlan& plan)
    : kernel_(&kernel),
      plan_(&plan),
      registers_(kernel.register_bytes / kSlotBytes + 4),
      predicates_(kernel.predicates) {
  // What is not tracked is read where it is defined, and so it stays.
  for (uint32_t i = 0; i < registers_.size(); ++i) {
    if (!plan.tracks_register(i)) registers_[i].defined = kAllLanes;
  }
  for (uint32_t i = 0; i < predicates_.size(); ++i) {
    if (!plan.tracks_predicate(i)) predicates_[i] = kAllLanes;
  }
  for (const Preset& p : kernel.presets) registers_[p.slot / kSlotBytes].defined = kAllLanes;
  for (const uint32_t p : kernel.true_predicates) predicates_[p] = kAllLanes;
  for (const uint32_t p : kernel.false_predicates) predicates_[p] = kAllLanes;
}

/// Reads that need not be of something defined.
bool RegisterWatch::skips(const Warp& warp, const EffectInfo& effect, uint32_t pc,
                          const PlannedUse& use) const {
  const Inst& i = kernel_->code[pc];
  if (effect.effect != Effect::kWgmma) return use.may_be_undefined;
  const bool keeps = (warp.lanes_of(i.c) & 1) != 0;
  return !use.predicate && !keeps && in_list(*kernel_, i, accumulators(i), use.slot);
}

std::optional<RegisterFault> RegisterWatch::check(const Warp& warp, const EffectInfo& effect,
                                                  uint32_t pc, uint32_t lanes) const {
  const bool flying = issued_ > waited_;
  if (!flying && !plan_->any_maybe(pc)) return std::nullopt;
  for (const PlannedUse& use : plan_->checks(pc)) {
    if (flying && use.product) {
      const Register& r = registers_[use.index];
      if (r.product > waited_ && !may_go_on(pc, r.pc)) {
        return RegisterFault{true, use.slot, false, kAllLanes, r.pc};
      }
    }
    if (!use.maybe) continue;
    const uint32_t defined = use.predicate ? predicates_[use.index] : registers_[use.index].defined;
    const uint32_t bad = lanes & ~defined;
    if (bad == 0 || skips(warp, effect, pc, use)) continue;
    return RegisterFault{false, use.slot, use.predicate, bad, 0};
  }
  return std::nullopt;
}

void RegisterWatch::wrote(const Warp& warp, const EffectInfo& effect, uint32_t pc, uint32_t lanes) {
  const std::span<const PlannedUse> writes = plan_->writes(pc);
  if (writes.empty()) return;
  const Inst& i = kernel_->code[pc];
  uint32_t good = kAllLanes;
  if (effect.effect == Effect::kMove) {
    for (uint32_t k = kernel_->first_use[pc]; k < kernel_->first_use[pc + 1]; ++k) {
      const RegisterUse& use = kernel_->uses[k];
      if (!use.write && !use.predicate) good &= registers_[use.slot / kSlotBytes].defined;
    }
  } else if (effect.effect == Effect::kSelect) {
    const uint32_t first = warp.lanes_of(i.c);
    good = (defined(i.a) & first) | (defined(i.b) & ~first);
  }
  ++time_;
  for (const PlannedUse& use : writes) {
    if (use.predicate) {
      predicates_[use.index] |= lanes;
      continue;
    }
    if (use.tracked) put(use.index, lanes, good);
    if (effect.effect != Effect::kWgmma) registers_[use.index].written = time_;
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

/// Whether an instruction may touch a register that a product in flight accumulates in: another
/// product with the same accumulators.
bool RegisterWatch::may_go_on(uint32_t pc, uint32_t product) const {
  const Inst &now = kernel_->code[pc], &before = kernel_->code[product];
  if ((now.flags & kAsyncResult) == 0) return false;
  if (same_now_ != pc || same_before_ != product) {
    same_now_ = pc;
    same_before_ = product;
    const uint32_t* list = kernel_->lists.data();
    same_ = accumulators(now) == accumulators(before) &&
            std::equal(list + now.list, list + now.list + accumulators(now), list + before.list);
  }
  return same_;
}

}  // namespace fa4::emulator::judge
