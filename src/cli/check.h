// SPDX-License-Identifier: BSD-3-Clause
// Judges results of attention against the float64 oracle.
//
// oracle/judge.h has the rule. The oracle is dense: O(s_q * s_k) time.
#pragma once

#include <fa4/attention.h>

#include <string>
#include <vector>

#include "oracle/oracle.h"

namespace fa4::cli {

/// What became of one tensor.
struct Check {
  std::string name;        ///< "out", "lse", "dq", ...
  double error = 0;        ///< Largest error of the slice that is worst beside what it is allowed.
  double plain_error = 0;  ///< That of the plain implementation in the same slice.
  double allowed = 0;      ///< What the rule allows there.
  bool passed = true;
  std::string fault;  ///< If not passed: which element and why.
};

/// What results are held against. It depends on a call's inputs alone.
struct ForwardReference {
  oracle::Forward exact, plain, magnitude;
};
struct BackwardReference {
  oracle::Backward exact, plain, magnitude;
};
/// The tensors must be legal and on the CPU.
ForwardReference forward_reference(const AttentionTensors& tensors,
                                   const AttentionOptions& options);
BackwardReference backward_reference(const AttentionTensors& tensors,
                                     const AttentionGradients& gradients,
                                     const AttentionOptions& options);

/// out, and lse if it is there.
std::vector<Check> check_forward(const AttentionTensors& tensors, const AttentionOptions& options,
                                 const ForwardReference& reference);
std::vector<Check> check_forward(const AttentionTensors& tensors, const AttentionOptions& options);
/// dq, dk, dv and, if they are there, dbias and dsink.
std::vector<Check> check_backward(const AttentionTensors& tensors,
                                  const AttentionGradients& gradients,
                                  const AttentionOptions& options,
                                  const BackwardReference& reference);
std::vector<Check> check_backward(const AttentionTensors& tensors,
                                  const AttentionGradients& gradients,
                                  const AttentionOptions& options);

bool all_passed(const std::vector<Check>& checks);

}  // namespace fa4::cli
