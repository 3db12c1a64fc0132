// SPDX-License-Identifier: BSD-3-Clause
// Attention without its softmax, as CUDA source for sm_100a: O = bf16(Q K') V of 128 rows and keys,
// with P in tensor memory and V read across its rows, by a warp that issues and four that carry P.
// Small integers, so that the result must be equal to the bit.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace fa4::emulator::test {

/// For NVRTC; the entry is "chain".
const char* chain_source();

/// What the kernel takes, in its parameters' order: Q, K, V and room for O; and what O shall be.
struct ChainProblem {
  std::vector<std::vector<uint32_t>> buffers;
  std::vector<uint32_t> result;
};
ChainProblem chain_problem();
constexpr uint32_t kChainThreads = 160;

struct ChainRun {
  std::string error;
  bool right = false;
  Tally tally;
};
ChainRun run_chain(const std::string& ptx, const RunOptions& options);

}  // namespace fa4::emulator::test
