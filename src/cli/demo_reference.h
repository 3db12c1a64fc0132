// SPDX-License-Identifier: BSD-3-Clause
// What the demo's results are held against, and the rule by which they are right.
#pragma once

#include <fa4/types.h>

#include <cstdint>
#include <vector>

#include "cli/demo_fixture.h"

namespace fa4::cli {

/// One result, packed, heads behind tokens.
struct DemoReference {
  std::vector<double> exact;      ///< By the float64 oracle, from inputs as rounded to the dtype.
  std::vector<double> plain;      ///< By a plain dense implementation in the dtype.
  std::vector<double> magnitude;  ///< Sums of the terms' absolute values, which errors grow with.
};
struct DemoReferences {
  DemoReference out, lse, dq, dk, dv;
  std::vector<double> torch_out, torch_lse;  ///< By torch in float32 from unrounded inputs.
};

/// [total, heads, head_dim], normal, of few enough bits to be exact in every dtype of the demo.
std::vector<float> make_demo_dout(const DemoFixture& fixture, uint64_t seed);

/// References of one layer, one for each of `dtypes`.
std::vector<DemoReferences> make_demo_references(const DemoFixture& fixture, int64_t layer,
                                                 const std::vector<DType>& dtypes,
                                                 const std::vector<float>& dout);

/// A result against a reference, slice by slice (text, head), by the rule of oracle/judge.h.
struct DemoError {
  double error = 0;     ///< Largest |x - reference|.
  double plain = 0;     ///< Largest |plain - reference|.
  double of_bound = 0;  ///< Largest error / bound over the slices: right if <= 1.

  void include(const DemoError& other);
};

/// Compares x [total, heads, n] with `right`, slice by slice; `reference` gives the bound.
DemoError compare_demo(const DemoFixture& fixture, DType dtype, const std::vector<double>& x,
                       const std::vector<double>& right, const DemoReference& reference);

}  // namespace fa4::cli
