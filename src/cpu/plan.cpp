// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/plan.h"

#include <algorithm>

#include "cpu/backward.h"
#include "cpu/forward.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fa4::cpu {
namespace {

/// A workspace has room for each thread, so that a count that no machine has must not size it.
constexpr int kMostThreads = 1024;

class CpuPlan final : public Plan::Impl {
 public:
  CpuPlan(core::Problem problem, const Target& target, int threads, size_t bytes)
      : Impl(std::move(problem), Device::cpu()),
        target_(target),
        threads_(threads),
        workspace_bytes_(bytes) {}

  size_t workspace_bytes() const override { return workspace_bytes_; }

  Status forward(const AttentionTensors& tensors, void* workspace, Stream) const override {
    Status status = core::validate_lengths(problem(), tensors);
    if (status.ok()) run_forward(problem(), tensors, target_, workspace, threads_);
    return status;
  }

  Status backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                  void* workspace, Stream) const override {
    Status status = core::validate_lengths(problem(), tensors);
    if (status.ok()) run_backward(problem(), tensors, gradients, target_, workspace, threads_);
    return status;
  }

  std::string describe() const override {
    const bool is_forward = problem().spec.pass == Pass::kForward;
    return std::string(is_forward ? "CPU forward, " : "CPU backward, ") + target_.name + ", " +
           std::to_string(threads_) + (threads_ == 1 ? " thread\n" : " threads\n") +
           (is_forward ? describe_forward(problem(), target_, threads_)
                       : describe_backward(problem(), target_, threads_)) +
           "workspace: " + std::to_string(workspace_bytes_) + " bytes\n";
  }

 private:
  const Target& target_;
  int threads_;
  size_t workspace_bytes_;
};

}  // namespace

Support supports(const core::Problem&) { return {true, {}}; }

Result<std::shared_ptr<const Plan::Impl>> make_plan(const core::Problem& problem) {
  const Result<const Target*> target = choose_target();
  if (!target.ok()) return target.status();
  const int wanted = problem.spec.options.threads;
  const int threads = std::min(wanted > 0 ? wanted : available_threads(), kMostThreads);
  const auto bytes = problem.spec.pass == Pass::kForward
                         ? forward_workspace_bytes(problem, **target, threads)
                         : backward_workspace_bytes(problem, **target, threads);
  if (!bytes) {
    return Status(StatusCode::kOutOfMemory, "workspace: has more bytes than 64 bits can count");
  }
  return std::shared_ptr<const Plan::Impl>(
      std::make_shared<CpuPlan>(problem, **target, threads, *bytes));
}

}  // namespace fa4::cpu
