// SPDX-License-Identifier: BSD-3-Clause
// One layer of the demo: its attention in one dtype through fa4, in three layouts, each measured
// against torch, the float64 oracle and a plain implementation in the same dtype.
#pragma once

#include <fa4/attention.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/demo_batch.h"
#include "cli/demo_fixture.h"
#include "cli/demo_reference.h"

namespace fa4::cli {

struct DemoForward {
  DemoError torch;        ///< out against torch's, float32 on unrounded inputs.
  DemoError exact;        ///< out against the oracle on the inputs as rounded to the dtype.
  DemoError lse;          ///< lse against both.
  double difference = 0;  ///< Largest difference between two layouts' out.
  std::array<double, kDemoLayouts.size()> seconds{};  ///< By layout; the best of several runs.
  bool padding_clean = true;                          ///< Rows of padding have out 0, lse -inf.
  size_t workspace_bytes = 0;                         ///< The largest of the layouts'.

  double worst_of_bound() const;
};

struct DemoBackward {
  DemoError dq, dk, dv;  ///< Against the oracle.
  double difference = 0;
  std::array<double, kDemoLayouts.size()> seconds{};
  bool padding_clean = true;  ///< Gradients of padding are exactly 0.
  size_t workspace_bytes = 0;

  double worst_of_bound() const;
};

struct DemoLayer {
  int64_t layer = 0;
  DType dtype = DType::kFloat32;
  DemoForward forward;
  std::optional<DemoBackward> backward;
  std::string no_backward;  ///< Why there is none, as supports() says.

  double worst_of_bound() const;
  bool padding_clean() const;
};

/// What will run the layers, in a line: the device, its target, threads. Throws fa4::Error if fa4
/// can't do the forward.
std::string demo_device(const DemoFixture& fixture, int threads);

/// Runs one layer. Throws fa4::Error if fa4 can't do the forward.
DemoLayer run_demo_layer(const DemoFixture& fixture, int64_t layer, DType dtype,
                         const std::vector<float>& dout, const DemoReferences& references,
                         int threads);

}  // namespace fa4::cli
