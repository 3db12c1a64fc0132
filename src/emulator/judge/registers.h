// SPDX-License-Identifier: BSD-3-Clause
// Which registers of a warp hold something defined, and which are in use by a wgmma in flight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/judge/register_plan.h"
#include "emulator/machine.h"

namespace fa4::emulator::judge {

/// What is wrong with an instruction's registers.
struct RegisterFault {
  bool in_flight = false;  ///< Else it is undefined.
  uint32_t slot = 0;
  bool predicate = false;
  uint32_t lanes = 0;
  uint32_t pc = 0;  ///< Of the wgmma in flight.
};

class RegisterWatch {
 public:
  RegisterWatch(const Kernel& kernel, const RegisterPlan& plan);

  /// Whether the instruction may use what it uses.
  std::optional<RegisterFault> check(const Warp& warp, const EffectInfo& effect, uint32_t pc,
                                     uint32_t lanes) const;
  /// It has run. Loads have told of undefined bytes before.
  void wrote(const Warp& warp, const EffectInfo& effect, uint32_t pc, uint32_t lanes);
  /// Lanes of a register of a list, from memory.
  void set(uint32_t slot, uint32_t lanes, uint32_t defined) {
    const uint32_t index = slot / kSlotBytes;
    if (plan_->tracks_register(index)) put(index, lanes, defined);
  }
  uint32_t defined(uint32_t slot) const { return registers_[slot / kSlotBytes].defined; }

  // ---- wgmma -----------------------------------------------------------------------------------

  /// Whether the product wants a fence first.
  bool wants_fence(const Kernel& kernel, uint32_t pc) const;
  void fence() { fence_time_ = ++time_; }
  void issue(uint32_t pc);
  /// Products up to that one have been waited for.
  void waited(uint32_t product) { waited_ = std::max(waited_, product); }

 private:
  static constexpr uint32_t kSlotBytes = kLanes * 4;
  struct Register {
    uint32_t defined = 0;  ///< Lanes.
    uint32_t written = 1;  ///< Time of the last write but by a wgmma.
    uint32_t product = 0;  ///< Number of the last wgmma that accumulates in it.
    uint32_t pc = 0;       ///< Of that one.
  };
  void put(uint32_t index, uint32_t lanes, uint32_t defined) {
    uint32_t& d = registers_[index].defined;
    d = (d & ~lanes) | (defined & lanes);
  }
  bool skips(const Warp& warp, const EffectInfo& effect, uint32_t pc, const PlannedUse& use) const;
  bool may_go_on(uint32_t pc, uint32_t product) const;

  const Kernel* kernel_;
  const RegisterPlan* plan_;
  std::vector<Register> registers_;
  std::vector<uint32_t> predicates_;
  uint32_t time_ = 1;
  uint32_t fence_time_ = 0;
  uint32_t issued_ = 0, waited_ = 0;  ///< Products.
  /// Whether two products have the same accumulators: the last answer.
  mutable uint32_t same_now_ = kNone, same_before_ = kNone;
  mutable bool same_ = false;
};

}  // namespace fa4::emulator::judge
