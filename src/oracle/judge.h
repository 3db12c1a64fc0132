// SPDX-License-Identifier: BSD-3-Clause
// The rule that says when a result is right. Tests, fuzzer and program judge by it.
//
// NaNs and infinities first: they must stand where the reference has them. Then, slice by slice
// (sequence, head), so that a large head hides no small one:
//
//   max |x - reference|  <=  2 * max |plain same-dtype - reference|          3 * with softcap
//                            + 1e-5 * max |reference| + 5e-7 * max terms     float64: 1e-10, 1e-13
//
// where an element's terms are what it is the sum of, in absolute value (Precision::kMagnitude):
// gradients may cancel to nothing, and their rounding errors don't. 5e-7 is 8 roundings of float32.
// The largest error of a few rows is a matter of luck, so that two implementations that are equally
// good differ by more than 2: with fewer than 64 rows 3 times the plain error is allowed, and never
// less than two roundings of the largest number, P's and the result's (plain may have been lucky
// with the one, and its P is 1 for a row's largest score); with fewer than 16 a rounding of the
// dtype on top. An element all of whose terms are 0 must be exactly 0.
#pragma once

#include <fa4/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa4::oracle {

/// What the rule needs to know of a result.
struct Kind {
  DType dtype = DType::kFloat32;
  DType input_dtype = DType::kFloat32;  ///< That of q, k, v.
  bool softcap = false;
  int64_t rows = 0;  ///< The fewest rows that a slice sums over or is made of.
};

/// The largest of each over a slice.
struct Extent {
  double plain_error = 0;  ///< |plain same-dtype - reference|
  double largest = 0;      ///< |reference|
  double magnitude = 0;    ///< Sum of an element's terms in absolute value.
};

/// The error that the rule allows in a slice.
double allowed_error(const Kind& kind, const Extent& extent);

/// One tensor and all that it is held against; elements in row-major order.
struct Comparison {
  std::string name;  ///< "dq"
  Kind kind;
  std::vector<int64_t> dims;
  std::vector<double> actual, expected, plain, magnitude;
  std::vector<int> slice_of;  ///< An element's slice; -1: none, must equal `expected` exactly.
};

struct Verdict {
  std::string fault;  ///< Empty if right, else which element, what it is, should be and may be.
  double error = 0;   ///< Largest error of the slice that is worst beside what it is allowed.
  double plain_error = 0;  ///< That of the plain implementation in the same slice.
  double allowed = 0;      ///< What the rule allows there.

  bool right() const { return fault.empty(); }
};

Verdict judge(const Comparison& comparison);

}  // namespace fa4::oracle
