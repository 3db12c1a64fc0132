// SPDX-License-Identifier: BSD-3-Clause
// What `fa4 attend` was asked for: a flag for each tensor and option of the contract.
#pragma once

#include <fa4/attention.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/array.h"

namespace fa4::cli {

/// A tensor of the call by its name in the contract: the file it comes from or goes to.
struct NamedFile {
  const char* name;  ///< "q", "cu_seqlens_k", "dout", ...
  const char* flag;
  const char* help;
  std::string path{};
};

struct AttendRequest {
  std::vector<NamedFile> inputs;
  std::vector<NamedFile> outputs;
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

  AttendRequest();
  const std::string& path_of(const std::string& name) const;
  bool wants_backward() const;
};

/// Adds the flags of `request` to `app`.
void add_attend_flags(CLI::App& app, AttendRequest& request);
/// Turns text into options once parsing is done. Throws UsageError.
void resolve(AttendRequest& request);
/// The device that --device names. Throws UsageError.
Device device_of(const AttendRequest& request);

/// The tensors of a call with their memory.
struct AttendArrays {
  Array q, k, v, out, lse;
  Array bias, mask, alibi_slopes, sink;
  Array cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, start_q, start_k;
  Array dout, dlse, dq, dk, dv, dbias, dsink;

  /// The array called `name` in the contract.
  Array& at(const std::string& name);
  /// Views, all said to be on `device`.
  AttentionTensors tensors(Device device) const;
  AttentionGradients gradients(Device device) const;
};

/// Reads the input files. Throws Error with the file's name.
AttendArrays read_inputs(const AttendRequest& request);
/// Makes out and lse, every byte 0xFF, so that what is not written shows. q and v must be valid.
void make_forward_outputs(AttendArrays& arrays);
/// The same for the gradients; dbias and dsink only if `request` has a file for them.
void make_backward_outputs(AttendArrays& arrays, const AttendRequest& request);

}  // namespace fa4::cli
