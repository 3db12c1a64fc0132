// SPDX-License-Identifier: BSD-3-Clause
// Vector clocks: what a thread knows to be over.
//
// Components are the cluster's warps, and its asynchronous agents: queues whose operations complete
// in order, and slots that single copies take in turn. A warp's events carry an epoch and a lane.
// Of a warp a clock knows all lanes up to one epoch, and some lanes up to a later one. Joining two
// of the latter may claim too much, never too little: races may be missed, none is made up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace fa4::emulator::judge {

/// The lane of an event in which a whole warp took part.
constexpr uint32_t kWholeWarp = 32;

struct WarpKnown {
  uint32_t all = 0;   ///< Epoch.
  uint32_t part = 0;  ///< Epoch, of the lanes in `mask`. Of no meaning unless later than `all`.
  uint32_t mask = 0;

  void join(const WarpKnown& o) {
    all = std::max(all, o.all);
    if (o.part <= all) return;
    mask = part > all ? mask | o.mask : o.mask;
    part = std::max(part, o.part);
  }
  bool sees(uint32_t epoch, uint32_t lane) const {
    if (epoch <= all) return true;
    if (epoch > part) return false;
    return lane == kWholeWarp ? mask != 0 : (mask >> lane & 1) != 0;
  }
};

/// Agents of a cluster and their numbers.
struct Layout {
  enum WarpAgent : uint32_t { kLoad, kStore, kCopy, kBulkRead, kBulkWrite, kWarpAgents };
  static constexpr uint32_t kSlots = 32;

  uint32_t base = 1;  ///< The cluster's first component among those of the grid.
  uint32_t ctas = 1;
  uint32_t cta_warps = 1;

  uint32_t warps() const { return ctas * cta_warps; }
  uint32_t warp(uint32_t cta, uint32_t index) const { return cta * cta_warps + index; }
  uint32_t groups() const { return (cta_warps + 3) / 4; }
  // Agents are counted behind the warps.
  uint32_t agents() const { return warps() * kWarpAgents + ctas * (groups() + 2) + kSlots; }
  uint32_t of_warp(uint32_t warp, WarpAgent a) const { return warps() + warp * kWarpAgents + a; }
  uint32_t of_cta(uint32_t cta, uint32_t i) const {
    return warps() * (1 + kWarpAgents) + cta * (groups() + 2) + i;
  }
  uint32_t product(uint32_t cta) const { return of_cta(cta, groups()); }  ///< tcgen05.mma
  uint32_t tensor_copy(uint32_t cta) const { return of_cta(cta, groups() + 1); }
  uint32_t wgmma(uint32_t cta, uint32_t group) const { return of_cta(cta, group); }
  uint32_t slot(uint32_t i) const { return of_cta(ctas, 0) + i; }
  uint32_t size() const { return warps() + agents(); }
  bool is_warp(uint32_t component) const { return component < warps(); }
  /// Agents that work on tensor memory.
  bool is_tensor(uint32_t component) const;
};

class Clock {
 public:
  Clock() = default;
  explicit Clock(const Layout& layout)
      : base_(layout.base),
        warps_(layout.warps()),
        agents_(layout.agents()),
        known_(2 * warps_),
        epochs_(2 * agents_) {}

  bool empty() const { return known_.empty(); }
  /// Empty again, with its memory kept.
  void clear() {
    known_.clear();
    epochs_.clear();
    foreign_.clear();
  }
  /// Also of another cluster's. An empty clock becomes the other one.
  void join(const Clock& o);

  bool sees(uint32_t component, uint32_t epoch, uint32_t lane) const {
    if (component < warps_) return known_[component].sees(epoch, lane);
    return epoch <= epochs_[component - warps_];
  }
  /// Whether a fence lies between the event and now: of proxies, or of tcgen05.
  bool fenced(uint32_t component, uint32_t epoch, uint32_t lane) const {
    if (component < warps_) return known_[warps_ + component].sees(epoch, lane);
    return epoch <= epochs_[agents_ + component - warps_];
  }
  bool sees_foreign(uint32_t who, uint32_t epoch, uint32_t lane) const {
    const auto it = foreign_.find(who);
    return it != foreign_.end() && it->second.sees(epoch, lane);
  }
  /// Learns of a component of the grid.
  void absorb(uint32_t who, const WarpKnown& known);
  WarpKnown& warp(uint32_t i) { return known_[i]; }
  WarpKnown& fenced_warp(uint32_t i) { return known_[warps_ + i]; }
  void see_agent(uint32_t component, uint32_t epoch) {
    uint32_t& e = epochs_[component - warps_];
    e = std::max(e, epoch);
  }
  void fence_agent(uint32_t component, uint32_t epoch) {
    uint32_t& e = epochs_[agents_ + component - warps_];
    e = std::max(e, epoch);
  }
  /// fence.proxy.async: of all that is seen, but the tensor core's operations.
  void fence_proxies(const Layout& layout);
  /// tcgen05.fence::before_thread_sync: the tensor core's operations alone.
  void fence_tensor(const Layout& layout);
  /// Fenced epochs of the agents, for tcgen05.fence::after_thread_sync.
  std::span<const uint32_t> fenced_agents() const { return std::span(epochs_).subspan(agents_); }

 private:
  uint32_t base_ = 0;
  uint32_t warps_ = 0, agents_ = 0;
  std::vector<WarpKnown> known_;           ///< Of the warps, then what is fenced of it.
  std::vector<uint32_t> epochs_;           ///< Of the agents, then those that are fenced.
  std::map<uint32_t, WarpKnown> foreign_;  ///< By component of the grid.
};

}  // namespace fa4::emulator::judge
