// SPDX-License-Identifier: BSD-3-Clause
// A kernel with other tiles than a plan would choose, for tuning.
#pragma once

#include <string_view>

#include "core/problem.h"
#include "gpu/sm90_forward.h"

namespace fa4::gpu {

class Variant {
 public:
  /// `changes` as sm90::vary() takes them. Refuses what a plan would refuse, and tiles that do not
  /// compile.
  static Result<Variant> make(const Runtime& runtime, const AttentionProblem& problem,
                              std::string_view changes);
  /// What stands in the way of `changes` whatever the problem.
  static Status check(std::string_view changes);

  size_t workspace_bytes() const { return forward_.workspace_bytes(); }
  Status run(const AttentionTensors& tensors, void* workspace, Stream stream) const {
    return forward_.run(problem_, tensors, workspace, stream);
  }

 private:
  Variant(core::Problem problem, sm90::Forward forward)
      : problem_(std::move(problem)), forward_(std::move(forward)) {}

  core::Problem problem_;
  sm90::Forward forward_;
};

}  // namespace fa4::gpu
