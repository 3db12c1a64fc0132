// SPDX-License-Identifier: BSD-3-Clause
// Plan: validation first, then the device's backend.
#include <fa4/plan.h>

#include <cstdint>

#include "core/plan_impl.h"
#include "cpu/plan.h"
#include "gpu/plan.h"

namespace fa4 {
namespace {

const char* name_of(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

Status check_pass(const core::Problem& problem, Pass pass) {
  if (problem.spec.pass == pass) return {};
  return invalid_argument(std::string("plan: was made for the ") + name_of(problem.spec.pass) +
                          ", run as " + name_of(pass) + "; allowed: the pass it was made for");
}

Status check_workspace(Workspace workspace, size_t needed) {
  if (workspace.bytes < needed || (workspace.data == nullptr && needed > 0)) {
    return invalid_argument("workspace: has " +
                            std::to_string(workspace.data == nullptr ? 0 : workspace.bytes) +
                            " bytes; allowed: at least " + std::to_string(needed));
  }
  if (reinterpret_cast<uintptr_t>(workspace.data) % 64 != 0) {
    return invalid_argument("workspace: is not aligned; allowed: a multiple of 64 bytes");
  }
  return {};
}

Status moved_from() {
  return invalid_argument("plan: was moved from; allowed: one that Plan::make() returned");
}

/// Which backend a device's problems go to; none for devices that can't be.
Status check_device(Device device) {
  if (device == Device::cpu() || core::runs_kernels(device)) return {};
  return invalid_argument("device: is " + to_string(device) + "; allowed: cpu:0, cuda, emulator");
}

}  // namespace

TensorSpec spec_of(const Tensor& tensor) { return {tensor.dtype, tensor.rank, tensor.dims}; }

AttentionProblem AttentionProblem::forward(const AttentionTensors& t,
                                           const AttentionOptions& options) {
  AttentionProblem p;
  p.options = options;
  p.q = spec_of(t.q);
  p.k = spec_of(t.k);
  p.v = spec_of(t.v);
  p.bias = spec_of(t.bias);
  p.mask = spec_of(t.mask);
  p.alibi_slopes = spec_of(t.alibi_slopes);
  p.sink = spec_of(t.sink);
  p.cu_seqlens_q = spec_of(t.cu_seqlens_q);
  p.cu_seqlens_k = spec_of(t.cu_seqlens_k);
  p.seqused_q = spec_of(t.seqused_q);
  p.seqused_k = spec_of(t.seqused_k);
  p.start_q = spec_of(t.start_q);
  p.start_k = spec_of(t.start_k);
  return p;
}

AttentionProblem AttentionProblem::backward(const AttentionTensors& t, const AttentionGradients& g,
                                            const AttentionOptions& options) {
  AttentionProblem p = forward(t, options);
  p.pass = Pass::kBackward;
  p.has_dlse = g.dlse.present();
  p.has_dbias = g.dbias.present();
  p.has_dsink = g.dsink.present();
  return p;
}

Support supports(const AttentionProblem& problem, Device device) {
  const Result<core::Problem> valid = core::validate(problem);
  if (!valid.ok()) return {false, valid.status().message()};
  const Status status = check_device(device);
  if (!status.ok()) return {false, status.message()};
  return core::runs_kernels(device) ? gpu::supports(*valid, device) : cpu::supports(*valid);
}

Result<Plan> Plan::make(const AttentionProblem& problem, Device device) {
  const Result<core::Problem> valid = core::validate(problem);
  if (!valid.ok()) return valid.status();
  const Support support = supports(problem, device);
  if (!support) return unsupported(support.reason);
  auto impl = core::runs_kernels(device) ? gpu::make_plan(*valid, device) : cpu::make_plan(*valid);
  if (!impl.ok()) return impl.status();
  return Plan(*std::move(impl));
}

size_t Plan::workspace_bytes() const { return impl_ == nullptr ? 0 : impl_->workspace_bytes(); }
std::string Plan::describe() const {
  return impl_ == nullptr ? "no plan: it was moved from\n" : impl_->describe();
}

Status Plan::run(const AttentionTensors& tensors, Workspace workspace, Stream stream) const {
  if (impl_ == nullptr) return moved_from();
  const core::Problem& problem = impl_->problem();
  Status status = check_pass(problem, Pass::kForward);
  if (status.ok()) status = core::validate_run(problem, tensors, impl_->device());
  if (status.ok()) status = check_workspace(workspace, impl_->workspace_bytes());
  return status.ok() ? impl_->forward(tensors, workspace.data, stream) : status;
}

Status Plan::run(const AttentionTensors& tensors, const AttentionGradients& gradients,
                 Workspace workspace, Stream stream) const {
  if (impl_ == nullptr) return moved_from();
  const core::Problem& problem = impl_->problem();
  Status status = check_pass(problem, Pass::kBackward);
  if (status.ok()) status = core::validate_run(problem, tensors, gradients, impl_->device());
  if (status.ok()) status = check_workspace(workspace, impl_->workspace_bytes());
  return status.ok() ? impl_->backward(tensors, gradients, workspace.data, stream) : status;
}

}  // namespace fa4
