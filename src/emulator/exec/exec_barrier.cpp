// SPDX-License-Identifier: BSD-3-Clause
// Barriers of warps, CTAs and clusters, mbarrier instructions, fences: PTX ISA 9.7.13.
#include <bit>

#include "emulator/exec/sync_handlers.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator {

std::string state_of(const Cta& cta, const Wait& wait) {
  if (wait.kind == WaitKind::kNamedBarrier) {
    const NamedBarrier& b = cta.barriers[wait.address & 15];
    const std::string of = b.expected == kEveryThread ? "all" : std::to_string(b.expected);
    return ": " + std::to_string(b.arrived) + " threads of " + of + " have come";
  }
  if (wait.kind == WaitKind::kRegisters) {
    return ": the CTA has " + std::to_string(cta.registers_free) + " to give to one warp's threads";
  }
  if (wait.kind != WaitKind::kMbarrier) return {};
  const Cta& owner = cta_of(*cta.cluster, static_cast<uint32_t>(wait.address));
  for (const Mbarrier& b : owner.mbarriers.barriers) {
    if (b.offset != (wait.address & kOffsetMask)) continue;
    return ": phase " + std::to_string(b.phase) + ", " + std::to_string(b.pending) + " of " +
           std::to_string(b.expected) + " arrivals and " + std::to_string(b.bytes) +
           " bytes to come";
  }
  return {};
}

namespace {

void complete(Cta& cta, uint32_t number) {
  NamedBarrier& b = cta.barriers[number];
  b.result_and = b.reduced_and;
  b.result_or = b.reduced_or;
  b.result_count = b.reduced_count;
  b.reduced_and = 1;
  b.reduced_or = b.reduced_count = 0;
  b.expected = b.arrived = 0;
  ++b.generation;
  if (Monitor* monitor = cta.cluster->worker->monitor()) {
    monitor->named_barrier_complete(cta, number);
  }
  cta.wake(WaitKind::kNamedBarrier, number);
}

void check_complete(Cta& cta, uint32_t number) {
  const NamedBarrier& b = cta.barriers[number];
  if (b.expected == 0) return;
  const uint32_t wanted = b.expected == kEveryThread ? cta.living_threads() : b.expected;
  if (b.arrived >= wanted) complete(cta, number);
}

void check_complete(Cluster& cluster) {
  if (cluster.barrier_arrived == 0 || cluster.barrier_arrived < cluster.living_threads()) return;
  cluster.barrier_arrived = 0;
  ++cluster.barrier_generation;
  if (Monitor* monitor = cluster.worker->monitor()) monitor->cluster_barrier_complete(cluster);
  for (const auto& cta : cluster.ctas) cta->wake(WaitKind::kClusterBarrier);
}

}  // namespace

void barrier_lost_lanes(Cta& cta) {
  for (uint32_t i = 0; i < cta.barriers.size(); ++i) {
    if (cta.barriers[i].expected == kEveryThread) check_complete(cta, i);
  }
  check_complete(*cta.cluster);
}

namespace exec {
namespace {

// ---- named barriers ----------------------------------------------------------------------------

uint32_t barrier_number(const Warp& w, const Inst& i, uint32_t mask) {
  const auto number = w.first<uint32_t>(i.a, mask);
  if (number > 15)
    throw Fault(Rule::kNamedBarrier, "barrier " + std::to_string(number) + "; allowed: 0 to 15");
  return number;
}

/// Counts the lanes in. `generation`: the one they wait for the end of.
NamedBarrier& arrive_at(Warp& w, const Inst& i, uint32_t mask, uint32_t number) {
  NamedBarrier& b = w.cta->barriers[number];
  uint32_t expected = kEveryThread;
  if (i.b != kNone) {
    expected = w.first<uint32_t>(i.b, mask);
    if (expected == 0 || expected % kLanes != 0) {
      throw Fault(Rule::kNamedBarrier, "a barrier for " + std::to_string(expected) +
                                           " threads; allowed: a multiple of 32");
    }
  }
  if (b.expected == 0) b.expected = expected;
  if (b.expected != expected) {
    throw Fault(Rule::kNamedBarrier,
                "barrier " + std::to_string(number) + " for " + std::to_string(expected) +
                    " threads, while others wait there for " + std::to_string(b.expected));
  }
  // A given count is of whole warps.
  const bool whole = i.mod[0] != 0 && expected != kEveryThread;
  b.arrived += whole ? kLanes : static_cast<uint32_t>(std::popcount(mask));
  if (expected != kEveryThread && b.arrived > expected) {
    throw Fault(Rule::kNamedBarrier, "barrier " + std::to_string(number) + " gets " +
                                         std::to_string(b.arrived) + " threads where " +
                                         std::to_string(expected) + " are awaited");
  }
  return b;
}

Step barrier_sync(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t number = barrier_number(w, i, mask);
  if (w.wait.kind != WaitKind::kNamedBarrier) {
    NamedBarrier& b = arrive_at(w, i, mask, number);
    const uint32_t generation = b.generation;
    w.wait = {WaitKind::kNamedBarrier, generation, number};
    check_complete(*w.cta, number);
  }
  if (w.cta->barriers[number].generation == w.wait.value) return Step::kBlock;
  return w.pass();
}

Step barrier_arrive(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t number = barrier_number(w, i, mask);
  arrive_at(w, i, mask, number);
  check_complete(*w.cta, number);
  return Step::kNext;
}

/// c: the predicate. mod[1]: 0 popc, 1 and, 2 or. d: register of popc, or predicate.
Step barrier_reduce(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t number = barrier_number(w, i, mask);
  if (w.wait.kind != WaitKind::kNamedBarrier) {
    NamedBarrier& b = arrive_at(w, i, mask, number);
    const uint32_t lanes = w.lanes_of(i.c) & mask;
    b.reduced_and &= lanes == mask ? 1 : 0;
    b.reduced_or |= lanes != 0 ? 1 : 0;
    b.reduced_count += static_cast<uint32_t>(std::popcount(lanes));
    w.wait = {WaitKind::kNamedBarrier, b.generation, number};
    check_complete(*w.cta, number);
  }
  const NamedBarrier& b = w.cta->barriers[number];
  if (b.generation == w.wait.value) return Step::kBlock;
  if (i.mod[1] == 0) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      if ((mask >> l & 1) != 0) w.reg<uint32_t>(i.d)[l] = b.result_count;
    }
  } else {
    const uint32_t result = i.mod[1] == 1 ? b.result_and : b.result_or;
    w.set_lanes(i.d, result != 0 ? kAllLanes : 0, mask);
  }
  return w.pass();
}

// ---- warps and clusters ------------------------------------------------------------------------

Step warp_sync(Warp& w, const Inst& i, uint32_t mask) {
  const auto members = w.first<uint32_t>(i.a, mask);
  if ((members & w.alive & ~w.mask) != 0) return w.block({WaitKind::kConverge, members, 0});
  return Step::kNext;
}

Step cluster_arrive(Warp& w, const Inst&, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  if (w.at_cluster_barrier(mask)) {
    // It has arrived and not waited: hardware is not known to allow it; here it waits.
    return w.block({WaitKind::kClusterBarrier, w.cluster_arrival, 0});
  }
  w.wait = {};
  if (w.cluster_arrival != cluster.barrier_generation) w.cluster_lanes = 0;
  w.cluster_arrival = cluster.barrier_generation;
  w.cluster_lanes |= mask;
  cluster.barrier_arrived += static_cast<uint32_t>(std::popcount(mask));
  check_complete(cluster);
  return Step::kNext;
}

Step cluster_wait(Warp& w, const Inst&, uint32_t mask) {
  if (w.cluster_arrival == kNone) throw Fault("a wait at the cluster barrier without an arrival");
  if (w.at_cluster_barrier(mask)) {
    return w.block({WaitKind::kClusterBarrier, w.cluster_arrival, 0});
  }
  return w.pass();
}

// ---- mbarrier ----------------------------------------------------------------------------------

/// Address that a lane gives, as a shared::cluster one. mod[14]: Space.
uint32_t barrier_address(const Warp& w, const Inst& i, uint32_t lane) {
  const bool wide = i.mod[15] == 8;
  uint64_t address = wide ? w.reg<uint64_t>(i.a)[lane] : w.reg<uint32_t>(i.a)[lane];
  address += static_cast<uint64_t>(i.imm);
  const auto space = static_cast<Space>(i.mod[14]);
  if (space == Space::kGeneric) {
    if ((address & kWindows) != kSharedWindow) {
      throw Fault("mbarrier address " + hex(address) + " is not in shared memory");
    }
    address &= ~kWindows;
  }
  if (!wide) address &= 0xffffffff;
  if (address >> 32 != 0) throw Fault("shared address " + hex(address) + " exceeds 32 bits");
  const auto shared = static_cast<uint32_t>(address);
  if (space == Space::kShared && shared >> kRankShift != w.cta->rank) {
    throw Fault("shared::cta address " + hex(address) + " is not one of this CTA");
  }
  return shared;
}

/// f(lane) for the lanes, each of which the monitor is told of.
template <class F>
void for_each_lane(const Warp& w, uint32_t mask, F f) {
  Monitor* monitor = w.worker->monitor();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (monitor != nullptr) monitor->lane = lane;
    f(lane);
  }
}

Step init(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(w, mask, [&](uint32_t l) {
    mbarrier_init(*w.cta->cluster, barrier_address(w, i, l), w.reg<uint32_t>(i.b)[l]);
  });
  return Step::kNext;
}

Step invalidate(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(
      w, mask, [&](uint32_t l) { mbarrier_invalidate(*w.cta->cluster, barrier_address(w, i, l)); });
  return Step::kNext;
}

/// An arrival that may not end its phase, whose state was that before.
void check_no_complete(Warp& w, uint32_t address, uint64_t state) {
  if (!mbarrier_test(*w.cta->cluster, address, parity_of_state(state))) return;
  throw Fault(Rule::kMbarrierCount,
              "an arrival with .noComplete ends the phase of the mbarrier at " + hex(address) +
                  "; allowed: any but the last");
}

/// b: count or bytes. mod[0]: ArriveForm, mod[1]: .noComplete.
Step arrive(Warp& w, const Inst& i, uint32_t mask) {
  const auto form = static_cast<ArriveForm>(i.mod[0]);
  for_each_lane(w, mask, [&](uint32_t l) {
    const uint32_t n = i.b != kNone ? w.reg<uint32_t>(i.b)[l] : 1;
    const bool counts = form == ArriveForm::kArrive || form == ArriveForm::kDrop;
    const bool only_expects = form == ArriveForm::kExpect;
    const bool drop = form == ArriveForm::kDrop || form == ArriveForm::kDropExpect;
    const uint32_t address = barrier_address(w, i, l);
    const uint64_t state = mbarrier_arrive(*w.cta->cluster, address,
                                           counts         ? n
                                           : only_expects ? 0
                                                          : 1,
                                           counts ? 0 : n, drop);
    if (i.mod[1] != 0) check_no_complete(w, address, state);
    if (i.d != kNone) w.reg<uint64_t>(i.d)[l] = state;
  });
  return Step::kNext;
}

Step complete_bytes(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(w, mask, [&](uint32_t l) {
    mbarrier_complete(*w.cta->cluster, barrier_address(w, i, l), w.reg<uint32_t>(i.b)[l]);
  });
  return Step::kNext;
}

/// d: predicate. mod[0]: b is a state, else a parity. mod[1]: may wait.
Step wait(Warp& w, const Inst& i, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  const bool by_state = i.mod[0] != 0;
  uint32_t done = 0, address = 0, parity = 0;
  bool one_barrier = true, first = true, complete = false;
  Monitor* monitor = w.worker->monitor();
  for_each_lane(w, mask, [&](uint32_t l) {
    const uint32_t a = barrier_address(w, i, l);
    const uint32_t p =
        by_state ? parity_of_state(w.reg<uint64_t>(i.b)[l]) : w.reg<uint32_t>(i.b)[l] & 1;
    const bool same = !first && a == address && p == parity;
    one_barrier &= first || same;
    if (!same) complete = mbarrier_test(cluster, a, p);
    if (monitor != nullptr) monitor->mbarrier_test(w, a, p, 1u << l, complete);
    if (complete) done |= 1u << l;
    address = a;
    parity = p;
    first = false;
  });
  const RunOptions& options = w.worker->grid().options;
  const bool spurious =
      options.spurious_wakes != 0 && w.worker->random()() % options.spurious_wakes == 0;
  if (done != mask && one_barrier && i.mod[1] != 0 && !spurious) {
    return w.block({WaitKind::kMbarrier, parity, address});
  }
  w.set_lanes(i.d, done, mask);
  w.wait = {};
  return done == mask ? Step::kNext : Step::kYield;
}

Step pending_count(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(w, mask, [&](uint32_t l) {
    w.reg<uint32_t>(i.d)[l] = pending_of_state(w.reg<uint64_t>(i.a)[l]);
  });
  return Step::kNext;
}

/// 9.7.19.5: registers come from the CTA's pool, which has those that other warps gave back.
Step registers(Warp& w, const Inst& i, uint32_t) {
  const auto wanted = static_cast<uint32_t>(i.imm);
  uint32_t& owned = w.registers_owned;
  const bool more = i.mod[0] != 0;
  if (w.program().registers == 0 || (more ? wanted <= owned : wanted >= owned)) return w.pass();
  uint32_t& free = w.cta->registers_free;
  if (more && wanted - owned > free) return w.block({WaitKind::kRegisters, wanted, 0});
  free += owned;
  free -= wanted;
  owned = wanted;
  if (!more) w.cta->wake(WaitKind::kRegisters);
  return w.pass();
}

Step nothing(Warp&, const Inst&, uint32_t) { return Step::kNext; }
Step yield(Warp&, const Inst&, uint32_t) { return Step::kYield; }

}  // namespace

Handler sync_handler(SyncOp op) {
  switch (op) {
    case SyncOp::kBarrierSync:
      return barrier_sync;
    case SyncOp::kBarrierArrive:
      return barrier_arrive;
    case SyncOp::kBarrierReduce:
      return barrier_reduce;
    case SyncOp::kWarpSync:
      return warp_sync;
    case SyncOp::kClusterArrive:
      return cluster_arrive;
    case SyncOp::kClusterWait:
      return cluster_wait;
    case SyncOp::kMbarrierInit:
      return init;
    case SyncOp::kMbarrierInvalidate:
      return invalidate;
    case SyncOp::kMbarrierArrive:
      return arrive;
    case SyncOp::kMbarrierComplete:
      return complete_bytes;
    case SyncOp::kMbarrierWait:
      return wait;
    case SyncOp::kMbarrierPending:
      return pending_count;
    case SyncOp::kRegisters:
      return registers;
    case SyncOp::kNothing:
      return nothing;
    case SyncOp::kYield:
      return yield;
  }
  return nullptr;
}

}  // namespace exec
}  // namespace fa4::emulator
