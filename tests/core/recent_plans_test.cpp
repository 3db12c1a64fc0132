// SPDX-License-Identifier: BSD-3-Clause
#include "core/recent_plans.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/case.h"

namespace fa4::core {
namespace {

AttentionProblem problem_of(int64_t s_k) {
  const test::Case c = test::ref64({.s_q = 4, .s_k = s_k, .d = 8}, DType::kFloat32);
  return AttentionProblem::forward(c.tensors());
}

TEST(RecentPlans, EveryProblemGetsItsOwnPlan) {
  // More problems than are remembered, and again: each plan must take its own tensors.
  for (int round = 0; round < 3; ++round) {
    for (int64_t s_k = 1; s_k <= 12; ++s_k) {
      test::Case c = test::ref64({.s_q = 4, .s_k = s_k, .d = 8}, DType::kFloat32);
      const auto plan = recent_plan(problem_of(s_k), Device::cpu());
      ASSERT_TRUE(plan.ok());
      c.out = test::HostTensor(DType::kFloat32, {1, 4, 1, 8});
      AttentionTensors t = c.tensors();
      t.lse = {};
      std::vector<std::byte> memory(plan->workspace_bytes() + 64);
      void* data = memory.data();
      size_t space = memory.size();
      data = std::align(64, plan->workspace_bytes(), data, space);
      const Status status = plan->run(t, {data, plan->workspace_bytes()});
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
}

TEST(RecentPlans, OptionsCount) {
  // A problem that differs from a remembered one in an option alone is another problem.
  AttentionProblem invalid = problem_of(4);
  EXPECT_TRUE(recent_plan(invalid, Device::cpu()).ok());
  invalid.options.window.left = -5;
  EXPECT_FALSE(recent_plan(invalid, Device::cpu()).ok());
  invalid.options.window.left = 5;
  EXPECT_TRUE(recent_plan(invalid, Device::cpu()).ok());
  invalid.options.softcap = -1;
  EXPECT_FALSE(recent_plan(invalid, Device::cpu()).ok());
}

TEST(RecentPlans, FailuresAreNotRemembered) {
  AttentionProblem bad = problem_of(4);
  bad.q.dims[3] = 7;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(recent_plan(bad, Device::cpu()).ok());
}

}  // namespace
}  // namespace fa4::core
