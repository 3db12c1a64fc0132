// SPDX-License-Identifier: BSD-3-Clause
// Attention patterns of the demo's model, and one of them drawn in the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/array.h"
#include "cli/demo_fixture.h"

namespace fa4::cli {

/// The attention probabilities of a text: what fa4 gives as `out` when v is the identity.
struct DemoMaps {
  size_t text = 0;
  std::vector<std::string> tokens;
  Array probabilities;       ///< float32 [layers, heads, tokens, tokens]
  double row_sum_error = 0;  ///< Largest |sum of a row - 1|.

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  const float* row(int64_t layer, int64_t head, int64_t query) const {
    const int64_t heads = probabilities.dims()[1];
    return probabilities.as<float>() + ((layer * heads + head) * size() + query) * size();
  }
};

/// Runs all layers in float32. Throws fa4::Error if fa4 can't.
DemoMaps make_demo_maps(const DemoFixture& fixture, size_t text, int threads);

/// Prints one head's pattern: a line per query token, a column per key, and behind it the key that
/// is looked at most.
void print_demo_head(const DemoMaps& maps, int64_t layer, int64_t head);

}  // namespace fa4::cli
