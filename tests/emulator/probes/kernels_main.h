// SPDX-License-Identifier: BSD-3-Clause
// fa4_probes --kernels.
#pragma once

#include <fa4/device.h>

#include <functional>
#include <string>

namespace fa4::emulator::probes {

/// Runs every kernel's cases whose name contains `only` on the device and, if it is a GPU, on the
/// emulator; writes FOLDER/kernels.txt (a fixture: of exact cases the hash, of real ones some
/// numbers); prints the largest differences. Returns the number of failures.
int run_kernels(Device device, const std::string& folder, const std::string& only,
                const std::function<std::string()>& describe);

}  // namespace fa4::emulator::probes
