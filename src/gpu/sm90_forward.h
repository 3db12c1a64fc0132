// SPDX-License-Identifier: BSD-3-Clause
// Host twin of device/sm90/forward.cuh: from a problem and its tensors to launches.
#pragma once

#include <fa4/attention.h>

#include <memory>
#include <string>

#include "core/problem.h"
#include "gpu/runtime.h"
#include "gpu/sm90_forward_config.h"

namespace fa4::gpu::sm90 {

/// A forward that is ready to run on one device.
class Forward {
 public:
  static Result<Forward> make(const Runtime& runtime, const core::Problem& problem);
  /// With another configuration than choose_forward()'s, such as a variant of it.
  static Result<Forward> make(const Runtime& runtime, const core::Problem& problem,
                              const ForwardConfig& config);

  size_t workspace_bytes() const { return workspace_bytes_; }
  Status run(const core::Problem& problem, const AttentionTensors& tensors, void* workspace,
             Stream stream) const;
  std::string describe() const;

 private:
  explicit Forward(const Runtime& runtime) : runtime_(&runtime) {}

  const Runtime* runtime_;
  ForwardConfig config_;
  std::shared_ptr<const Kernel> kernel_;
  std::shared_ptr<const Kernel> lengths_;  ///< Lists the tiles; varlen only.
  size_t workspace_bytes_ = 0;
};

}  // namespace fa4::gpu::sm90
