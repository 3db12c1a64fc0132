// SPDX-License-Identifier: BSD-3-Clause
// Probes of instructions of one lane: a row is the instruction's text and what its inputs are.
#pragma once

#include <string>
#include <vector>

#include "emulator/probes/draw.h"
#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {

/// In a row's text a, b, c are 32-bit sources, A, B, C 64-bit ones, h, i, j 16-bit ones (the same
/// numbers' low parts), p a predicate: the lowest bit of a. Results: d 32 bits, D (or C) 64, k 16,
/// q a predicate. P is the address of A in memory, S the address of 8 bytes of shared memory that
/// hold A; both may be written.
struct LaneRow {
  std::string text;
  Draw draw = Draw::kFloat;
  uint32_t count = 128;  ///< Lanes; a multiple of 32.
  Tolerance tolerance{};
  std::string results{};  ///< Letters of what is kept; "": the one that stands behind the opcode.
  std::string note{};     ///< Ends the probe's name where the text alone does not make it unique.
};

Probe lane_probe(const LaneRow& row);
std::vector<Probe> lane_probes(const std::vector<LaneRow>& rows);

}  // namespace fa4::emulator::probes
