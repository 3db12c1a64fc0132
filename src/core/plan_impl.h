// SPDX-License-Identifier: BSD-3-Clause
// What a backend implements: a resolved problem that can run.
#pragma once

#include <fa4/plan.h>

#include "core/problem.h"

namespace fa4 {

/// A backend's plan. run() gets tensors that validate_run() accepted and a workspace that is large
/// enough; it allocates nothing.
class Plan::Impl {
 public:
  Impl(core::Problem problem, Device device) : problem_(std::move(problem)), device_(device) {}
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  virtual size_t workspace_bytes() const = 0;
  virtual Status forward(const AttentionTensors& tensors, void* workspace, Stream stream) const = 0;
  virtual Status backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                          void* workspace, Stream stream) const = 0;
  virtual std::string describe() const = 0;

  const core::Problem& problem() const { return problem_; }
  Device device() const { return device_; }

 private:
  core::Problem problem_;
  Device device_;
};

}  // namespace fa4
