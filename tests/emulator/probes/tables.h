// SPDX-License-Identifier: BSD-3-Clause
// fa4_probes --tables: the approximations at every fraction, for whoever wants to know what the
// hardware computes. Too much for a fixture.
#pragma once

#include <fa4/device.h>

#include <string>

namespace fa4::emulator::probes {

/// For each function of the list in tables.cpp a file FOLDER/NAME.bin of 4 MiB: for every fraction
/// of 23 bits, four bits, the even fraction's first: 8 + the units in the last place by which the
/// device's result lies above the correctly rounded one (0: more than 7 off). Prints how many there
/// are of each. Returns the number of failures.
int write_tables(Device device, const std::string& folder);

}  // namespace fa4::emulator::probes
