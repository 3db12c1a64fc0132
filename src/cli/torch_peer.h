// SPDX-License-Identifier: BSD-3-Clause
// PyTorch in a process of its own, timed call by call (bench/torch_peer.py is its other end).
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/bench_cell.h"

namespace fa4::cli {

extern const char* const kTorchPeerScript;

class TorchPeer {
 public:
  /// Starts `python` with the script; available() says whether torch is there.
  explicit TorchPeer(const std::string& python);
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  bool available() const { return version_.has_value(); }
  /// "2.9.0, AVX2".
  std::string version() const { return version_.value_or(""); }
  /// Why torch is not available.
  const std::string& problem() const { return problem_; }

  /// Makes the cell's tensors and runs it once. False, with problem() set, if torch cannot.
  bool prepare(const Cell& cell);
  /// Seconds of one call of the cell that is prepared; nothing if it failed.
  std::optional<double> run();

 private:
  void start(const std::string& python);
  void stop();
  std::optional<nlohmann::json> ask(const nlohmann::json& request);
  std::optional<nlohmann::json> read_line();

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffer_;
  std::optional<std::string> version_;
  std::string problem_;
};

}  // namespace fa4::cli
