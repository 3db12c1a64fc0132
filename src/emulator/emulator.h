// SPDX-License-Identifier: BSD-3-Clause
// The emulator's interface: PTX text in, a kernel's effect on memory out.
#pragma once

#include <fa4/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "emulator/memory.h"
#include "emulator/options.h"
#include "emulator/program.h"
#include "emulator/worker.h"

namespace fa4::emulator {

/// Decodes a PTX module. Errors name the line.
Result<std::shared_ptr<const Program>> load(std::string ptx);

struct LaunchConfig {
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};
  std::array<uint32_t, 3> cluster{0, 0, 0};  ///< 0: what the kernel requires, or 1.
  uint32_t dynamic_shared = 0;
};

/// Runs a kernel to its end. `params` are the bytes of its parameters, `memory` the host memory
/// that it may touch. An error says who did what where, and with which seed.
Result<Tally> run(const std::shared_ptr<const Kernel>& kernel, const LaunchConfig& config,
                  std::span<const std::byte> params, const MemoryMap& memory,
                  const RunOptions& options = {});

}  // namespace fa4::emulator
