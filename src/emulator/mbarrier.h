// SPDX-License-Identifier: BSD-3-Clause
// mbarrier objects: PTX ISA 9.7.13.15. The state is kept beside shared memory; its 64 bits there
// are an image of it, by which an overwritten barrier is noticed.
#pragma once

#include <cstdint>
#include <vector>

namespace fa4::emulator {

struct Cluster;
struct Cta;

struct Mbarrier {
  uint32_t offset = 0;    ///< In the CTA's shared memory.
  uint32_t expected = 0;  ///< Arrivals of a phase.
  uint32_t pending = 0;   ///< Arrivals still to come.
  int64_t bytes = 0;      ///< Transaction count: announced and not yet copied.
  uint64_t phase = 0;     ///< Phases completed.
  bool touched = false;   ///< Since it was initialised.
};

/// The barriers of a CTA.
struct MbarrierTable {
  std::vector<Mbarrier> barriers;
  Mbarrier* find(uint32_t offset);
};

constexpr uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

/// Places in the 64 bits of a state.
constexpr uint32_t kParityBit = 63, kPendingBit = 43;

// `address` is a shared::cluster address. All throw Fault on misuse.
void mbarrier_init(Cluster& cluster, uint32_t address, uint32_t arrivals);
void mbarrier_invalidate(Cluster& cluster, uint32_t address);
/// Announces bytes, then arrives `arrivals` times (0: only announces). `drop`: later phases expect
/// that many less. Returns the state before, as the instruction gives it.
uint64_t mbarrier_arrive(Cluster& cluster, uint32_t address, uint32_t arrivals, int64_t bytes,
                         bool drop = false);
/// Bytes of an asynchronous copy have come.
void mbarrier_complete(Cluster& cluster, uint32_t address, int64_t bytes);
/// Raises the pending count: of cp.async.mbarrier.arrive without .noinc.
void mbarrier_add_pending(Cluster& cluster, uint32_t address, uint32_t arrivals);
/// Whether the phase of this parity is complete: the current phase has the other.
bool mbarrier_test(Cluster& cluster, uint32_t address, uint32_t parity);
/// The parity of the phase that a state was taken in.
inline uint32_t parity_of_state(uint64_t state) {
  return static_cast<uint32_t>(state >> kParityBit);
}
uint32_t pending_of_state(uint64_t state);

}  // namespace fa4::emulator
