// SPDX-License-Identifier: BSD-3-Clause
// Hooks for checks. A worker without a monitor pays one comparison for a memory access or a
// synchronisation, and nothing for anything else; with one it steps through Worker::run_watched().
#pragma once

#include <cstdint>

#include "emulator/memory.h"

namespace fa4::emulator {

struct Inst;
struct Warp;
struct Cta;

class Monitor {
 public:
  virtual ~Monitor() = default;

  /// Before an instruction, with the lanes that execute it: registers by Kernel::uses.
  virtual void instruction(Warp& warp, const Inst& inst, uint32_t lanes) = 0;
  virtual void shared_access(Cta& cta, uint32_t offset, uint32_t bytes, Access access,
                             Proxy proxy) = 0;
  virtual void global_access(Warp& warp, uint64_t address, uint32_t bytes, Access access,
                             uint32_t lane) = 0;
};

}  // namespace fa4::emulator
