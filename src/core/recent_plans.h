// SPDX-License-Identifier: BSD-3-Clause
// Plans of the problems that a thread asked for last, so that attention() need not make them anew.
#pragma once

#include <fa4/plan.h>

namespace fa4::core {

/// Plan::make(), remembered by this thread for its last few problems. Failures are not remembered.
Result<Plan> recent_plan(const AttentionProblem& problem, Device device);

}  // namespace fa4::core
