// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/clock.h"

namespace fa4::emulator::judge {
namespace {

void join(std::vector<WarpKnown>& a, const std::vector<WarpKnown>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i].join(b[i]);
}
void join(std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
}

}  // namespace

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
    const auto warps = static_cast<uint32_t>(o.warps_.size());
    for (uint32_t i = 0; i < warps; ++i) absorb(o.base_ + i, o.warps_[i]);
    for (uint32_t i = 0; i < o.agents_.size(); ++i) {
      absorb(o.base_ + warps + i, {o.agents_[i], 0, 0});
    }
    for (const auto& [who, known] : o.foreign_) absorb(who, known);
    return;
  }
  judge::join(warps_, o.warps_);
  judge::join(fenced_warps_, o.fenced_warps_);
  judge::join(agents_, o.agents_);
  judge::join(fenced_agents_, o.fenced_agents_);
  for (const auto& [who, known] : o.foreign_) foreign_[who].join(known);
}

void Clock::absorb(uint32_t who, const WarpKnown& known) {
  if (known.all == 0 && known.part == 0) return;
  const uint32_t i = who - base_;
  if (i < warps_.size()) {
    warps_[i].join(known);
  } else if (i < warps_.size() + agents_.size()) {
    see_agent(i, known.all);
  } else {
    foreign_[who].join(known);
  }
}

void Clock::fence_proxies(const Layout& layout) {
  judge::join(fenced_warps_, warps_);
  for (uint32_t i = 0; i < agents_.size(); ++i) {
    if (!layout.is_tensor(layout.warps() + i)) {
      fenced_agents_[i] = std::max(fenced_agents_[i], agents_[i]);
    }
  }
}

void Clock::fence_tensor(const Layout& layout) {
  for (uint32_t i = 0; i < agents_.size(); ++i) {
    if (layout.is_tensor(layout.warps() + i)) {
      fenced_agents_[i] = std::max(fenced_agents_[i], agents_[i]);
    }
  }
}

}  // namespace fa4::emulator::judge
