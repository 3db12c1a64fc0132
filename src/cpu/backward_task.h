// SPDX-License-Identifier: BSD-3-Clause
// One task of the backward pass: a chunk of query rows against a chunk of keys.
#pragma once

#include "cpu/backward_layout.h"
#include "cpu/backward_schedule.h"
#include "cpu/backward_tiles.h"

namespace fa4::cpu {

/// Runs a task whose turn has come: loads the chunks that it is the first to touch, adds the
/// products of all pairs of tiles, stores the gradients of the chunks that it is the last to touch.
template <class T>
void run_task(const BackwardContext<T>& context, const BackwardTask& task,
              const UnitScratch<T>& unit, const WorkerScratch<T>& scratch);

}  // namespace fa4::cpu
