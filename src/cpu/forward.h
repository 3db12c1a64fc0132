// SPDX-License-Identifier: BSD-3-Clause
// The CPU forward pass.
#pragma once

#include <fa4/attention.h>

#include <cstddef>
#include <optional>
#include <string>

#include "core/problem.h"
#include "cpu/kernels.h"

namespace fa4::cpu {

/// Bytes that run_forward() needs; none if 64 bits can't count them. Linear in the lengths.
std::optional<size_t> forward_workspace_bytes(const core::Problem& problem, const Target& target,
                                              int threads);

/// Computes out and lse. The tensors were validated, lengths included. The bits of the result do
/// not depend on `threads`.
void run_forward(const core::Problem& problem, const AttentionTensors& tensors,
                 const Target& target, void* workspace, int threads);

/// Tiles and paths, for Plan::describe().
std::string describe_forward(const core::Problem& problem, const Target& target, int threads);

}  // namespace fa4::cpu
