// SPDX-License-Identifier: BSD-3-Clause
// Which registers need no watching: those that every way through the code defines before it uses
// them. Found once for a kernel, so that most instructions cost the judge nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emulator/judge/effects.h"
#include "emulator/program.h"

namespace fa4::emulator::judge {

struct PlannedUse {
  uint32_t index = 0;  ///< Of the register's first 32-bit word, or of the predicate.
  bool predicate = false;
  bool maybe = false;             ///< A read of what may be undefined.
  bool product = false;           ///< A register that some wgmma has among its operands.
  bool may_be_undefined = false;  ///< may_read_undefined()
  bool tracked = false;
  uint32_t slot = 0;  ///< As in RegisterUse.
};

class RegisterPlan {
 public:
  RegisterPlan(const Kernel& kernel, const std::vector<EffectInfo>& effects);

  /// Uses to be checked before an instruction runs: reads of what may be undefined, all uses of
  /// products' registers.
  std::span<const PlannedUse> checks(uint32_t pc) const { return part(checks_, first_check_, pc); }
  /// Whether one of them is a read of what may be undefined.
  bool any_maybe(uint32_t pc) const { return any_maybe_[pc] != 0; }
  /// Writes to be remembered.
  std::span<const PlannedUse> writes(uint32_t pc) const { return part(writes_, first_write_, pc); }
  /// Whether what a register holds is remembered. If not, all reads of it are of something defined.
  bool tracks_register(uint32_t index) const { return registers_[index] != 0; }
  bool tracks_predicate(uint32_t index) const { return predicates_[index] != 0; }
  /// By pc: whether the judge need not see the instruction at all.
  const std::vector<uint8_t>& quiet() const { return quiet_; }

 private:
  static std::span<const PlannedUse> part(const std::vector<PlannedUse>& all,
                                          const std::vector<uint32_t>& first, uint32_t pc) {
    return {all.data() + first[pc], all.data() + first[pc + 1]};
  }

  std::vector<PlannedUse> checks_, writes_;
  std::vector<uint32_t> first_check_, first_write_;  ///< By pc; one more than code.
  std::vector<uint8_t> any_maybe_, quiet_;           ///< By pc.
  std::vector<uint8_t> registers_, predicates_;      ///< By index.
};

/// What the judge knows of a kernel before it runs.
struct KernelPlan {
  explicit KernelPlan(const Kernel& kernel)
      : effects(effects_of(kernel)), registers(kernel, effects) {}
  std::vector<EffectInfo> effects;
  RegisterPlan registers;
};

/// The kernel's, made once.
std::shared_ptr<const KernelPlan> plan_of(const Kernel& kernel);

/// Whether the judge lets an instruction read what is undefined there. A wgmma's accumulators
/// depend on a predicate besides: RegisterWatch.
bool may_read_undefined(const Inst& inst, Effect effect, const RegisterUse& use);

}  // namespace fa4::emulator::judge
