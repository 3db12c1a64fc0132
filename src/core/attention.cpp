// SPDX-License-Identifier: BSD-3-Clause
// The one-liners: plan, borrow a workspace, run.
#include <fa4/attention.h>
#include <fa4/plan.h>

#include "core/problem.h"
#include "core/recent_plans.h"
#include "core/workspace_pool.h"
#include "gpu/workspace.h"

namespace fa4 {
namespace {

/// Makes the plan of `problem`, borrows its workspace and calls `run(plan, workspace)`.
template <class Run>
Status plan_and_run(const AttentionProblem& problem, Device device, Stream stream, const Run& run) {
  const bool on_gpu = core::runs_kernels(device);
  const Result<Plan> plan =
      on_gpu ? core::recent_plan(problem, device) : Plan::make(problem, device);
  if (!plan.ok()) return plan.status();
  const size_t bytes = plan->workspace_bytes();
  if (on_gpu) {
    const auto block = gpu::StreamWorkspace::acquire(device, stream, bytes);
    return block.ok() ? run(*plan, block->workspace()) : block.status();
  }
  core::WorkspacePool& pool = core::WorkspacePool::host();
  core::WorkspacePool::Block block = pool.acquire(bytes);
  if (block.data == nullptr) {
    return {StatusCode::kOutOfMemory,
            "workspace: " + std::to_string(bytes) + " bytes could not be allocated"};
  }
  Status status = run(*plan, Workspace{block.data.get(), block.bytes});
  pool.release(std::move(block));
  return status;
}

}  // namespace

Status attention(const AttentionTensors& tensors, const AttentionOptions& options, Stream stream) {
  return plan_and_run(
      AttentionProblem::forward(tensors, options), tensors.q.device, stream,
      [&](const Plan& plan, Workspace workspace) { return plan.run(tensors, workspace, stream); });
}

Status attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                 const Tensor& lse, const AttentionOptions& options, Stream stream) {
  AttentionTensors tensors;
  tensors.q = q;
  tensors.k = k;
  tensors.v = v;
  tensors.out = out;
  tensors.lse = lse;
  return attention(tensors, options, stream);
}

Status attention_backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                          const AttentionOptions& options, Stream stream) {
  return plan_and_run(AttentionProblem::backward(tensors, gradients, options), tensors.q.device,
                      stream, [&](const Plan& plan, Workspace workspace) {
                        return plan.run(tensors, gradients, workspace, stream);
                      });
}

}  // namespace fa4
