// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps that kernels change: PTX ISA 9.7.9.28, 9.7.13.16, 9.7.13.4.
#include <bit>
#include <cstring>
#include <span>

#include "emulator/exec/memory_access.h"
#include "emulator/exec/tensor_map_handlers.h"
#include "emulator/monitor.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::exec {
namespace {

constexpr uint32_t kBytes = 128, kAlign = 64;

/// A weak access to the whole map.
Step replace(Warp& w, const Inst& i, uint32_t mask) {
  const auto field = static_cast<TensorMapField>(i.mod[0]);
  const bool wide =
      field == TensorMapField::kGlobalAddress || field == TensorMapField::kGlobalStride;
  Accessor reads(w, i, Access::kRead, kBytes, kAlign);
  Accessor writes(w, i, Access::kWrite, kBytes, kAlign);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (Monitor* monitor = w.worker->monitor()) monitor->lane = lane;
    uint64_t value = i.mod[2];
    if (i.b != kNone) value = wide ? w.reg<uint64_t>(i.b)[lane] : w.reg<uint32_t>(i.b)[lane];
    reads.at(reads.address(lane), lane);
    std::byte* map = writes.at(writes.address(lane), lane);
    replace_field(std::span<std::byte, kBytes>(map, kBytes), field, i.mod[1], value);
  }
  return Step::kNext;
}

/// All lanes name the same map, so that one does it.
Step copy(Warp& w, const Inst& i, uint32_t mask) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
  if (Monitor* monitor = w.worker->monitor()) monitor->lane = lane;
  const uint64_t base = i.mod[1] == 8 ? w.reg<uint64_t>(i.b)[lane] : w.reg<uint32_t>(i.b)[lane];
  const uint64_t source = base + static_cast<uint64_t>(static_cast<int32_t>(i.e));
  const uint64_t target = w.reg<uint64_t>(i.a)[lane] + static_cast<uint64_t>(i.imm);
  const std::byte* from = resolve(w, Space::kShared, source, kBytes, kAlign, Access::kRead, lane);
  std::byte* to = resolve(w, Space::kGlobal, target, kBytes, kAlign, Access::kWrite, lane);
  std::memcpy(to, from, kBytes);
  return Step::kNext;
}

Step acquire(Warp& w, const Inst& i, uint32_t mask) {
  Monitor* monitor = w.worker->monitor();
  const Accessor memory(w, i, Access::kRead, kBytes, kAlign);
  for (uint32_t rest = mask; rest != 0 && monitor != nullptr; rest &= rest - 1) {
    monitor->lane = static_cast<uint32_t>(std::countr_zero(rest));
    monitor->tensor_map(memory.address(monitor->lane), false);
  }
  return Step::kNext;
}

}  // namespace

Handler replace_field() { return replace; }
Handler copy_tensor_map() { return copy; }
Handler acquire_tensor_map() { return acquire; }

}  // namespace fa4::emulator::exec
