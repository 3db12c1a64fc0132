// SPDX-License-Identifier: BSD-3-Clause
// The CPU backend's face to core.
#pragma once

#include <memory>

#include "core/plan_impl.h"

namespace fa4::cpu {

Support supports(const core::Problem& problem);
Result<std::shared_ptr<const Plan::Impl>> make_plan(const core::Problem& problem);

}  // namespace fa4::cpu
