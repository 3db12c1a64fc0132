// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/plan.h"

#include "gpu/checked.h"
#include "gpu/runtime.h"
#include "gpu/sm90_forward.h"

namespace fa4::gpu {
namespace {

class GpuPlan final : public Plan::Impl {
 public:
  GpuPlan(core::Problem problem, Device device, const Runtime& runtime, sm90::Forward forward)
      : Impl(std::move(problem), device), runtime_(runtime), forward_(std::move(forward)) {}

  size_t workspace_bytes() const override { return forward_.workspace_bytes(); }
  Status forward(const AttentionTensors& tensors, void* workspace, Stream stream) const override {
    if (checked_) {
      Status status = check_lengths(runtime_, problem(), tensors, stream);
      if (!status.ok()) return status;
    }
    return forward_.run(problem(), tensors, workspace, stream);
  }
  Status backward(const AttentionTensors&, const AttentionGradients&, void*,
                  Stream) const override {
    return unsupported("device: is " + to_string(device()) + "; the GPU backend has no backward");
  }
  std::string describe() const override {
    return "GPU forward, " + runtime_.properties().name + "\n" + forward_.describe() +
           "workspace: " + std::to_string(workspace_bytes()) + " bytes\n";
  }

 private:
  const Runtime& runtime_;
  sm90::Forward forward_;
  bool checked_ = checked_mode();
};

/// The runtime of a device that the kernels can run on.
Result<const Runtime*> capable_runtime(Device device) {
  const auto runtime = runtime_of(device);
  if (!runtime.ok()) return runtime.status();
  const Properties& p = (*runtime)->properties();
  if (p.major != 9 || p.minor != 0) {
    return unsupported("device: is " + to_string(device) + ", " + p.name +
                       " of compute capability " + std::to_string(p.major) + "." +
                       std::to_string(p.minor) + "; supported: 9.0 (H100, H200, GH200)");
  }
  return runtime;
}

}  // namespace

Support supports(const core::Problem& problem, Device device) {
  const auto runtime = capable_runtime(device);
  if (!runtime.ok()) return {false, runtime.status().message()};
  const std::string missing = sm90::unsupported_forward(problem);
  if (!missing.empty()) {
    return {false, "device: is " + to_string(device) + "; supported: cpu (the GPU backend has no " +
                       missing + ")"};
  }
  const auto compiler = jit::nvrtc_version();
  if (!compiler.ok()) return {false, compiler.status().message()};
  return {true, {}};
}

Result<std::shared_ptr<const Plan::Impl>> make_plan(const core::Problem& problem, Device device) {
  const auto runtime = capable_runtime(device);
  if (!runtime.ok()) return runtime.status();
  auto forward = sm90::Forward::make(**runtime, problem);
  if (!forward.ok()) return forward.status();
  return std::shared_ptr<const Plan::Impl>(
      std::make_shared<GpuPlan>(problem, device, **runtime, *std::move(forward)));
}

}  // namespace fa4::gpu
