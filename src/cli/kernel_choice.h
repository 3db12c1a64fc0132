// SPDX-License-Identifier: BSD-3-Clause
// Kernels by name, as `fa4 compile` and `fa4 cache warm` are told which.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "gpu/configs.h"

namespace fa4::cli {

struct KernelChoice {
  std::vector<std::string> filters;
  std::string target = "sm_90a";
  bool all = false;
};

/// Adds FILTER..., --target and --all.
void add_choice(CommandLine& line, KernelChoice& choice);

/// The kernels of the target whose names match one of the filters. UsageError: an unknown target,
/// neither filters nor --all, no match.
std::vector<gpu::KernelConfig> chosen_kernels(const KernelChoice& choice);

}  // namespace fa4::cli
