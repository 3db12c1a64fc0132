// SPDX-License-Identifier: BSD-3-Clause
// What `fa4 attend` was asked for: a flag for each tensor and option of the contract.
#pragma once

#include <fa4/attention.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/attend_tensors.h"

namespace fa4::cli {

/// A tensor of the call and the file it comes from or goes to; no file: absent, or not wanted.
struct TensorFile {
  const NamedTensor* tensor;
  std::string path;
};

struct AttendRequest {
  std::vector<TensorFile> files;  ///< One for each of named_tensors().
  AttentionOptions options;
  std::string dtype;  ///< Convert q, k, v (and dout) to it; empty: as the files are.
  std::string causal = "none";
  bool bfloat16 = false;
  bool widen = false;
  bool check = false;
  bool json = false;
  bool describe = false;
  std::string device = "cpu";
  int repeat = 1;

  const std::string& path_of(const std::string& name) const;
  bool wants_backward() const { return !path_of("dout").empty(); }
};

/// Fills `request` from the command line. The exit code if that was all (see CommandLine::parse);
/// throws UsageError.
std::optional<int> parse_attend(int argc, char** argv, AttendRequest& request);
/// The device that --device names. Throws UsageError.
Device device_of(const AttendRequest& request);

/// Reads the input files. Throws Error with the file's name.
AttendArrays read_inputs(const AttendRequest& request);

}  // namespace fa4::cli
