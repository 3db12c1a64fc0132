// SPDX-License-Identifier: BSD-3-Clause
// Dense attention in float64, forward and backward: what every backend is tested against.
//
// Written straight from the contract in fa4/attention.h. It shares no code with the backends or
// with core (not even conversions or the dropout generator), so that a mistake there can't hide
// here. O(s_q * s_k) time, one row of scores at a time; it checks nothing: give it legal problems.
#pragma once

#include <fa4/attention.h>

#include <vector>

#include "oracle/numbers.h"

namespace fa4::oracle {

enum class Precision {
  kExact,      ///< float64 throughout: the reference.
  kSameDtype,  ///< What a plain dense implementation in the inputs' dtype gives: scores,
               ///< probabilities, out and the gradients' intermediates are rounded to the dtype,
               ///< sums are kept in float32; a backward starts from out and lse as they were
               ///< stored. Its error is the scale that errors are judged by.
  kMagnitude,  ///< Each result's terms summed in absolute value: what rounding errors are
               ///< proportional to where the terms cancel. Not a result.
};

/// Contiguous, in the dims of tensors.out and tensors.lse.
struct Forward {
  std::vector<double> out, lse;
};
/// Contiguous, in the dims of their inputs; dbias and dsink are empty without bias and sink.
struct Backward {
  std::vector<double> dq, dk, dv, dbias, dsink;
};

/// Neither reads out and lse of `tensors`; backward() reads dout and dlse of `gradients`.
Forward forward(const AttentionTensors& tensors, const AttentionOptions& options,
                Precision precision = Precision::kExact);
Backward backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                  const AttentionOptions& options, Precision precision = Precision::kExact);

}  // namespace fa4::oracle
