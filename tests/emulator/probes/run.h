// SPDX-License-Identifier: BSD-3-Clause
// Running a probe on a device, real or emulated, and comparing what two devices gave.
#pragma once

#include <fa4/device.h>
#include <fa4/status.h>

#include <string>
#include <vector>

#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {

using Words = std::vector<uint32_t>;

/// What the probe's output holds after it.
Result<Words> run_probe(const Probe& probe, Device device);

/// How two outputs differ.
struct Difference {
  uint32_t wrong = 0;    ///< Words beyond the tolerance.
  uint32_t first = 0;    ///< The first of them.
  uint32_t ulps = 0;     ///< The largest distance, of floats that are both finite.
  double absolute = 0;   ///< Likewise.
  uint32_t unequal = 0;  ///< Words that are not equal to the bit.
};
/// Of the first `count` words.
Difference compare(const Words& mine, const Words& theirs, const Tolerance& tolerance,
                   size_t count);

}  // namespace fa4::emulator::probes
