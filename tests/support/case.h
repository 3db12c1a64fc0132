// SPDX-License-Identifier: BSD-3-Clause
// One attention call with all its tensors and options: run it, and judge it by the oracle.
//
//   Case c = probe({.s_q = 2, .s_k = 5});
//   c.options.causal = Causal::kBottomRight;
//   expect_right(c);                              // forward and backward against the oracle
//   EXPECT_EQ(c.out.get({0, 0, 0, 0}), 2.5);      // and the outputs are there to look at
#pragma once

#include <fa4/attention.h>
#include <fa4/plan.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/host_tensor.h"

namespace fa4::test {

/// The tensors of AttentionTensors and AttentionGradients, owned, under the same names.
struct Case {
  std::string name;  ///< For messages: how to make the case again.
  AttentionOptions options;
  Device device{};  ///< Where forward() runs; on a GPU with copies of the tensors.

  HostTensor q, k, v, bias, mask, alibi_slopes, sink;
  HostTensor cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, start_q, start_k;
  HostTensor dout, dlse;  ///< dlse may be absent; an absent dout becomes all ones.

  // Outputs. Those that are absent are made contiguous when the case runs: forward() makes out and
  // lse, backward() the gradients, dbias and dsink wherever there is a bias and a sink. Set one
  // before to choose its strides.
  HostTensor out, lse, dq, dk, dv, dbias, dsink;

  AttentionTensors tensors() const;
  AttentionGradients gradients() const;
  int64_t batch() const;

  /// Poison the outputs, run through a Plan with a guarded and poisoned workspace. A broken guard
  /// is a kRuntimeError that names the tensor. backward() wants forward() to have run.
  Status forward();
  Status backward();

  /// Compare the outputs with the oracle; empty if they are right.
  std::string judge_forward() const;
  std::string judge_backward() const;
};

/// What became of a case.
struct Verdict {
  enum class Kind { kPassed, kFailed, kSkipped } kind = Kind::kPassed;
  std::string message;
};

/// Runs and judges; skipped, with supports()'s reason, where the backend can't do the case.
Verdict check_forward(Case& c);
/// The forward and, if that passed, the backward.
Verdict check_forward_and_backward(Case& c);

/// The same as GoogleTest expectations: a failure or a skip of the running test.
void expect_right(Case& c);
void expect_forward_right(Case& c);

/// Sizes of a case. Zeros mean: heads_k = heads_q, d_v = d. With lengths (one a sequence) the side
/// is packed, and batch and s_q or s_k are not looked at.
struct Shape {
  int64_t batch = 1;
  int64_t s_q = 1;
  int64_t s_k = 1;
  int64_t heads_q = 1;
  int64_t heads_k = 0;
  int64_t d = 8;
  int64_t d_v = 0;
  std::vector<int64_t> lengths_q{};
  std::vector<int64_t> lengths_k{};
};

/// q = 0, k random, v[j] = j + 1, dout = 1, scale 1: out is the mean of j + 1 over the keys that a
/// row sees, lse the log of their number. j counts rows of v as they lie, packed ones from the
/// first sequence's first.
Case probe(const Shape& shape, DType dtype = DType::kFloat32);
/// v = identity, q and k random, scale 1: out is the probabilities. d_v becomes the keys' number.
Case onehot(const Shape& shape, DType dtype = DType::kFloat32, uint64_t seed = 1);
/// q, k, v and dout standard normal, dlse absent, scale 1/sqrt(d).
Case ref64(const Shape& shape, DType dtype = DType::kFloat32, uint64_t seed = 1);

/// cu_seqlens of these lengths: [0, l0, l0 + l1, ...].
HostTensor cu_seqlens_of(const std::vector<int64_t>& lengths, DType dtype = DType::kInt32);
/// A tensor of int32 or int64, rank 1.
HostTensor indices(const std::vector<int64_t>& values, DType dtype = DType::kInt32);

}  // namespace fa4::test
