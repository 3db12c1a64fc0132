// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/decode/registers.h"
#include "emulator/program.h"

namespace fa4::emulator::decode {

/// Instructions from the first to the last at which a register holds a value that somebody may
/// still read, holes included.
struct LiveRange {
  uint32_t first = kNone;
  uint32_t last = 0;

  bool used() const { return first != kNone; }
  void cover(uint32_t pc) {
    first = pc < first ? pc : first;
    last = pc > last ? pc : last;
  }
};

/// Instructions without a jump into or out of their middle.
struct Block {
  uint32_t begin = 0;
  uint32_t end = 0;
  std::vector<uint32_t> next;  ///< Blocks that may follow, by number.
};
/// In the order of the code; the first is where the kernel begins.
std::vector<Block> find_blocks(const Kernel& kernel);

/// One for each register. Lanes write only what is theirs, so that what holds for one thread's way
/// through the code holds for a diverged warp. A register that an instruction writes later
/// (kAsyncResult) lives until the kAsyncWait behind it.
std::vector<LiveRange> live_ranges(const Kernel& kernel, const RegisterTable& registers,
                                   const std::vector<RegisterRef>& refs);

}  // namespace fa4::emulator::decode
