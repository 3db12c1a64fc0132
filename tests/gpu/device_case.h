// SPDX-License-Identifier: BSD-3-Clause
// A test case whose tensors are on a GPU, and what tests need of the driver beyond a Runtime.
#pragma once

#include <fa4/plan.h>

#include <functional>
#include <memory>
#include <vector>

#include "gpu/runtime.h"
#include "support/case.h"

namespace fa4::gpu {

/// Copies of a case's tensors, a plan and a workspace. The case must outlive it.
class DeviceCase {
 public:
  DeviceCase(const Runtime& runtime, int device, test::Case& c);
  ~DeviceCase();
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  const AttentionTensors& tensors() const { return tensors_; }
  Status run(Stream stream) const { return plan_->run(tensors_, workspace_, stream); }
  /// The case's inputs, which may have changed, to where they were.
  void upload_again();
  void poison_outputs();
  void download();

 private:
  struct Copy {
    test::HostTensor* host;
    void* device;
    bool output;
  };
  Tensor place(test::HostTensor& host, bool output);

  const Runtime& runtime_;
  int device_;
  test::Case& case_;
  std::vector<Copy> copies_;
  AttentionTensors tensors_;
  std::unique_ptr<Plan> plan_;
  Workspace workspace_;
};

/// Makes a device's primary context current, as a user of the CUDA runtime has it.
class CurrentContext {
 public:
  explicit CurrentContext(int device);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  bool is_still_current() const;

 private:
  void* context_ = nullptr;
};

/// What `work` puts on the stream, captured.
class CudaGraph {
 public:
  CudaGraph(Stream stream, const std::function<void()>& work);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch();

 private:
  Stream stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace fa4::gpu
