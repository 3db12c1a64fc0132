// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/threads.h"

namespace fa4::emulator::judge {

WarpThreads::WarpThreads(const Layout& layout, uint32_t component, uint32_t lanes)
    : layout_(layout), component_(component), alive_(lanes) {
  LaneGroup all;
  all.mask = lanes;
  all.clock = Clock(layout);
  groups_.reserve(33);
  groups_.push_back(std::move(all));
}

LaneGroup& WarpThreads::find_group(uint32_t lane) {
  for (LaneGroup& g : groups_) {
    if ((g.mask >> lane & 1) != 0) return g;
  }
  return groups_.front();
}

/// The part of group i that the lanes are, on its own. References stay valid: there is room for
/// all.
LaneGroup& WarpThreads::split(size_t i, uint32_t lanes) {
  const uint32_t common = groups_[i].mask & lanes;
  if (common == groups_[i].mask) return groups_[i];
  groups_.push_back(groups_[i]);
  groups_.back().mask = common;
  groups_[i].mask &= ~common;
  return groups_.back();
}

/// All that the lanes have done.
WarpKnown WarpThreads::now(uint32_t lanes) const {
  WarpKnown k;
  if ((lanes & alive_) == alive_) {
    k.all = epoch_;
  } else {
    k.part = epoch_;
    k.mask = lanes;
  }
  return k;
}

void WarpThreads::acquire(const Clock& clock, uint32_t lanes) {
  if (clock.empty()) return;
  for_each(lanes, [&](LaneGroup& g) { g.clock.join(clock); });
}

void WarpThreads::publish(Clock& clock, uint32_t lanes) {
  for (const LaneGroup& g : groups_) {
    if ((g.mask & lanes) != 0) clock.join(g.clock);
  }
  if (clock.empty()) return;
  clock.absorb(layout_.base + component_, now(lanes));
  ++epoch_;
}

void WarpThreads::meet(uint32_t lanes) {
  const WarpKnown mine = now(lanes);
  lanes &= alive_;
  LaneGroup* first = nullptr;
  for (LaneGroup& g : groups_) {
    if ((g.mask & lanes) == 0) continue;
    if (first == nullptr) {
      first = &g;
      continue;
    }
    first->clock.join(g.clock);
    first->pending.join(g.pending);
    first->released.join(g.released);
    if (first->tensor_seen.size() < g.tensor_seen.size()) {
      first->tensor_seen.resize(g.tensor_seen.size());
    }
    for (size_t i = 0; i < g.tensor_seen.size(); ++i) {
      first->tensor_seen[i] = std::max(first->tensor_seen[i], g.tensor_seen[i]);
    }
  }
  if (first == nullptr) return;
  LaneGroup all = *first;
  for (LaneGroup& g : groups_) g.mask &= ~lanes;
  std::erase_if(groups_, [](const LaneGroup& g) { return g.mask == 0; });
  all.mask = lanes;
  all.clock.warp(component_).join(mine);
  groups_.push_back(std::move(all));
  ++epoch_;
}

void WarpThreads::fence_proxies(uint32_t lanes) {
  const WarpKnown mine = now(lanes);
  for_each(lanes, [&](LaneGroup& g) {
    g.clock.fence_proxies(layout_);
    g.clock.fenced_warp(component_).join(mine);
  });
  ++epoch_;
}

void WarpThreads::fence(uint32_t lanes) {
  const WarpKnown mine = now(lanes);
  for_each(lanes, [&](LaneGroup& g) {
    g.clock.join(g.pending);
    g.pending.clear();
    g.released = g.clock;
    g.released.warp(component_).join(mine);
  });
  ++epoch_;
}

void WarpThreads::leave(uint32_t lanes) { alive_ &= ~lanes; }

}  // namespace fa4::emulator::judge
