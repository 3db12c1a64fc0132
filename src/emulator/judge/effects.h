// SPDX-License-Identifier: BSD-3-Clause
// What an instruction is to the judge: told from its opcode.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emulator/program.h"

namespace fa4::emulator::judge {

enum class Effect : uint8_t {
  kPlain,
  kMove,    ///< Copies what it reads, defined or not.
  kSelect,  ///< selp
  kLoad,
  kStore,
  kAsyncStore,  ///< st.async, red.async
  kAtomic,
  kBarrierSync,
  kBarrierArrive,
  kWarpSync,
  kClusterArrive,
  kClusterWait,
  kMbarrier,
  kFence,  ///< Of threads: acq_rel, sc.
  kFenceProxy,
  kFenceMbarrierInit,
  kCopy,
  kCopyCommit,
  kCopyWait,
  kCopyWaitAll,
  kCopyArrive,
  kBulkLoad,
  kBulkStore,
  kBulkCommit,
  kBulkWait,
  kBulkWaitRead,
  kWgmma,
  kWgmmaFence,
  kWgmmaCommit,
  kWgmmaWait,
  kTensorAlloc,
  kTensorDealloc,
  kTensorLoad,
  kTensorStore,
  kTensorWaitLoad,
  kTensorWaitStore,
  kTensorMma,
  kTensorCopy,  ///< cp, shift
  kTensorCommit,
  kTensorFenceBefore,
  kTensorFenceAfter,
  kTryCancel,
  kExit,
};

struct EffectInfo {
  Effect effect = Effect::kPlain;
  bool acquires = false, releases = false;
  bool strong = false;       ///< Relaxed or more: does not race with its like.
  bool cta_scope = false;    ///< No wider scope was given.
  bool checks_late = false;  ///< Its registers are known once its handler has run.
};

EffectInfo effect_of(std::string_view opcode);
/// By pc.
std::vector<EffectInfo> effects_of(const Kernel& kernel);

}  // namespace fa4::emulator::judge
