// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/register_plan.h"

#include <mutex>

#include "emulator/decode/liveness.h"

namespace fa4::emulator::judge {
namespace {

constexpr uint32_t kSlotBytes = kLanes * 4;

/// What is defined at a point, whichever way led there: registers, then predicates.
using Bits = std::vector<uint64_t>;
bool get(const Bits& b, uint32_t i) { return (b[i / 64] >> (i % 64) & 1) != 0; }
void put(Bits& b, uint32_t i, bool value) {
  const uint64_t bit = uint64_t{1} << (i % 64);
  b[i / 64] = value ? b[i / 64] | bit : b[i / 64] & ~bit;
}

/// What is defined on both ways. True if that is less than `into` was.
bool meet(Bits& into, const Bits& from) {
  bool less = false;
  for (size_t w = 0; w < into.size(); ++w) {
    less |= (into[w] & ~from[w]) != 0;
    into[w] &= from[w];
  }
  return less;
}

/// Of memory that holds something from the start.
bool loads_defined(const Inst& inst, std::string_view opcode) {
  return inst.kind == Class::kParam || opcode.find(".global") != std::string_view::npos ||
         opcode.find(".const") != std::string_view::npos;
}

/// A definite-assignment analysis over the kernel's blocks.
class Definite {
 public:
  Definite(const Kernel& kernel, const std::vector<EffectInfo>& effects)
      : kernel_(kernel),
        effects_(effects),
        registers_(kernel.register_bytes / kSlotBytes + 4),
        words_((registers_ + kernel.predicates) / 64 + 1),
        blocks_(decode::find_blocks(kernel)) {}

  /// f(pc, use, defined) for every read, in the order of the code.
  template <class F>
  void run(F f) {
    std::vector<Bits> entry(blocks_.size(), Bits(words_, ~uint64_t{0}));
    if (blocks_.empty()) return;
    entry[0] = at_start();
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        Bits now = entry[b];
        for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc) step(pc, now);
        for (const uint32_t next : blocks_[b].next) changed |= meet(entry[next], now);
      }
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      Bits now = entry[b];
      for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc) {
        for (uint32_t k = kernel_.first_use[pc]; k < kernel_.first_use[pc + 1]; ++k) {
          const RegisterUse& use = kernel_.uses[k];
          if (!use.write) f(pc, k, get(now, place(use)));
        }
        step(pc, now);
      }
    }
  }

 private:
  uint32_t place(const RegisterUse& use) const {
    return use.predicate ? registers_ + (use.slot >> 1) : use.slot / kSlotBytes;
  }

  Bits at_start() const {
    Bits b(words_);
    for (const Preset& p : kernel_.presets) put(b, p.slot / kSlotBytes, true);
    for (const uint32_t p : kernel_.true_predicates) put(b, registers_ + p, true);
    for (const uint32_t p : kernel_.false_predicates) put(b, registers_ + p, true);
    return b;
  }

  /// Whether what the instruction writes is defined for sure.
  bool result_defined(uint32_t pc, const Bits& now) const {
    const Inst& i = kernel_.code[pc];
    switch (effects_[pc].effect) {
      case Effect::kMove: {
        bool all = true;
        for (uint32_t k = kernel_.first_use[pc]; k < kernel_.first_use[pc + 1]; ++k) {
          const RegisterUse& use = kernel_.uses[k];
          if (!use.write && !use.predicate) all = all && get(now, place(use));
        }
        return all;
      }
      case Effect::kSelect:
        return get(now, i.a / kSlotBytes) && get(now, i.b / kSlotBytes);
      case Effect::kLoad:
        return loads_defined(i, kernel_.sites[pc].opcode);
      case Effect::kTensorLoad:
        return false;
      default:
        return true;
    }
  }

  void step(uint32_t pc, Bits& now) const {
    const Inst& i = kernel_.code[pc];
    const bool defined = result_defined(pc, now), always = i.guard == kNone;
    for (uint32_t k = kernel_.first_use[pc]; k < kernel_.first_use[pc + 1]; ++k) {
      const RegisterUse& use = kernel_.uses[k];
      // What was read and is not reported is defined.
      const bool checked =
          effects_[pc].effect != Effect::kWgmma && !may_read_undefined(i, effects_[pc].effect, use);
      if (!use.write && always && checked) put(now, place(use), true);
    }
    for (uint32_t k = kernel_.first_use[pc]; k < kernel_.first_use[pc + 1]; ++k) {
      const RegisterUse& use = kernel_.uses[k];
      if (!use.write) continue;
      const bool good = defined || use.predicate;
      if (always || !good) put(now, place(use), good);
    }
  }

  const Kernel& kernel_;
  const std::vector<EffectInfo>& effects_;
  uint32_t registers_;
  size_t words_;
  std::vector<decode::Block> blocks_;
};

}  // namespace

std::shared_ptr<const KernelPlan> plan_of(const Kernel& kernel) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (kernel.plan == nullptr) kernel.plan = std::make_shared<const KernelPlan>(kernel);
  return std::static_pointer_cast<const KernelPlan>(kernel.plan);
}

bool may_read_undefined(const Inst& i, Effect effect, const RegisterUse& use) {
  switch (effect) {
    case Effect::kMove:
      return !(use.predicate && use.slot == (i.guard & ~1u));
    case Effect::kSelect:
      return !use.predicate;
    case Effect::kStore:
      // Shared and local memory take what is undefined, and remember it.
      return !use.predicate && use.slot != i.a && i.kind != Class::kGlobal;
    default:
      return false;
  }
}

RegisterPlan::RegisterPlan(const Kernel& kernel, const std::vector<EffectInfo>& effects) {
  std::vector<uint8_t> maybe(kernel.uses.size()), product(kernel.register_bytes / kSlotBytes + 4);
  registers_.resize(product.size());
  predicates_.resize(kernel.predicates);
  Definite(kernel, effects).run([&](uint32_t, uint32_t k, bool defined) {
    if (defined) return;
    const RegisterUse& use = kernel.uses[k];
    maybe[k] = 1;
    (use.predicate ? predicates_[use.slot >> 1] : registers_[use.slot / kSlotBytes]) = 1;
  });
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const Inst& i = kernel.code[pc];
    if (effects[pc].effect != Effect::kWgmma) continue;
    for (uint32_t k = 0; k < i.list_size; ++k) product[kernel.lists[i.list + k] / kSlotBytes] = 1;
  }
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    first_check_.push_back(static_cast<uint32_t>(checks_.size()));
    first_write_.push_back(static_cast<uint32_t>(writes_.size()));
    bool any = false;
    for (uint32_t k = kernel.first_use[pc]; k < kernel.first_use[pc + 1]; ++k) {
      const RegisterUse& use = kernel.uses[k];
      PlannedUse p;
      p.predicate = use.predicate;
      p.index = use.predicate ? use.slot >> 1 : use.slot / kSlotBytes;
      p.slot = use.slot;
      p.may_be_undefined = may_read_undefined(kernel.code[pc], effects[pc].effect, use);
      p.maybe = maybe[k] != 0;
      p.product = !use.predicate && product[p.index] != 0;
      any |= p.maybe;
      if (p.maybe || p.product) checks_.push_back(p);
      p.tracked = (use.predicate ? predicates_ : registers_)[p.index] != 0;
      if (use.write && (p.tracked || p.product)) writes_.push_back(p);
    }
    any_maybe_.push_back(any ? 1 : 0);
    const bool unseen = first_check_.back() == checks_.size() &&
                        first_write_.back() == writes_.size() &&
                        effects[pc].effect <= Effect::kSelect && !effects[pc].checks_late;
    const Inst& i = kernel.code[pc];
    const bool pure = is_arithmetic(i.kind) || (i.flags & kBranch) != 0;
    quiet_.push_back(unseen && pure ? 1 : 0);
  }
  first_check_.push_back(static_cast<uint32_t>(checks_.size()));
  first_write_.push_back(static_cast<uint32_t>(writes_.size()));
}

}  // namespace fa4::emulator::judge
