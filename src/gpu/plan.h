// SPDX-License-Identifier: BSD-3-Clause
// The GPU backend's face to core.
#pragma once

#include <memory>

#include "core/plan_impl.h"

namespace fa4::gpu {

Support supports(const core::Problem& problem, Device device);
Result<std::shared_ptr<const Plan::Impl>> make_plan(const core::Problem& problem, Device device);

}  // namespace fa4::gpu
