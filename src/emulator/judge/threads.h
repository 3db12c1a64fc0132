// SPDX-License-Identifier: BSD-3-Clause
// What the threads of a warp know: lanes that know the same are kept together.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/judge/clock.h"

namespace fa4::emulator::judge {

struct LaneGroup {
  uint32_t mask = 0;
  Clock clock;
  Clock pending;   ///< Learnt from relaxed reads: counts from the next fence on.
  Clock released;  ///< Known at the last fence: what relaxed writes tell others.
  /// tcgen05.fence::after_thread_sync: epochs of agents that the fences cover.
  std::vector<uint32_t> tensor_seen;
};

class WarpThreads {
 public:
  WarpThreads(const Layout& layout, uint32_t component, uint32_t lanes);

  uint32_t epoch() const { return epoch_; }
  uint32_t component() const { return component_; }
  LaneGroup& group_of(uint32_t lane) {
    return groups_.size() == 1 ? groups_.front() : find_group(lane);
  }
  const std::vector<LaneGroup>& groups() const { return groups_; }

  /// The lanes learn what the clock knows.
  void acquire(const Clock& clock, uint32_t lanes);
  /// The clock learns what the lanes know and have done. What they do next is later.
  void publish(Clock& clock, uint32_t lanes);
  /// The lanes learn what each of them knows and has done.
  void meet(uint32_t lanes);
  /// f(group) for the lanes' groups, split off from others.
  template <class F>
  void for_each(uint32_t lanes, F f) {
    const size_t count = groups_.size();
    for (size_t i = 0; i < count; ++i) {
      if ((groups_[i].mask & lanes) != 0) f(split(i, lanes));
    }
  }
  void fence_proxies(uint32_t lanes);
  /// fence.acq_rel and fence.sc.
  void fence(uint32_t lanes);
  void leave(uint32_t lanes);

 private:
  LaneGroup& find_group(uint32_t lane);
  LaneGroup& split(size_t i, uint32_t lanes);
  WarpKnown now(uint32_t lanes) const;

  Layout layout_;
  uint32_t component_;
  uint32_t alive_;
  uint32_t epoch_ = 1;
  std::vector<LaneGroup> groups_;
};

}  // namespace fa4::emulator::judge
