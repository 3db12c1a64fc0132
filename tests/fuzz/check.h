// SPDX-License-Identifier: BSD-3-Clause
// Runs fuzzed problems, judges them, and makes those that fail smaller.
#pragma once

#include <string>

#include "fuzz/problem.h"
#include "support/case.h"

namespace fa4::fuzz {

/// Where problems run. On a GPU: the forward alone. The emulator takes pairs of CTAs from
/// `pair_keys` on, as that is now.
void set_device(Device device);

/// On the emulator: how often each problem runs, each time with another adversary, which must not
/// change a bit; and in how many of these runs, from the first on, the judge looks for errors. 0
/// runs: as the variable FA4_EMULATOR says.
void set_adversaries(int runs, int judged);

/// Forward (and backward) against the oracle; then that inputs are as they were, and that a second
/// run gives the same bits (the backward's only if it is asked to be deterministic).
test::Verdict check(const Problem& problem, bool backward);

/// The simplest problem near `problem` that still fails, found within `budget` checks.
Problem shrink(const Problem& problem, bool backward, int budget);

}  // namespace fa4::fuzz
