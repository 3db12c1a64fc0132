// SPDX-License-Identifier: BSD-3-Clause
// Every kernel that the heuristics can choose, in one list: what `fa4 compile --all`, `fa4 cache
// warm` and the compile tests walk through.
#pragma once

#include <string>
#include <vector>

#include "gpu/jit/nvrtc.h"

namespace fa4::gpu {

struct KernelConfig {
  std::string name;  ///< "sm_90a/forward/bf16/d128/causal": unique.
  jit::Program program;
  std::string entry;          ///< The kernel's symbol.
  unsigned shared_bytes = 0;  ///< Dynamic shared memory of a block.
  int registers = 0;          ///< A thread, at launch: what ptxas must give.
  double budget_seconds = 0;  ///< CPU time of a compile, the aim.
};

/// In an order that does not change; grouped by target.
std::vector<KernelConfig> all_kernels();

}  // namespace fa4::gpu
