// SPDX-License-Identifier: BSD-3-Clause
// What the demo says: its tables, its verdict and its JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/demo_fixture.h"
#include "cli/demo_layer.h"
#include "cli/demo_picture.h"

namespace fa4::cli {

/// Everything that a run of the demo found out.
struct DemoResults {
  const DemoFixture* fixture = nullptr;
  uint64_t seed = 0;
  int threads = 0;     ///< As asked for; 0 = all.
  std::string device;  ///< What runs the layers, a line.
  std::vector<DemoLayer> layers;
  DemoMaps maps;
  int64_t drawn_layer = 0, drawn_head = 0;  ///< Of the maps.
};

/// What is wrong with the results, a sentence each; empty if all is right.
std::vector<std::string> demo_failures(const DemoResults& results);

void print_demo_heading(const DemoResults& results);
void print_demo_tables(const DemoResults& results);
/// Returns whether all is right.
bool print_demo_verdict(const DemoResults& results);

/// JSON of everything, as text.
std::string demo_json(const DemoResults& results);

}  // namespace fa4::cli
