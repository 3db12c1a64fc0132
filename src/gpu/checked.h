// SPDX-License-Identifier: BSD-3-Clause
// The checked mode: lengths that live in device memory, looked at before a run.
#pragma once

#include <fa4/attention.h>

#include "core/problem.h"
#include "gpu/runtime.h"

namespace fa4::gpu {

/// Whether $FA4_CHECKED is set to something else than 0: then every run waits for its stream and
/// checks cu_seqlens, seqused and start as the CPU always does. For debugging: it can't be captured
/// into a graph.
bool checked_mode();

/// Copies the lengths to the host, in the stream's order, and validates them.
Status check_lengths(const Runtime& runtime, const core::Problem& problem,
                     const AttentionTensors& tensors, Stream stream);

}  // namespace fa4::gpu
