// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/plan.h"

namespace fa4::cpu {

Support supports(const core::Problem&) { return {false, "the CPU backend is not written yet"}; }

Result<std::shared_ptr<const Plan::Impl>> make_plan(const core::Problem& problem) {
  return unsupported(supports(problem).reason);
}

}  // namespace fa4::cpu
