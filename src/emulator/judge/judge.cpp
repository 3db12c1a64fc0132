// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"

#include <bit>

#include "emulator/worker.h"

namespace fa4::emulator::judge {

Judge::Judge(const Grid& grid, bool warnings)
    : grid_(grid),
      kernel_(*grid.kernel),
      warnings_(warnings),
      plan_(plan_of(*grid.kernel)),
      effects_(plan_->effects),
      tensor_keeper_(*this, true),
      shared_keeper_(*this, true),
      global_keeper_(*this, false) {
  quiet = plan_->registers.quiet().data();
}

Judge::~Judge() = default;

const Issuer* ClusterWatch::issuer(uint32_t component, uint32_t epoch) const {
  if (component < layout.warps() || component >= layout.size()) return nullptr;
  const Issuer& i = issuers[component - layout.warps()][epoch % kIssuers];
  return i.epoch == epoch ? &i : nullptr;
}

ClusterWatch& Judge::watch_of(const Cluster& cluster) {
  return *static_cast<ClusterWatch*>(cluster.watch);
}
CtaWatch& Judge::watch_of(const Cta& cta) { return *static_cast<CtaWatch*>(cta.watch); }
WarpWatch& Judge::watch_of(const Warp& warp) { return *static_cast<WarpWatch*>(warp.watch); }

void Judge::cluster_begins(Cluster& cluster) {
  auto watch = std::make_unique<ClusterWatch>();
  Layout& layout = watch->layout;
  layout.ctas = static_cast<uint32_t>(cluster.ctas.size());
  layout.cta_warps = grid_.block_warps();
  layout.base = 1 + static_cast<uint32_t>(cluster.index) * layout.size();
  watch->cluster = &cluster;
  watch->components = layout.size();
  watch->epochs.resize(layout.agents());
  watch->issuers.resize(layout.agents());
  for (const auto& cta : cluster.ctas) {
    watch->ctas.push_back(std::make_unique<CtaWatch>(*cta, cta->shared.size()));
    cta->watch = watch->ctas.back().get();
    for (const auto& warp : cta->warps) {
      watch->warps.push_back(std::make_unique<WarpWatch>(
          layout, layout.warp(cta->rank, warp->index), kernel_, plan_->registers, warp->born));
      warp->watch = watch->warps.back().get();
    }
  }
  cluster.watch = watch.get();
  clusters_[&cluster] = std::move(watch);
}

void Judge::cluster_ends(Cluster& cluster) { clusters_.erase(&cluster); }

/// What the instruction's lane is as an actor. before() has set what its lanes share.
const Actor& Judge::actor_now(bool atomic) {
  WarpThreads& threads = threads_->threads;
  own_.clock = &threads.group_of(lane).clock;
  own_.epoch = threads.epoch();
  own_.lane = static_cast<uint8_t>(collective_ ? kWholeWarp : lane);
  own_.atomic = atomic;
  return own_;
}

void Judge::check_registers(Warp& warp, uint32_t pc, uint32_t lanes) {
  const auto fault = threads_->registers.check(warp, effects_[pc], pc, lanes);
  if (!fault) return;
  const std::string lane_text = "lanes " + hex(fault->lanes);
  if (fault->in_flight) {
    report(Rule::kWgmmaRegisters, pc, fault->pc,
           me() + " touches a register of " + place(fault->pc, "a product in flight"));
    return;
  }
  report(Rule::kRegisterUndefined, pc, pc,
         me() + " uses a " + (fault->predicate ? "predicate" : "register") +
             " that holds nothing defined, or what comes from memory that nobody wrote, in " +
             lane_text);
}

void Judge::before(Warp& warp, uint32_t pc, uint32_t lanes) {
  warp_ = &warp;
  threads_ = static_cast<WarpWatch*>(warp.watch);
  pc_ = pc;
  lanes_ = lanes;
  const EffectInfo& info = effects_[pc];
  lane = static_cast<uint32_t>(std::countr_zero(lanes));
  cluster_ = static_cast<ClusterWatch*>(warp.cta->cluster->watch);
  own_.base = cluster_->layout.base;
  own_.size = cluster_->components;
  own_.component = threads_->component;
  own_.pc = pc;
  collective_ = false;
  any_undefined_ = false;
  if (!info.checks_late) check_registers(warp, pc, lanes);
  if (info.effect > Effect::kSelect) before_effect(warp, pc, lanes);
}

void Judge::after(Warp& warp, uint32_t pc, uint32_t lanes, bool done) {
  const EffectInfo& info = effects_[pc];
  if (info.effect == Effect::kMbarrier) settle_tests(warp, done);
  if (!done) return;
  if (info.checks_late) check_registers(warp, pc, lanes);
  // A load of tensor memory tells itself which registers it brought.
  if (info.effect != Effect::kTensorLoad) threads_->registers.wrote(warp, info, pc, lanes);
  if (info.effect > Effect::kSelect) after_effect(warp, pc, lanes);
}

void Judge::before_wgmma(Warp& warp, uint32_t pc) {
  WarpWatch& w = watch_of(warp);
  if (w.registers.wants_fence(kernel_, pc)) {
    report(Rule::kWgmmaFence, pc, pc,
           me() + " has no wgmma.fence before it since its registers were last written");
  }
  w.registers.issue(pc);
  ++w.wgmma.issued;
}

void Judge::before_effect(Warp& warp, uint32_t pc, uint32_t lanes) {
  const Inst& inst = kernel_.code[pc];
  WarpThreads& threads = threads_->threads;
  switch (effects_[pc].effect) {
    case Effect::kStore: {
      uint32_t good = kAllLanes;
      for (uint32_t k = 0; k < inst.list_size; ++k) {
        good &= threads_->registers.defined(kernel_.lists[inst.list + k]);
      }
      all_stored_defined_ = (lanes & ~good) == 0;
      break;
    }
    case Effect::kBarrierSync:
    case Effect::kBarrierArrive:
      if (warp.wait.kind != WaitKind::kNamedBarrier) {
        const uint32_t number = warp.first<uint32_t>(inst.a, lanes) & 15;
        threads.publish(watch_of(*warp.cta).barriers[number].current, lanes);
      }
      break;
    case Effect::kClusterArrive:
      if (effects_[pc].releases && !warp.at_cluster_barrier(lanes)) {
        threads.publish(cluster_->barrier.current, lanes);
      }
      break;
    case Effect::kMbarrier:
      arrived_.clear();
      tests_.clear();
      break;
    case Effect::kWgmma:
      before_wgmma(warp, pc);
      break;
    case Effect::kTensorLoad:
      threads_->registers.wrote(warp, effects_[pc], pc, lanes);
      break;
    case Effect::kTensorAlloc:
    case Effect::kTensorDealloc:
      collective_ = true;
      break;
    case Effect::kExit:
      leave(warp, lanes);
      break;
    default:
      break;
  }
}

void Judge::after_effect(Warp& warp, uint32_t pc, uint32_t lanes) {
  const Inst& inst = kernel_.code[pc];
  WarpThreads& threads = threads_->threads;
  switch (effects_[pc].effect) {
    case Effect::kLoad:
      if (any_undefined_) define_lanes(inst, lanes);
      break;
    case Effect::kBarrierSync: {
      const uint32_t number = warp.first<uint32_t>(inst.a, lanes) & 15;
      threads.acquire(watch_of(*warp.cta).barriers[number].done, lanes);
      threads.meet(lanes);
      break;
    }
    case Effect::kWarpSync:
      threads.meet(warp.first<uint32_t>(inst.a, lanes) & lanes);
      break;
    case Effect::kClusterWait:
      threads.acquire(cluster_->barrier.done, lanes);
      threads.meet(lanes);
      break;
    case Effect::kFence:
      threads.fence(lanes);
      break;
    case Effect::kFenceProxy:
      threads.fence_proxies(lanes);
      break;
    case Effect::kFenceMbarrierInit:
      fence_inits(lanes);
      break;
    case Effect::kTensorFenceBefore:
      threads.for_each(lanes, [&](LaneGroup& g) { g.clock.fence_tensor(cluster_->layout); });
      break;
    case Effect::kTensorFenceAfter:
      fence_after(lanes);
      break;
    case Effect::kWgmmaFence:
      threads_->registers.fence();
      break;
    default:
      wait_groups(warp, pc, lanes);
      break;
  }
}

/// Commits and waits of groups of operations.
void Judge::wait_groups(Warp& warp, uint32_t pc, uint32_t lanes) {
  const auto pending = static_cast<uint32_t>(kernel_.code[pc].imm);
  const Layout& layout = cluster_->layout;
  WarpWatch& w = *threads_;
  const auto see = [&](uint32_t component, uint32_t epoch) {
    w.threads.for_each(lanes, [&](LaneGroup& g) { g.clock.see_agent(component, epoch); });
  };
  switch (effects_[pc].effect) {
    case Effect::kCopyCommit:
      w.copies.commit();
      break;
    case Effect::kCopyWaitAll:
      w.copies.waited = w.copies.issued;
      see(layout.of_warp(w.component, Layout::kCopy), w.copies.waited);
      break;
    case Effect::kCopyWait:
      w.copies.wait(pending);
      see(layout.of_warp(w.component, Layout::kCopy), w.copies.waited);
      break;
    case Effect::kWgmmaCommit:
      w.wgmma.commit();
      break;
    case Effect::kWgmmaWait:
      w.wgmma.wait(pending);
      w.registers.waited(w.wgmma.waited);
      see(layout.wgmma(warp.cta->rank, warp.index / 4), w.wgmma.waited);
      break;
    case Effect::kBulkCommit:
      for (auto& [own_lane, bulk] : w.bulk) {
        if ((lanes >> own_lane & 1) != 0) bulk.ends.push_back(bulk.last);
      }
      break;
    case Effect::kBulkWait:
    case Effect::kBulkWaitRead:
      wait_bulk(pending, lanes, effects_[pc].effect == Effect::kBulkWaitRead);
      break;
    case Effect::kTensorWaitLoad:
      w.loads_waited = w.loads;
      see(layout.of_warp(w.component, Layout::kLoad), w.loads);
      break;
    case Effect::kTensorWaitStore:
      w.stores_waited = w.stores;
      see(layout.of_warp(w.component, Layout::kStore), w.stores);
      break;
    default:
      break;
  }
}

void Judge::wait_bulk(uint32_t pending, uint32_t lanes, bool read_only) {
  const Layout& layout = cluster_->layout;
  WarpWatch& w = *threads_;
  for (auto& [own_lane, bulk] : w.bulk) {
    if ((lanes >> own_lane & 1) == 0 || bulk.ends.size() <= pending) continue;
    const uint32_t epoch = bulk.ends[bulk.ends.size() - 1 - pending];
    bulk.read = std::max(bulk.read, epoch);
    while (bulk.ends.size() > 64) bulk.ends.pop_front();
    w.threads.for_each(1u << own_lane, [&](LaneGroup& g) {
      g.clock.see_agent(layout.of_warp(w.component, Layout::kBulkRead), epoch);
      if (!read_only) g.clock.see_agent(layout.of_warp(w.component, Layout::kBulkWrite), epoch);
    });
  }
}

}  // namespace fa4::emulator::judge
