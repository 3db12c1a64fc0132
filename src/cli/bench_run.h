// SPDX-License-Identifier: BSD-3-Clause
// Times a cell: ours and torch in turns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_cell.h"
#include "cli/torch_peer.h"

namespace fa4::cli {

/// Seconds of every timed run.
struct Times {
  std::vector<double> seconds;

  bool present() const { return !seconds.empty(); }
  double best() const;
  double median() const;
};

struct Measured {
  Cell cell;
  Times ours, torch;
  std::string ours_problem;   ///< Why ours has no times.
  std::string torch_problem;  ///< Why torch has none; empty if it was not asked.
  Times read = {};  ///< Of a decode cell: k and v read, no more, in turns with the others.

  /// torch's time over ours, best or median; nothing if one is missing.
  std::optional<double> ratio(bool median = false) const;
};

struct Effort {
  double seconds = 1;   ///< A cell's rounds go on until each side has run this long,
  int min_rounds = 3;   ///< and this often,
  int max_rounds = 50;  ///< but not more often.
};

/// `torch` may be null. An Interruption ends it sooner: then the cell is not finished.
Measured measure(const Cell& cell, const Effort& effort, TorchPeer* torch);

}  // namespace fa4::cli
