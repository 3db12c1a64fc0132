// SPDX-License-Identifier: BSD-3-Clause
// A call on tensors that live in host memory, run on a GPU: copies there and back.
#pragma once

#include <fa4/plan.h>

#include <functional>
#include <optional>

#include "cli/attend_tensors.h"
#include "cli/device_memory.h"

namespace fa4::cli {

/// Copies every array to `device`, runs `call` on the copies, and copies back what calls write. On
/// the CPU it just runs `call`.
Status call_on(
    Device device, const AttendArrays& arrays,
    const std::function<Status(const AttentionTensors&, const AttentionGradients&)>& call);

/// A plan's workspace, on its device.
class PlanWorkspace {
 public:
  /// Throws Error.
  PlanWorkspace(const Plan& plan, Device device);
  Workspace get() const { return workspace_; }
  /// Waits for what runs with it on the default stream; on the CPU nothing does.
  Status wait() const;

 private:
  const gpu::Runtime* runtime_ = nullptr;  ///< Null on the CPU.
  Array host_;
  std::optional<DeviceBuffer> device_;
  Workspace workspace_;
};

}  // namespace fa4::cli
