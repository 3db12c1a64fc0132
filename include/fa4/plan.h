// SPDX-License-Identifier: BSD-3-Clause
// Plans: resolve a problem once, run it many times.
#pragma once

#include <fa4/attention.h>

#include <cstddef>
#include <memory>
#include <string>

namespace fa4 {

enum class Pass : int { kForward = 0, kBackward = 1 };

/// A tensor's dtype and dims, without data or strides. Rank 0 = absent.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  int rank = 0;
  std::array<int64_t, Tensor::kMaxRank> dims{};

  bool present() const { return rank != 0; }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};
TensorSpec spec_of(const Tensor& tensor);

/// Everything about a call that is known before its data: shapes, dtypes, which optional tensors
/// there are, and the options. Lengths that live in tensors (cu_seqlens, seqused, start) are not
/// part of it: they may change from run to run.
struct AttentionProblem {
  Pass pass = Pass::kForward;
  AttentionOptions options;
  TensorSpec q, k, v;
  TensorSpec bias, mask, alibi_slopes, sink;
  TensorSpec cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, start_q, start_k;
  bool has_dlse = false;  ///< Backward only, like the two below.
  bool has_dbias = false;
  bool has_dsink = false;

  /// The problem that `tensors` pose. Their data pointers and strides are not looked at.
  static AttentionProblem forward(const AttentionTensors& tensors,
                                  const AttentionOptions& options = {});
  static AttentionProblem backward(const AttentionTensors& tensors,
                                   const AttentionGradients& gradients,
                                   const AttentionOptions& options = {});
};

/// The answer of supports(): yes, or no with a sentence that says what is missing.
struct Support {
  bool supported = false;
  std::string reason;  ///< Empty if supported.
  explicit operator bool() const { return supported; }
};

/// Whether `device` can do `problem`. A problem that is malformed anywhere is "no" too.
Support supports(const AttentionProblem& problem, Device device = {});

/// Memory for a run, on the plan's device, aligned to 64 bytes.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

/// A problem resolved for a device: kernel, tiles, workspace. Immutable, cheap to copy, safe to use
/// from many threads; concurrent runs each bring their own workspace.
class Plan {
 public:
  /// Errors: kInvalidArgument (a malformed problem), kUnsupported (as supports() says),
  /// kOutOfMemory (sizes that do not fit 64 bits).
  static Result<Plan> make(const AttentionProblem& problem, Device device = {});

  /// Bytes that each run needs.
  size_t workspace_bytes() const;

  /// Runs a forward plan. Allocates nothing. The tensors must have the plan's specs; strides and
  /// pointers are free. Errors: kInvalidArgument, kRuntimeError.
  Status run(const AttentionTensors& tensors, Workspace workspace, Stream stream = {}) const;
  /// Runs a backward plan.
  Status run(const AttentionTensors& tensors, const AttentionGradients& gradients,
             Workspace workspace, Stream stream = {}) const;

  /// What will run and why, a few lines of text for people.
  std::string describe() const;

  class Impl;

 private:
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace fa4
