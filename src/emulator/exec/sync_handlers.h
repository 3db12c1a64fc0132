// SPDX-License-Identifier: BSD-3-Clause
// Handlers of synchronisation: exec_barrier.cpp says which operands each takes.
#pragma once

#include "emulator/program.h"

namespace fa4::emulator::exec {

enum class SyncOp : uint8_t {
  kBarrierSync,
  kBarrierArrive,
  kBarrierReduce,  ///< a number, b threads; mod[0]: aligned
  kWarpSync,       ///< a lanes
  kClusterArrive,
  kClusterWait,
  kMbarrierInit,
  kMbarrierInvalidate,
  kMbarrierArrive,
  kMbarrierComplete,
  kMbarrierWait,
  kMbarrierPending,
  kRegisters,  ///< setmaxnreg: imm registers; mod[0]: more of them
  kNothing,    ///< Fences and hints.
  kYield,      ///< Lets others run.
};
Handler sync_handler(SyncOp op);

enum class ArriveForm : uint8_t { kArrive, kDrop, kArriveExpect, kDropExpect, kExpect };

}  // namespace fa4::emulator::exec
