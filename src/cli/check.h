// SPDX-License-Identifier: BSD-3-Clause
// Judges results of attention against the float64 oracle.
//
// A result is right when NaNs and infinities stand where the reference has them, and in each slice
// (sequence, head)
//
//   max |x - reference|  <=  2 * max |plain same-dtype - reference|  +  1e-5 * scale
//
// (3 * with softcap; 1e-10 for float64). `plain` is dense attention in the inputs' dtype; `scale`
// is the largest sum of the slice's terms in absolute value. A slice of few rows is allowed the
// dtype's rounding of `scale` as well: there the plain result may be right by luck. An element to
// which nothing adds must be exact. The oracle is dense: O(s_q * s_k) time.
#pragma once

#include <fa4/attention.h>

#include <string>
#include <vector>

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

/// out, and lse if it is there. The tensors hold the results and must be legal and on the CPU.
std::vector<Check> check_forward(const AttentionTensors& tensors, const AttentionOptions& options);
/// dq, dk, dv and, if they are there, dbias and dsink.
std::vector<Check> check_backward(const AttentionTensors& tensors,
                                  const AttentionGradients& gradients,
                                  const AttentionOptions& options);

bool all_passed(const std::vector<Check>& checks);

}  // namespace fa4::cli
