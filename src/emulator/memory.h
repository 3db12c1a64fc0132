// SPDX-License-Identifier: BSD-3-Clause
// Address spaces.
//
// Global addresses are the host's own. Shared addresses are 32 bits: the CTA's rank in its cluster
// in bits 24 and up, an offset below. Generic addresses are global ones, or an address of another
// space with the bit of its window set; host addresses stay far below those bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/program.h"

namespace fa4::emulator {

struct Cluster;
struct Cta;

constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
constexpr uint64_t kLocalWindow = uint64_t{1} << 57;
constexpr uint64_t kParamWindow = uint64_t{1} << 58;
constexpr uint64_t kWindows = kSharedWindow | kLocalWindow | kParamWindow;
constexpr int kRankShift = 24;
constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;

/// Host memory that a grid may touch.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writable = true;
};

class MemoryMap {
 public:
  void add(const void* data, size_t bytes, bool writable = true);
  /// All that this process has mapped may be touched too: for memory whose extents nobody told.
  /// What add() was told comes first, so that its ends are still found.
  void add_process();
  /// After the last add().
  void sort();
  /// The range that holds `address`, or null. (Ranges that touch are kept apart: an access across
  /// their border is an error.)
  const MemoryRange* find(uint64_t address) const;

 private:
  std::vector<MemoryRange> ranges_;
  std::vector<MemoryRange> process_;
};

/// How memory is touched. The proxy says by which path.
enum class Access : uint8_t { kRead, kWrite, kAtomic };
enum class Proxy : uint8_t { kGeneric, kAsync, kTensor };

/// Host address of `bytes` bytes at `address` of `space`, as lane `lane` of the warp sees them.
/// Throws Fault if they are not there, not aligned to `align`, or not writable.
std::byte* resolve(Warp& warp, Space space, uint64_t address, uint32_t bytes, uint32_t align,
                   Access access, uint32_t lane);

/// The same for operations that no lane executes any more.
std::byte* resolve_shared(Cluster& cluster, uint32_t address, uint32_t bytes, uint32_t align,
                          Access access, Proxy proxy);
std::byte* resolve_global(const MemoryMap& memory, uint64_t address, uint64_t bytes, Access access);

/// The CTA that a shared address belongs to. Throws Fault if the cluster has none of that rank.
Cta& cta_of(Cluster& cluster, uint32_t shared_address);

std::string hex(uint64_t x);

}  // namespace fa4::emulator
