// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "emulator/machine.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

[[noreturn]] void misaligned(const char* space, uint64_t address, uint32_t align) {
  throw Fault(Rule::kMisaligned, std::string(space) + " address " + hex(address) +
                                     " is not a multiple of " + std::to_string(align));
}

std::byte* local_at(Warp& warp, uint64_t offset, uint32_t bytes, Access access, uint32_t lane) {
  const uint64_t size = warp.program().local_bytes;
  if (offset > size || bytes > size - offset) {
    throw Fault(Rule::kOutOfBounds, "local address " + hex(offset) + " (" + std::to_string(bytes) +
                                        " bytes) is outside the " + std::to_string(size) +
                                        " bytes of local memory");
  }
  if (Monitor* monitor = warp.worker->monitor()) {
    monitor->local_access(warp, offset, bytes, access);
  }
  return warp.local.data() + lane * size + offset;
}

std::byte* param_at(Warp& warp, uint64_t offset, uint32_t bytes, Access access) {
  std::vector<std::byte>& params = warp.worker->grid().params;
  if (access != Access::kRead) throw Fault(Rule::kReadOnly, "a write to the kernel's parameters");
  if (offset > params.size() || bytes > params.size() - offset) {
    throw Fault(Rule::kOutOfBounds, "parameter address " + hex(offset) + " (" +
                                        std::to_string(bytes) + " bytes) is outside the " +
                                        std::to_string(params.size()) + " bytes given");
  }
  return params.data() + offset;
}

}  // namespace

std::string hex(uint64_t x) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[x & 15]);
    x >>= 4;
  } while (x != 0);
  return "0x" + text;
}

void MemoryMap::add(const void* data, size_t bytes, bool writable) {
  const auto begin = reinterpret_cast<uint64_t>(data);
  if (bytes > 0) ranges_.push_back({begin, begin + bytes, writable});
}

void MemoryMap::add_process() {
  // "7f0c00000000-7f0c00021000 rw-p ..."
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    MemoryRange range;
    const char* end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, range.begin, 16);
    if (first.ec != std::errc() || end - first.ptr < 2) continue;
    const auto last = std::from_chars(first.ptr + 1, end, range.end, 16);
    if (last.ec != std::errc() || end - last.ptr < 3 || last.ptr[1] != 'r') continue;
    range.writable = last.ptr[2] == 'w';
    if (range.end < kSharedWindow) process_.push_back(range);
  }
}

void MemoryMap::sort() {
  const auto by_begin = [](const MemoryRange& a, const MemoryRange& b) {
    return a.begin < b.begin;
  };
  std::sort(ranges_.begin(), ranges_.end(), by_begin);
  std::sort(process_.begin(), process_.end(), by_begin);
}

const MemoryRange* MemoryMap::find(uint64_t address) const {
  for (const std::vector<MemoryRange>* ranges : {&ranges_, &process_}) {
    auto it = std::upper_bound(ranges->begin(), ranges->end(), address,
                               [](uint64_t x, const MemoryRange& r) { return x < r.begin; });
    if (it == ranges->begin()) continue;
    --it;
    if (address < it->end) return &*it;
  }
  return nullptr;
}

std::byte* resolve_global(const MemoryMap& memory, uint64_t address, uint64_t bytes,
                          Access access) {
  const MemoryRange* range = memory.find(address);
  if (range == nullptr || bytes > range->end - address) {
    throw Fault(Rule::kOutOfBounds, "global address " + hex(address) + " (" +
                                        std::to_string(bytes) + " bytes) lies in no allocation");
  }
  if (access != Access::kRead && !range->writable) {
    throw Fault(Rule::kReadOnly,
                "a write to global address " + hex(address) + ", which is constant");
  }
  return reinterpret_cast<std::byte*>(address);
}

Cta& cta_of(Cluster& cluster, uint32_t shared_address) {
  const uint32_t rank = shared_address >> kRankShift;
  if (rank >= cluster.ctas.size()) {
    throw Fault(Rule::kOutOfBounds, "shared address " + hex(shared_address) + " names CTA " +
                                        std::to_string(rank) + " of a cluster of " +
                                        std::to_string(cluster.ctas.size()));
  }
  return *cluster.ctas[rank];
}

std::byte* resolve_shared(Cluster& cluster, uint32_t address, uint32_t bytes, uint32_t align,
                          Access access, Proxy proxy) {
  Cta& cta = cta_of(cluster, address);
  const uint32_t offset = address & kOffsetMask;
  const size_t size = cta.shared.size();
  if (offset < kSharedStart || offset > size || bytes > size - offset) {
    throw Fault(Rule::kOutOfBounds, "shared address " + hex(address) + " (" +
                                        std::to_string(bytes) +
                                        " bytes) is outside the CTA's shared memory [" +
                                        hex(kSharedStart) + ", " + hex(size) + ")");
  }
  if (offset % align != 0) misaligned("shared", address, align);
  if (Monitor* monitor = cluster.worker->monitor()) {
    monitor->shared_access(cta, offset, bytes, access, proxy);
  }
  return cta.shared.data() + offset;
}

std::byte* resolve(Warp& warp, Space space, uint64_t address, uint32_t bytes, uint32_t align,
                   Access access, uint32_t lane) {
  if (Monitor* monitor = warp.worker->monitor()) monitor->lane = lane;
  if (space == Space::kGeneric) {
    const uint64_t window = address & kWindows;
    address &= ~kWindows;
    if (window == 0) {
      space = Space::kGlobal;
    } else if (window == kSharedWindow) {
      space = Space::kSharedCluster;
    } else if (window == kLocalWindow) {
      space = Space::kLocal;
    } else if (window == kParamWindow) {
      space = Space::kParam;
    } else {
      throw Fault("generic address " + hex(address | window) + " lies in no window");
    }
  }
  switch (space) {
    case Space::kShared:
    case Space::kSharedCluster: {
      const auto shared = static_cast<uint32_t>(address);
      if (address >> 32 != 0) throw Fault("shared address " + hex(address) + " exceeds 32 bits");
      if (space == Space::kShared && shared >> kRankShift != warp.cta->rank) {
        throw Fault("shared::cta address " + hex(address) + " is not one of this CTA");
      }
      return resolve_shared(*warp.cta->cluster, shared, bytes, align, access, Proxy::kGeneric);
    }
    case Space::kLocal:
      if (address % align != 0) misaligned("local", address, align);
      return local_at(warp, address, bytes, access, lane);
    case Space::kParam:
      if (address % align != 0) misaligned("parameter", address, align);
      return param_at(warp, address, bytes, access);
    default:
      if (address % align != 0) misaligned("global", address, align);
      warp.worker->global_at(address, bytes, access);
      if (Monitor* monitor = warp.worker->monitor()) {
        monitor->global_access(address, bytes, access);
      }
      return reinterpret_cast<std::byte*>(address);
  }
}

}  // namespace fa4::emulator
