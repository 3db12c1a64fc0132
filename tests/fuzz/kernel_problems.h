// SPDX-License-Identifier: BSD-3-Clause
// Problems drawn for a kernel each, so that a few hundred of them run every kernel there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fuzz/problem.h"
#include "gpu/sm90_forward_config.h"

namespace fa4::fuzz {

/// Keys from which on plans take pairs of CTAs: as on a GPU, until it is set.
extern int64_t pair_keys;
/// What the emulator is told: enough for the kernels that are chosen below.
constexpr int64_t kEmulatedPairKeys = 2300;

/// Number `index` of the stream that `seed` begins. They go through all configurations of the
/// sm_90a forward in turn; those of the even rounds are longer than two of its tiles in both
/// directions, so are half of all.
Problem draw_for_kernel(uint64_t seed, uint64_t index);

/// The configuration that runs a problem; none if the kernels can't.
std::optional<gpu::sm90::ForwardConfig> kernel_of(const Problem& problem);

/// Whether its queries and its keys are more than two tiles' each.
bool is_long(const Problem& problem, const gpu::sm90::ForwardConfig& config);

}  // namespace fa4::fuzz
