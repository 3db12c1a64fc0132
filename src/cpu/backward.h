// SPDX-License-Identifier: BSD-3-Clause
// The CPU backward pass: flash attention's five products a tile, in an order that does not depend
// on the number of threads. docs/notes/cpu_backward.md says why it is built this way.
#pragma once

#include <fa4/attention.h>

#include <cstddef>
#include <optional>
#include <string>

#include "core/problem.h"
#include "cpu/kernels.h"

namespace fa4::cpu {

/// Bytes that run_backward() needs for `problem` with at most `threads` threads; none if 64 bits
/// can't count them. Linear in the sequences' lengths.
std::optional<size_t> backward_workspace_bytes(const core::Problem& problem, const Target& target,
                                               int threads);

/// Computes every gradient that is present. The tensors were validated, lengths included; the
/// workspace is what backward_workspace_bytes() asked for, with the same arguments. The bits of the
/// result depend on neither `threads` nor timing.
void run_backward(const core::Problem& problem, const AttentionTensors& tensors,
                  const AttentionGradients& gradients, const Target& target, void* workspace,
                  int threads);

/// Tiles and tasks, for Plan::describe().
std::string describe_backward(const core::Problem& problem, const Target& target, int threads);

}  // namespace fa4::cpu
