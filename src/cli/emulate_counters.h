// SPDX-License-Identifier: BSD-3-Clause
// What `fa4 emulate --counters` shows: what each role of a kernel's warps did.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "emulator/emulator.h"

namespace fa4::cli {

/// A column for each role, and one for all of them. Numbers are divided by `tiles`.
void print_counters(const std::vector<emulator::RoleCounts>& roles, double tiles);

nlohmann::json counters_json(const std::vector<emulator::RoleCounts>& roles, double tiles);

}  // namespace fa4::cli
