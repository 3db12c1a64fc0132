// SPDX-License-Identifier: BSD-3-Clause
// The tensors of a call, by the names that the contract gives them, with their memory.
#pragma once

#include <fa4/attention.h>

#include <span>
#include <string>

#include "cli/array.h"

namespace fa4::cli {

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

/// One tensor of the contract: where it lives, and how `fa4 attend` calls it.
struct NamedTensor {
  const char* name;  ///< "q", "cu_seqlens_k", "dout", ...
  const char* flag;  ///< Without dashes it is positional.
  const char* help;
  Array AttendArrays::*array;
  Tensor AttentionTensors::*tensor = nullptr;  ///< One of these two is its place in the call.
  Tensor AttentionGradients::*gradient = nullptr;
  bool written = false;
};
/// All of them: inputs, then outputs.
std::span<const NamedTensor> named_tensors();

/// Makes out and lse, every byte 0xFF, so that what is not written shows. q and v must be valid.
void make_forward_outputs(AttendArrays& arrays);
/// The same for the gradients; of dbias and dsink those that are wanted.
void make_backward_outputs(AttendArrays& arrays, bool dbias, bool dsink);

}  // namespace fa4::cli
