// SPDX-License-Identifier: BSD-3-Clause
// How the emulator runs what it is given, as the environment variable FA4_EMULATOR says
// (emulator_runtime.h lists its settings).
#pragma once

#include <fa4/status.h>

#include "emulator/emulator.h"
#include "gpu/runtime.h"

namespace fa4::gpu {

struct EmulatorSettings {
  emulator::RunOptions run;
  int multiprocessors = 4;           ///< Few, so that blocks take several tiles of a list.
  int64_t pair_keys = kPairKeys;     ///< Fewer than on a GPU show pairs of CTAs sooner.
  emulator::Tally* tally = nullptr;  ///< Where launches add what they did.
};

/// Reads the variable; called at each launch, so that a program may change its mind.
/// Multiprocessors and pair_keys are the device's, which is made once: its first caller's are kept.
Result<EmulatorSettings> emulator_settings();

/// While one lives, the launches of its thread are run as it says, and the variable is not read.
class ThreadEmulatorSettings {
 public:
  explicit ThreadEmulatorSettings(const EmulatorSettings& settings);
  ~ThreadEmulatorSettings();
  ThreadEmulatorSettings(const ThreadEmulatorSettings&) = delete;
  ThreadEmulatorSettings& operator=(const ThreadEmulatorSettings&) = delete;

 private:
  EmulatorSettings settings_;
  const EmulatorSettings* outer_;
};

}  // namespace fa4::gpu
