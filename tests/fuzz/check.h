// SPDX-License-Identifier: BSD-3-Clause
// Runs fuzzed problems, judges them, and makes those that fail smaller.
#pragma once

#include <string>

#include "fuzz/problem.h"
#include "support/case.h"

namespace fa4::fuzz {

/// Where problems run. On a GPU: the forward alone.
void set_device(Device device);

/// Forward (and backward) against the oracle; then that inputs are as they were, and that a second
/// run gives the same bits (the backward's only if it is asked to be deterministic).
test::Verdict check(const Problem& problem, bool backward);

/// The simplest problem near `problem` that still fails, found within `budget` checks.
Problem shrink(const Problem& problem, bool backward, int budget);

}  // namespace fa4::fuzz
