// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/clock.h"

namespace fa4::emulator::judge {
bool Layout::is_tensor(uint32_t component) const {
  if (is_warp(component)) return false;
  const uint32_t agent = component - warps();
  if (agent < warps() * kWarpAgents) {
    const uint32_t kind = agent % kWarpAgents;
    return kind == kLoad || kind == kStore;
  }
  const uint32_t of_ctas = agent - warps() * kWarpAgents;
  return of_ctas < ctas * (groups() + 2) && of_ctas % (groups() + 2) >= groups();
}

void Clock::join(const Clock& o) {
  if (o.empty()) return;
  if (empty()) {
    *this = o;
    return;
  }
  if (base_ != o.base_) {
    for (uint32_t i = 0; i < o.warps_; ++i) absorb(o.base_ + i, o.known_[i]);
    for (uint32_t i = 0; i < o.agents_; ++i) {
      absorb(o.base_ + o.warps_ + i, {o.epochs_[i], 0, 0});
    }
    for (const auto& [who, known] : o.foreign_) absorb(who, known);
    return;
  }
  for (size_t i = 0; i < known_.size(); ++i) known_[i].join(o.known_[i]);
  uint32_t* mine = epochs_.data();
  const uint32_t* theirs = o.epochs_.data();
  const size_t count = epochs_.size();
  for (size_t i = 0; i < count; ++i) mine[i] = std::max(mine[i], theirs[i]);
  for (const auto& [who, known] : o.foreign_) foreign_[who].join(known);
}

void Clock::absorb(uint32_t who, const WarpKnown& known) {
  if (known.all == 0 && known.part == 0) return;
  const uint32_t i = who - base_;
  if (i < warps_) {
    known_[i].join(known);
  } else if (i < warps_ + agents_) {
    see_agent(i, known.all);
  } else {
    foreign_[who].join(known);
  }
}

void Clock::fence_proxies(const Layout& layout) {
  for (uint32_t i = 0; i < warps_; ++i) known_[warps_ + i].join(known_[i]);
  for (uint32_t i = 0; i < agents_; ++i) {
    if (layout.is_tensor(layout.warps() + i)) continue;
    epochs_[agents_ + i] = std::max(epochs_[agents_ + i], epochs_[i]);
  }
}

void Clock::fence_tensor(const Layout& layout) {
  for (uint32_t i = 0; i < agents_; ++i) {
    if (!layout.is_tensor(layout.warps() + i)) continue;
    epochs_[agents_ + i] = std::max(epochs_[agents_ + i], epochs_[i]);
  }
}

}  // namespace fa4::emulator::judge
