// SPDX-License-Identifier: BSD-3-Clause
// Divergence: a warp's lanes may be at different instructions, in splits. The split with the
// lowest pc runs first and splits that meet merge, which brings code that a compiler laid out
// together again; a split that is blocked lets the others go on.
#include <algorithm>
#include <bit>

#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

/// Whether lanes that come by at the same place may join this split. One that has begun to wait
/// for something has been counted there.
bool can_join(bool blocked, const Wait& wait) {
  return !blocked || wait.kind == WaitKind::kConverge;
}

}  // namespace

Step Warp::branch(uint32_t destination, uint32_t taken) {
  const uint32_t stay = mask & ~taken;
  if (stay == 0) {
    pc = destination;
    if (!others.empty()) reschedule();
    return Step::kJump;
  }
  if (taken != 0) {
    others.push_back({destination, taken, false, {}});
    mask = stay;
  }
  ++pc;
  reschedule();
  return Step::kJump;
}

Step Warp::exit(uint32_t lanes) {
  alive &= ~lanes;
  mask &= ~lanes;
  ++pc;
  // Who waited for the lanes to converge need not any more.
  wake(WaitKind::kConverge, std::nullopt);
  if (mask == 0 && !others.empty()) {
    const Split next = others.back();
    others.pop_back();
    pc = next.pc;
    mask = next.mask;
    blocked = next.blocked;
    wait = next.wait;
  }
  if (alive != 0) reschedule();
  return Step::kJump;
}

void Warp::reschedule(std::optional<uint32_t> rotate) {
  // Merge what has met.
  for (size_t i = 0; i < others.size();) {
    Split& s = others[i];
    if (s.pc == pc && can_join(s.blocked, s.wait) && can_join(blocked, wait)) {
      mask |= s.mask;
      blocked = false;
      wait = {};
      s = others.back();
      others.pop_back();
    } else {
      ++i;
    }
  }
  if (others.empty()) {
    meeting_pc = kNone;
    return;
  }
  size_t best = others.size();
  if (rotate) {
    const size_t pick = *rotate % others.size();
    if (!others[pick].blocked) best = pick;
  } else if (!stays || blocked) {
    uint32_t lowest = blocked ? kNone : pc;
    for (size_t i = 0; i < others.size(); ++i) {
      if (!others[i].blocked && others[i].pc < lowest) {
        lowest = others[i].pc;
        best = i;
      }
    }
  }
  if (best < others.size()) {
    Split& s = others[best];
    const Split mine{pc, mask, blocked, wait};
    pc = s.pc;
    mask = s.mask;
    blocked = s.blocked;
    wait = s.wait;
    s = mine;
  }
  meeting_pc = kNone;
  for (const Split& s : others) {
    if (s.pc >= pc && can_join(s.blocked, s.wait)) meeting_pc = std::min(meeting_pc, s.pc);
  }
}

void Warp::turn_splits() {
  others.push_back({pc, mask, blocked, wait});
  const Split next = others.front();
  others.erase(others.begin());
  pc = next.pc;
  mask = next.mask;
  blocked = next.blocked;
  wait = next.wait;
}

bool Warp::at_cluster_barrier(uint32_t lanes) const {
  return cluster_arrival == cta->cluster->barrier_generation && (cluster_lanes & lanes) != 0;
}

bool Warp::can_run() const {
  if (alive == 0) return false;
  return !blocked ||
         std::any_of(others.begin(), others.end(), [](const Split& s) { return !s.blocked; });
}

bool Warp::wake(WaitKind kind, std::optional<uint64_t> address) {
  const auto matches = [&](const Wait& w) {
    return w.kind == kind && (!address || w.address == *address);
  };
  bool woken = false;
  if (blocked && matches(wait)) {
    blocked = false;
    woken = true;
  }
  for (Split& s : others) {
    if (s.blocked && matches(s.wait)) {
      s.blocked = false;
      woken = true;
    }
  }
  return woken;
}

void Cta::wake(WaitKind kind, std::optional<uint64_t> address) {
  for (const auto& warp : warps) {
    if (warp->wake(kind, address)) warp->worker->enqueue(*warp);
  }
}

uint32_t Cta::living_threads() const {
  uint32_t threads = 0;
  for (const auto& warp : warps) threads += static_cast<uint32_t>(std::popcount(warp->alive));
  return threads;
}

uint32_t Cluster::living_threads() const {
  uint32_t threads = 0;
  for (const auto& cta : ctas) threads += cta->living_threads();
  return threads;
}

bool BulkGroups::reached(uint32_t pending, bool read_only) {
  const size_t committed = groups.size() - 1;
  const size_t wanted = committed > pending ? committed - pending : 0;
  for (size_t i = 0; i < wanted; ++i) {
    if (groups[i].unread > 0 || (!read_only && groups[i].unwritten > 0)) return false;
  }
  forget_done();
  return true;
}

void BulkGroups::forget_done() {
  while (groups.size() > 1 && groups[0].unread == 0 && groups[0].unwritten == 0) {
    groups.pop_front();
    ++first;
  }
}

}  // namespace fa4::emulator
