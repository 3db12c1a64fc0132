// SPDX-License-Identifier: BSD-3-Clause
// A validated problem as the backends see it: sizes by name, defaults resolved, nothing left to
// check.
#pragma once

#include <fa4/plan.h>

#include <cstdint>

namespace fa4::core {

/// Sizes and resolved options of a problem that validate() accepted.
struct Problem {
  AttentionProblem spec;

  DType dtype = DType::kFloat32;
  int64_t batch = 0;   ///< Sequences.
  int64_t rows_q = 0;  ///< Rows of q: a sequence's (dense) or all (packed).
  int64_t rows_k = 0;
  int64_t heads_q = 0;
  int64_t heads_k = 0;
  int64_t group = 1;  ///< heads_q / heads_k.
  int64_t dim_qk = 0;
  int64_t dim_v = 0;
  bool packed_q = false;
  bool packed_k = false;
  double scale = 1;

  int64_t total_q() const { return packed_q ? rows_q : batch * rows_q; }
  int64_t total_k() const { return packed_k ? rows_k : batch * rows_k; }
  /// No sequence has more rows than this.
  int64_t max_rows_q() const;
  int64_t max_rows_k() const;
  bool is_double() const { return dtype == DType::kFloat64; }
};

/// Whether the GPU backend's kernels run there.
inline bool runs_kernels(Device device) {
  return device.type == DeviceType::kCuda || device.type == DeviceType::kEmulator;
}

/// Checks a problem against the contract (attention.h), whatever the device.
Result<Problem> validate(const AttentionProblem& problem);

/// Checks that `tensors` are what `problem` was made for, have data, legal strides and one device.
Status validate_run(const Problem& problem, const AttentionTensors& tensors, Device device);
Status validate_run(const Problem& problem, const AttentionTensors& tensors,
                    const AttentionGradients& gradients, Device device);

/// Checks lengths that live in tensors the CPU can read: cu_seqlens, seqused, start. O(batch).
Status validate_lengths(const Problem& problem, const AttentionTensors& tensors);

}  // namespace fa4::core
