// SPDX-License-Identifier: BSD-3-Clause
// The rule that says when a result is right.
//
// NaNs and infinities first: they must stand where the reference has them. Then, slice by slice
// (sequence, head), so that a large head hides no small one:
//
//   max |x - reference|  <=  2 * max |plain same-dtype - reference|          3 * with softcap
//                            + 1e-5 * max |reference| + 5e-7 * max terms     float64: 1e-10, 1e-13
//
// where an element's terms are what it is the sum of, in absolute value
// (oracle::Precision::kMagnitude): gradients may cancel to nothing, and their rounding errors
// don't. 5e-7 is 8 roundings of float32. The largest error of a few rows is a matter of luck, so
// that two implementations that are equally good differ by more than 2: with fewer than 64 rows 3
// times the plain error is allowed, with fewer than 16 a rounding of the dtype as well. An element
// all of whose terms are 0 must be exactly 0.
#pragma once

#include <fa4/types.h>

#include <string>
#include <vector>

#include "support/host_tensor.h"

namespace fa4::test {

struct Comparison {
  std::string name;  ///< "dq"
  DType dtype = DType::kFloat32;
  DType input_dtype = DType::kFloat32;  ///< That of q, k, v.
  bool softcap = false;
  Dims dims;
  std::vector<double> actual, expected, plain, magnitude;
  std::vector<int> slice_of;  ///< An element's slice; -1: none, must equal `expected` exactly.
  int64_t rows = 0;           ///< The fewest rows that a slice sums over or is made of.
};

/// Empty if right, else which element is wrong, what it is, what it should be and what is allowed.
std::string compare(const Comparison& comparison);

}  // namespace fa4::test
