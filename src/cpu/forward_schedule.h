// SPDX-License-Identifier: BSD-3-Clause
// Cuts a forward call into tasks.
#pragma once

#include "cpu/forward_layout.h"

namespace fa4::cpu {

/// Writes the tasks of the call, longest first, and returns their number. Every used query row of
/// every head is in exactly one tile task or in the decode tasks of all chunks of its keys.
int64_t schedule_forward(const core::Problem& problem, const AttentionTensors& tensors,
                         const ForwardTiling& tiling, Task* tasks);

}  // namespace fa4::cpu
