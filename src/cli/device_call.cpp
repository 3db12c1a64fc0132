// SPDX-License-Identifier: BSD-3-Clause
#include "cli/device_call.h"

#include <vector>

namespace fa4::cli {
namespace {

/// Device memory, released at the end.
class Memory {
 public:
  explicit Memory(const gpu::Runtime& runtime) : runtime_(runtime) {}
  ~Memory() {
    for (void* data : blocks_) (void)runtime_.release(data);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// `host`'s bytes on the device. Throws Error.
  Tensor copy(const Array& host, Device device) {
    Tensor tensor = host.view();
    tensor.device = device;
    if (!host.present() || host.bytes() == 0) return tensor;
    tensor.data = runtime_.allocate(host.bytes()).value();
    blocks_.push_back(tensor.data);
    runtime_.copy_in(tensor.data, host.data(), host.bytes()).check();
    return tensor;
  }

 private:
  const gpu::Runtime& runtime_;
  std::vector<void*> blocks_;
};

}  // namespace

Status call_on(
    Device device, const AttendArrays& arrays,
    const std::function<Status(const AttentionTensors&, const AttentionGradients&)>& call) {
  if (device == Device::cpu()) return call(arrays.tensors(device), arrays.gradients(device));
  const auto runtime = gpu::runtime_of(device);
  if (!runtime.ok()) return runtime.status();
  Memory memory(**runtime);
  AttentionTensors tensors;
  AttentionGradients gradients;
  for (const NamedTensor& named : named_tensors()) {
    const Tensor copy = memory.copy(arrays.*named.array, device);
    if (named.tensor != nullptr) tensors.*named.tensor = copy;
    if (named.gradient != nullptr) gradients.*named.gradient = copy;
  }
  Status status = call(tensors, gradients);
  if (status.ok()) status = (*runtime)->synchronize({});
  for (const NamedTensor& named : named_tensors()) {
    const Array& host = arrays.*named.array;
    if (!status.ok() || !named.written || !host.present() || host.bytes() == 0) continue;
    const Tensor& copy =
        named.tensor != nullptr ? tensors.*named.tensor : gradients.*named.gradient;
    status = (*runtime)->copy_out(host.view().data, copy.data, host.bytes());
  }
  return status;
}

PlanWorkspace::PlanWorkspace(const Plan& plan, Device device) {
  workspace_.bytes = plan.workspace_bytes();
  if (device == Device::cpu()) {
    // An Array is aligned as Plan wants it.
    host_ = Array(DType::kBool, {static_cast<int64_t>(workspace_.bytes)});
    workspace_.data = host_.data();
    return;
  }
  runtime_ = gpu::runtime_of(device).value();
  if (workspace_.bytes > 0) workspace_.data = runtime_->allocate(workspace_.bytes).value();
}

PlanWorkspace::~PlanWorkspace() {
  if (runtime_ != nullptr && workspace_.data != nullptr) (void)runtime_->release(workspace_.data);
}

Status PlanWorkspace::wait() const {
  return runtime_ == nullptr ? Status() : runtime_->synchronize({});
}

}  // namespace fa4::cli
