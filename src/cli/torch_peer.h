// SPDX-License-Identifier: BSD-3-Clause
// PyTorch in a process of its own, timed call by call (bench/torch_peer.py is its other end).
#pragma once

#include <optional>
#include <string>

#include "cli/bench_cell.h"
#include "cli/script_process.h"

namespace fa4::cli {

extern const char* const kTorchPeerScript;

class TorchPeer {
 public:
  /// Starts `python` with the script; available() says whether torch is there.
  explicit TorchPeer(const std::string& python) : process_(python, kTorchPeerScript) {}

  bool available() const { return process_.available(); }
  /// "2.9.0, AVX2".
  std::string version() const;
  /// Why torch is not available, or what went wrong last.
  const std::string& problem() const { return process_.problem(); }

  /// Makes the cell's tensors and runs it once. False, with problem() set, if torch cannot.
  bool prepare(const Cell& cell);
  /// Seconds of one call of the cell that is prepared; nothing if it failed.
  std::optional<double> run();

 private:
  ScriptProcess process_;
};

}  // namespace fa4::cli
