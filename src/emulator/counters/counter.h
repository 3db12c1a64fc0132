// SPDX-License-Identifier: BSD-3-Clause
// A monitor that counts, instruction by instruction, for each function of the source and each warp
// of a CTA.
#pragma once

#include <vector>

#include "emulator/counters/role_counts.h"
#include "emulator/machine.h"
#include "emulator/monitor.h"

namespace fa4::emulator {

class Counter final : public Monitor {
 public:
  explicit Counter(const Grid& grid);

  /// What the warps did, by role: the outermost functions that not all warps execute, those of the
  /// same warps together. Without line information: ranges of warps that execute about the same
  /// instructions.
  std::vector<RoleCounts> roles() const;

  void cluster_begins(Cluster&) override {}
  void cluster_ends(Cluster&) override {}
  void warp_ends(Warp&) override {}
  void before(Warp& warp, uint32_t pc, uint32_t lanes) override;
  void after(Warp& warp, uint32_t pc, uint32_t lanes, bool done) override;
  void shared_access(Cta& cta, uint32_t offset, uint32_t bytes, Access access,
                     Proxy proxy) override;
  void global_access(uint64_t address, uint64_t bytes, Access access) override;
  void tensor_map(uint64_t, bool) override {}
  void local_access(Warp&, uint64_t, uint32_t, Access) override {}
  void tensor_access(Cta& cta, const TensorBlock& block, Access access) override;
  void op_starts(AsyncOp& op) override;
  void op_joined(AsyncOp&) override {}
  void op_begins(AsyncOp& op) override;
  void op_ends(AsyncOp& op) override;
  void tensor_loaded(Warp&, uint32_t, uint32_t) override {}
  void mbarrier(Cta&, const Mbarrier&, BarrierEvent) override {}
  void mbarrier_test(Warp& warp, uint32_t address, uint32_t parity, uint32_t lanes,
                     bool complete) override;
  void named_barrier_complete(Cta&, uint32_t) override {}
  void cluster_barrier_complete(Cluster&) override {}
  void tensor_allocation(Cta&, uint32_t, uint32_t, bool) override {}

 private:
  /// What is told of an instruction from its opcode.
  struct Kind {
    bool fma = false;
    uint8_t results = 1;    ///< Of a lane: 2 of packed pairs.
    bool waits = false;     ///< At a barrier, but for mbarriers.
    bool mbarrier = false;  ///< try_wait, test_wait
    bool barrier = false;   ///< Any of mbarrier's.
  };
  size_t row(uint32_t pc, uint32_t warp) const {
    return size_t{kernel_.sites[pc].function} * warps_ + warp;
  }
  /// Whose access it is.
  Counts& now() { return rows_[operations_.empty() ? row_ : operations_.back()]; }
  std::vector<RoleCounts> by_function() const;
  std::vector<RoleCounts> by_warp() const;
  bool alike(uint32_t a, uint32_t b) const;

  const Kernel& kernel_;
  uint32_t warps_;
  std::vector<Kind> kinds_;                  ///< By pc.
  std::vector<uint8_t> nothing_;             ///< Quiet instructions: none.
  std::vector<Counts> rows_;                 ///< [function][warp]
  std::vector<std::vector<bool>> executed_;  ///< [warp][pc]
  std::vector<bool> blocked_;                ///< By warp: its instruction has had to wait.
  uint32_t pc_ = 0;
  size_t row_ = 0;                   ///< Of the instruction at hand.
  uint64_t flops_ = 0, copied_ = 0;  ///< The worker's sums before it.
  uint64_t flops_of_op_ = 0, copied_of_op_ = 0;
  bool complete_ = false;           ///< A lane of it has found its phase complete.
  std::vector<size_t> operations_;  ///< Rows of the operations under way.
};

}  // namespace fa4::emulator
