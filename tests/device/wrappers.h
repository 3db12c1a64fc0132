// SPDX-License-Identifier: BSD-3-Clause
// Calls of PTX wrappers, and the instructions that they must become.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "gpu/jit/nvrtc.h"

namespace fa4::gpu {

struct WrapperRow {
  const char* call;
  std::vector<const char*> instructions;
};

/// Compiles `kernel`, in which the calls stand for CALLS, and looks for the instructions. Skips the
/// test where there is no NVRTC.
inline void check_wrappers(std::string kernel, const char* target,
                           std::span<const WrapperRow> rows) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  std::string calls;
  for (const WrapperRow& row : rows) calls += std::string(row.call) + "\n  ";
  kernel.replace(kernel.find("CALLS"), 5, calls);
  const auto compiled = jit::compile({kernel, target, {}});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const WrapperRow& row : rows) {
    for (const char* instruction : row.instructions) {
      EXPECT_NE(compiled->ptx.find(instruction), std::string::npos) << instruction;
    }
  }
}

}  // namespace fa4::gpu
