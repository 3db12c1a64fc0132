// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mbarrier.h"

#include <cstring>

#include "emulator/machine.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

/// Hopper's layout, as an H200 shows it (the probe mbarrier/words): bit 63 the phase's parity, from
/// bit 43 on the pending and from bit 1 on the expected arrivals, 20 bits each, and from bit 21 on
/// the transaction count, 21 bits; all of them negated.
uint64_t image_of(const Mbarrier& b) {
  const auto negated = [](uint32_t count) { return uint64_t{(0u - count) & kMaxArrivals}; };
  return (b.phase & 1) << kParityBit | negated(b.pending) << kPendingBit |
         (static_cast<uint64_t>(-b.bytes) & 0x1fffff) << 21 | negated(b.expected) << 1;
}

std::byte* bytes_of(Cluster& cluster, uint32_t address, Access access = Access::kAtomic) {
  return resolve_shared(cluster, address, 8, 8, access, Proxy::kGeneric);
}

void store(std::byte* at, const Mbarrier& b) {
  const uint64_t image = image_of(b);
  std::memcpy(at, &image, sizeof image);
}

void tell(Cta& cta, const Mbarrier& b, BarrierEvent event) {
  if (Monitor* monitor = cta.cluster->worker->monitor()) monitor->mbarrier(cta, b, event);
}

struct Found {
  std::byte* at;
  Cta& cta;
  Mbarrier& barrier;
};

Found find(Cluster& cluster, uint32_t address) {
  std::byte* at = bytes_of(cluster, address);
  Cta& cta = cta_of(cluster, address);
  Mbarrier* b = cta.mbarriers.find(address & kOffsetMask);
  if (b == nullptr)
    throw Fault(Rule::kMbarrierMissing, "no mbarrier was initialised at " + hex(address));
  uint64_t image = 0;
  std::memcpy(&image, at, sizeof image);
  if (image != image_of(*b))
    throw Fault(Rule::kMbarrierOverwritten, "the mbarrier at " + hex(address) + " was overwritten");
  return {at, cta, *b};
}

void finish(const Found& f, uint32_t address) {
  Mbarrier& b = f.barrier;
  b.touched = true;
  if (b.pending == 0 && b.bytes == 0) {
    ++b.phase;
    tell(f.cta, b, BarrierEvent::kPhase);
    b.pending = b.expected;
    store(f.at, b);
    f.cta.wake(WaitKind::kMbarrier, address);
    return;
  }
  store(f.at, b);
}

void check_bytes(const Mbarrier& b, uint32_t address) {
  if (b.bytes > kMaxBytes || b.bytes < -kMaxBytes) {
    throw Fault(Rule::kMbarrierBytes, "the transaction count of the mbarrier at " + hex(address) +
                                          " becomes " + std::to_string(b.bytes) +
                                          ", beyond 2^20 - 1");
  }
}

}  // namespace

Mbarrier* MbarrierTable::find(uint32_t offset) {
  for (Mbarrier& b : barriers) {
    if (b.offset == offset) return &b;
  }
  return nullptr;
}

void mbarrier_init(Cluster& cluster, uint32_t address, uint32_t arrivals) {
  std::byte* at = bytes_of(cluster, address, Access::kWrite);
  if (arrivals == 0 || arrivals > kMaxArrivals) {
    throw Fault(Rule::kMbarrierCount, "an mbarrier for " + std::to_string(arrivals) +
                                          " arrivals; allowed: 1 to 2^20 - 1");
  }
  MbarrierTable& table = cta_of(cluster, address).mbarriers;
  Mbarrier* b = table.find(address & kOffsetMask);
  if (b == nullptr) {
    table.barriers.emplace_back();
    b = &table.barriers.back();
  } else if (b->touched || b->expected != arrivals) {
    // Lanes that initialise an untouched barrier alike do no harm.
    throw Fault(Rule::kMbarrierReinit,
                "the mbarrier at " + hex(address) + " is initialised again while in use");
  }
  *b = {};
  b->offset = address & kOffsetMask;
  b->expected = b->pending = arrivals;
  store(at, *b);
  tell(cta_of(cluster, address), *b, BarrierEvent::kInit);
}

void mbarrier_invalidate(Cluster& cluster, uint32_t address) {
  const Found f = find(cluster, address);
  tell(f.cta, f.barrier, BarrierEvent::kInvalidate);
  std::vector<Mbarrier>& all = f.cta.mbarriers.barriers;
  all.erase(all.begin() + (&f.barrier - all.data()));
}

uint64_t mbarrier_arrive(Cluster& cluster, uint32_t address, uint32_t arrivals, int64_t bytes,
                         bool drop) {
  const Found f = find(cluster, address);
  Mbarrier& b = f.barrier;
  const uint64_t before = image_of(b);
  b.bytes += bytes;
  check_bytes(b, address);
  if (arrivals > b.pending) {
    throw Fault(Rule::kMbarrierCount, "the mbarrier at " + hex(address) + " gets " +
                                          std::to_string(arrivals) + " arrivals with " +
                                          std::to_string(b.pending) + " pending");
  }
  b.pending -= arrivals;
  if (drop) b.expected -= arrivals;
  if (arrivals > 0) {
    tell(f.cta, b, BarrierEvent::kArrive);
    finish(f, address);
  } else {
    b.touched = true;
    store(f.at, b);
  }
  return before;
}

void mbarrier_complete(Cluster& cluster, uint32_t address, int64_t bytes) {
  const Found f = find(cluster, address);
  f.barrier.bytes -= bytes;
  check_bytes(f.barrier, address);
  tell(f.cta, f.barrier, BarrierEvent::kComplete);
  finish(f, address);
}

void mbarrier_add_pending(Cluster& cluster, uint32_t address, uint32_t arrivals) {
  const Found f = find(cluster, address);
  f.barrier.pending += arrivals;
  f.barrier.touched = true;
  if (f.barrier.pending > kMaxArrivals)
    throw Fault(Rule::kMbarrierCount, "more than 2^20 - 1 pending arrivals");
  store(f.at, f.barrier);
}

bool mbarrier_test(Cluster& cluster, uint32_t address, uint32_t parity) {
  return (find(cluster, address).barrier.phase & 1) != (parity & 1);
}

uint32_t pending_of_state(uint64_t state) {
  return (0u - static_cast<uint32_t>(state >> kPendingBit)) & kMaxArrivals;
}

}  // namespace fa4::emulator
