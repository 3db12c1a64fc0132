// SPDX-License-Identifier: BSD-3-Clause
// What the bench found: tables, geometric means, goals, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench_run.h"
#include "cli/cpu_info.h"
#include "cli/roofs.h"

namespace fa4::cli {

struct BenchResult {
  CpuInfo cpu;
  std::string target;         ///< What the library's kernels use, from its plan.
  std::string torch_version;  ///< "" if torch is not there.
  std::string torch_problem;  ///< Why; "" if it was not asked for.
  bool quick = false;         ///< A look, not a measurement: no goals are held against it.
  std::vector<Roofs> roofs;   ///< One for each thread count.
  std::vector<Measured> cells;
  size_t wanted = 0;         ///< Cells that were asked for.
  bool interrupted = false;  ///< Before all of them were measured.

  const Roofs& roofs_of(int threads) const;
  bool has_torch() const { return !torch_version.empty(); }
};

/// A promise and what became of it.
struct Goal {
  std::string what;  ///< "fp32 forward, 1 thread: geometric mean of cells, times torch"
  double value = 0;
  double goal = 0;
  bool percent = false;
  bool met() const { return value >= goal; }
};

/// Ours over torch in geometric mean.
struct Group {
  Pass pass;
  DType dtype;
  int threads = 1;
  int cells = 0;
  double ratio = 0;
};

std::vector<Group> groups_of(const BenchResult& result);
/// The goals that the cells measured can answer.
std::vector<Goal> goals_of(const BenchResult& result);

/// "1 thread", "2 threads".
std::string threads_text(int threads);

/// A cell's rate: 10^9 flop (prefill) or bytes of k and v (decode) a second.
double rate_of(const Cell& cell, double seconds);
/// The roof of that rate, and what binds there.
struct Roof {
  double rate = 0;
  std::string bound;  ///< "FMA", "bf16 dot", "read" or "widened FMA"
};
/// For decode the lower of two: the read bandwidth, and the rate at which the products that each
/// byte needs let it be read.
Roof roof_of(const Measured& m, const Roofs& roofs);
/// Read bandwidth in GB/s: the better of what the roof's probe and what turns with the cell found.
double read_gbs_of(const Measured& m, const Roofs& roofs);

void print_report(const BenchResult& result);
nlohmann::json to_json(const BenchResult& result);
/// The same as text.
std::string json_text(const BenchResult& result);

}  // namespace fa4::cli
