// SPDX-License-Identifier: BSD-3-Clause
#include <bit>

#include "emulator/judge/judge.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {

/// An arrival, or bytes that have come.
void Judge::arrive(CtaWatch& cta, MbarrierWatch& b, bool counts) {
  if (const FlightRecord* op = flight()) {
    Clock& clock = b.clocks.current;
    clock.join(op->known.clock);
    if (op->effect != Effect::kTensorCommit) clock.see_agent(op->actor.component, op->actor.epoch);
    return;
  }
  const EffectInfo& info = effects_[pc_];
  if (counts && info.releases && info.cta_scope && warp_->cta != cta.cta) {
    report(Rule::kMbarrierScope, pc_, pc_,
           me() + " arrives at an mbarrier of CTA " + std::to_string(cta.cta->rank) +
               " without .cluster scope");
  }
  if (!info.releases) return;
  // The lanes of one instruction arrive together.
  if (std::find(arrived_.begin(), arrived_.end(), &b) != arrived_.end()) return;
  arrived_.push_back(&b);
  threads_->threads.publish(b.clocks.current, lanes_);
}

void Judge::mbarrier(Cta& cta, const Mbarrier& barrier, BarrierEvent event) {
  CtaWatch& watch = watch_of(cta);
  if (event == BarrierEvent::kInvalidate) {
    watch.mbarriers.erase(barrier.offset);
    return;
  }
  MbarrierWatch& b = watch.mbarriers[barrier.offset];
  switch (event) {
    case BarrierEvent::kInit: {
      const Actor& a = actor_now(false);
      b = {};
      b.init.who = a.who();
      b.init.epoch = a.epoch;
      b.init.lane = a.lane;
      b.init.pc = a.pc;
      break;
    }
    case BarrierEvent::kArrive:
      arrive(watch, b, true);
      break;
    case BarrierEvent::kComplete:
      arrive(watch, b, false);
      break;
    case BarrierEvent::kPhase:
      b.clocks.complete();
      break;
    default:
      break;
  }
}

void Judge::mbarrier_test(Warp& warp, uint32_t address, uint32_t parity, uint32_t lanes,
                          bool complete) {
  CtaWatch& cta = watch_of(cta_of(*warp.cta->cluster, address));
  const uint32_t offset = address & kOffsetMask;
  for (Test& t : tests_) {
    if (t.cta == &cta && t.offset == offset && t.parity == parity && t.complete == complete) {
      t.lanes |= lanes;
      return;
    }
  }
  tests_.push_back({&cta, offset, parity, lanes, complete});
}

/// What an mbarrier.try_wait or test_wait has found.
void Judge::settle_tests(Warp&, bool) {
  for (const Test& t : tests_) {
    const Mbarrier* barrier = t.cta->cta->mbarriers.find(t.offset);
    if (barrier == nullptr) continue;
    MbarrierWatch& b = t.cta->mbarriers[t.offset];
    const uint64_t key = uint64_t{threads_->component} << 32 | t.lanes;
    const uint64_t awaited = barrier->phase - (t.complete ? 1 : 0);
    const auto it = b.waiting.find(key);
    const bool same = it != b.waiting.end() && (it->second & 1) == (t.parity & 1);
    if (same && it->second != awaited) {
      report(Rule::kMbarrierOvertaken, pc_, pc_,
             me() + " waits for phase " + std::to_string(it->second) + " of the mbarrier at " +
                 hex(t.cta->cta->shared_base() | t.offset) + ", which is in phase " +
                 std::to_string(barrier->phase) + " by now");
    }
    if (!t.complete) {
      // A test that does not wait may be a look ahead.
      if (kernel_.code[pc_].mod[1] != 0) b.waiting[key] = awaited;
      continue;
    }
    b.waiting.erase(key);
    const auto phase = static_cast<int64_t>(barrier->phase) - 1;
    auto& seen = b.seen.try_emplace(threads_->component).first->second;
    for (uint32_t rest = t.lanes; rest != 0; rest &= rest - 1) {
      int64_t& last = seen[static_cast<size_t>(std::countr_zero(rest))];
      if (last != 0 && phase + 2 - last > 2) {
        report(Rule::kMbarrierSkipped, pc_, pc_,
               me() + " finds phase " + std::to_string(phase) + " of the mbarrier at " +
                   hex(t.cta->cta->shared_base() | t.offset) +
                   " complete; the last one it saw is " + std::to_string(last - 2));
      }
      last = phase + 2;
    }
    if (effects_[pc_].acquires) {
      threads_->threads.acquire(b.clocks.done, t.lanes);
      continue;
    }
    threads_->threads.for_each(t.lanes, [&](LaneGroup& g) {
      if (g.pending.empty()) g.pending = Clock(cluster_->layout);
      g.pending.join(b.clocks.done);
    });
  }
  tests_.clear();
}

void Judge::named_barrier_complete(Cta& cta, uint32_t number) {
  watch_of(cta).barriers[number].complete();
}

/// Initialisations behind a fence.mbarrier_init are known to all now, although relaxed arrivals
/// tell nothing else.
void Judge::cluster_barrier_complete(Cluster& cluster) {
  ClusterWatch& watch = watch_of(cluster);
  watch.barrier.complete();
  for (const auto& cta : watch.ctas) {
    for (auto& [offset, b] : cta->mbarriers) {
      if (!b.fenced || b.known) continue;
      b.known = true;
      shared_keeper_.forget(cta->shared[offset / ChunkKeeper::kBytes], offset % ChunkKeeper::kBytes,
                            kMbarrierBytes, b.init);
    }
  }
}

/// A fence of the initialisations that its threads know of.
void Judge::fence_inits(uint32_t lanes) {
  const uint32_t base = cluster_->layout.base;
  for (const auto& cta : cluster_->ctas) {
    for (auto& [offset, b] : cta->mbarriers) {
      if (b.fenced) continue;
      const uint32_t component = b.init.who - base;
      const bool own = component == threads_->component && (lanes >> (b.init.lane & 31) & 1) != 0;
      threads_->threads.for_each(lanes, [&, &watch = b](LaneGroup& g) {
        watch.fenced |= own || g.clock.sees(component, watch.init.epoch, watch.init.lane);
      });
    }
  }
}

}  // namespace fa4::emulator::judge
