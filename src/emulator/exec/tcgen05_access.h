// SPDX-License-Identifier: BSD-3-Clause
// What the handlers of tcgen05 instructions share.
#pragma once

#include <bit>
#include <string>

#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {

/// .sync.aligned: all 32 threads of the warp, none of which has exited.
inline void check_whole_warp(uint32_t mask) {
  if (mask == kAllLanes) return;
  throw Fault("executed by lanes " + hex(mask) + "; all 32 threads of the warp must");
}

/// The one lane that issues.
inline uint32_t issuing_lane(uint32_t mask) {
  if (std::has_single_bit(mask)) return static_cast<uint32_t>(std::countr_zero(mask));
  throw Fault("issued by lanes " + hex(mask) + "; a single thread must");
}

/// A register's value, which all lanes must share.
template <class T>
T uniform(const Warp& w, uint32_t slot, uint32_t mask, const char* what) {
  const T* all = w.reg<T>(slot);
  const T value = w.first<T>(slot, mask);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const T other = all[std::countr_zero(rest)];
    if (other != value) {
      throw Fault(std::string(what) + " is " + hex(value) + " in one lane and " + hex(other) +
                  " in another; allowed: one value for the warp");
    }
  }
  return value;
}

/// Tells the monitor, if there is one.
inline void tell_tensor(Cta& cta, const TensorBlock& block, Access access) {
  if (Monitor* monitor = cta.cluster->worker->monitor()) {
    monitor->tensor_access(cta, block, access);
  }
}

Step tensor_alloc(Warp& w, const Inst& i, uint32_t mask);
Step tensor_dealloc(Warp& w, const Inst& i, uint32_t mask);
Step tensor_relinquish(Warp& w, const Inst& i, uint32_t mask);
Step tensor_load(Warp& w, const Inst& i, uint32_t mask);
Step tensor_load_reduce(Warp& w, const Inst& i, uint32_t mask);
Step tensor_store(Warp& w, const Inst& i, uint32_t mask);
Step tensor_wait_load(Warp& w, const Inst& i, uint32_t mask);
Step tensor_wait_store(Warp& w, const Inst& i, uint32_t mask);
Step tensor_mma(Warp& w, const Inst& i, uint32_t mask);
Step tensor_copy(Warp& w, const Inst& i, uint32_t mask);
Step tensor_shift(Warp& w, const Inst& i, uint32_t mask);
Step tensor_commit(Warp& w, const Inst& i, uint32_t mask);

}  // namespace fa4::emulator::exec
