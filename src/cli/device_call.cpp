// SPDX-License-Identifier: BSD-3-Clause
#include "cli/device_call.h"

#include <deque>

namespace fa4::cli {
namespace {

/// `host`'s bytes on the device; what is allocated goes into `memory`. Throws Error.
Tensor copy_of(const Array& host, Device device, const gpu::Runtime& runtime,
               std::deque<DeviceBuffer>& memory) {
  Tensor tensor = host.view();
  tensor.device = device;
  if (!host.present() || host.bytes() == 0) return tensor;
  tensor.data = memory.emplace_back(runtime, host.bytes()).data();
  runtime.copy_in(tensor.data, host.data(), host.bytes()).check();
  return tensor;
}

}  // namespace

Status call_on(
    Device device, const AttendArrays& arrays,
    const std::function<Status(const AttentionTensors&, const AttentionGradients&)>& call) {
  if (device == Device::cpu()) return call(arrays.tensors(device), arrays.gradients(device));
  const auto runtime = gpu::runtime_of(device);
  if (!runtime.ok()) return runtime.status();
  std::deque<DeviceBuffer> memory;
  AttentionTensors tensors;
  AttentionGradients gradients;
  for (const NamedTensor& named : named_tensors()) {
    const Tensor copy = copy_of(arrays.*named.array, device, **runtime, memory);
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
  if (workspace_.bytes == 0) return;
  device_.emplace(*runtime_, workspace_.bytes);
  workspace_.data = device_->data();
}

Status PlanWorkspace::wait() const {
  return runtime_ == nullptr ? Status() : runtime_->synchronize({});
}

}  // namespace fa4::cli
