// SPDX-License-Identifier: BSD-3-Clause
// Exact attention, forward and backward: the contract that every backend keeps.
//
// For each batch b, query head h and query row i, with the key head h_k = h / (heads_q / heads_k):
//
//   s[j]  = scale * dot(q[i], k[j])                       scale: 1/sqrt(d_qk) unless given
//   s[j]  = softcap * tanh(s[j] / softcap)                if softcap > 0
//   s[j] += bias[b,h,i,j] + slope[h] * (j - diagonal(i))  if given
//   s[j]  = -inf  where a mask, causal, a window or a length hides key j
//   lse   = log(sum_j exp(s[j]) + exp(sink[h]))           the sink if given
//   out   = sum_j dropout(exp(s[j] - lse)) * v[j]
//
// A row that sees no key has out 0 and lse -inf (with a sink: lse = the sink) and gives exactly 0
// to every gradient. Rows past a used length, before a start and past the last sequence have out 0
// and lse -inf; their inputs are never read. Key and value rows that no query may see because of a
// length, causal, a window or a mask may hold NaN and change nothing.
//
// Outputs must not overlap inputs or one another.
//
// Source: FlashAttention (arXiv 2205.14135), -2 (2307.08691), -3 (2407.08608), -4 (2603.05451).
#pragma once

#include <fa4/device.h>
#include <fa4/status.h>
#include <fa4/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace fa4 {

/// What to compute, apart from the tensors.
struct AttentionOptions {
  std::optional<double> scale{};  ///< -1e30 to 1e30 (float64: any finite); default 1/sqrt(d_qk).
  Causal causal = Causal::kNone;
  Window window{};       ///< left, right: absent or >= 0, inclusive.
  double softcap = 0;    ///< 0 = off, else the cap: 1e-30 to 1e30 (float64: any).
  double dropout_p = 0;  ///< Probability of dropping, in [0, 1), rounded down to a multiple of
                         ///< 2^-32; what is kept grows by 1 / (1 - p). The LSE ignores it.
  uint64_t dropout_seed =
      0;  ///< Same seed, same mask: on every backend, for any tile and thread count.
  bool deterministic = false;    ///< Backward bitwise repeatable (the forward always is).
  bool batch_invariant = false;  ///< A row's bits depend on its own q, k, v alone. Refuses dropout.
  int threads =
      0;  ///< CPU threads; 0 = every core this process may use. More than 1,024 count as 1,024.
  std::optional<int64_t>
      max_seqlen_q{};  ///< Upper bound of a packed sequence's length; never required.
  std::optional<int64_t> max_seqlen_k{};
};

/// The tensors of a forward call. Rank-4 q, k, v are [batch, seqlen, heads, head_dim]; rank-3 ones
/// are packed, [total, heads, head_dim], with cu_seqlens. q, k and v have one dtype. Absent =
/// default.
struct AttentionTensors {
  Tensor q{};     ///< [b, s_q, h_q, d_qk] or [total_q, h_q, d_qk]
  Tensor k{};     ///< [b, s_k, h_k, d_qk] or [total_k, h_k, d_qk]; h_q a multiple of h_k
  Tensor v{};     ///< [b, s_k, h_k, d_v]  or [total_k, h_k, d_v]
  Tensor out{};   ///< [b, s_q, h_q, d_v]  or [total_q, h_q, d_v], dtype of q. Written.
  Tensor lse{};   ///< [b, h_q, s_q] or [h_q, total_q], float32 (float64 for float64 q), natural
                  ///< log, scale and sink included. Written; may be absent in the forward.
  Tensor bias{};  ///< Added to scores, any float dtype; each dim of [b, h_q, s_q, s_k] or 1.
                  ///< -inf hides a key as a mask does.
  Tensor mask{};  ///< bool, true = may see; each dim of [b, h_q, s_q, s_k] or 1.
  Tensor alibi_slopes{};  ///< float32, [h_q] or [b, h_q]: adds slope * (j - diagonal(i)).
  Tensor sink{};          ///< Any float dtype, [h_q]: one more logit per head, with no value.
  Tensor cu_seqlens_q{};  ///< int32 or int64, [b + 1]: first 0, never decreasing, last <= total_q.
  Tensor cu_seqlens_k{};
  Tensor seqused_q{};  ///< int32 or int64, [b]: rows of sequence b that count, from its first on.
  Tensor seqused_k{};
  Tensor start_q{};  ///< int32 or int64, [b]: rows of sequence b before this one are padding on the
  Tensor start_k{};  ///< left. Rows that count: start <= row < used (or the sequence's length).
};

/// The tensors of a backward call beside the forward's (out and lse included).
struct AttentionGradients {
  Tensor dout{};   ///< Like out. Read.
  Tensor dlse{};   ///< Like lse, may be absent: the gradient that flows into the LSE. Read.
  Tensor dq{};     ///< Like q. Written, as all below.
  Tensor dk{};     ///< Like k.
  Tensor dv{};     ///< Like v.
  Tensor dbias{};  ///< Like bias, may be absent; summed over the dims that bias broadcasts.
  Tensor dsink{};  ///< Like sink, may be absent.
};

/// Computes out and lse on q's device. Remembers workspaces and, for GPUs, the last few plans of a
/// thread. Errors: kInvalidArgument, kUnsupported (see supports()), kOutOfMemory.
Status attention(const AttentionTensors& tensors, const AttentionOptions& options = {},
                 Stream stream = {});

/// The same for the plain case. `lse` may be a default Tensor.
Status attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                 const Tensor& lse = {}, const AttentionOptions& options = {}, Stream stream = {});

/// Computes dq, dk, dv and, if asked for, dbias and dsink, from what attention() read and wrote.
/// `options` must be the forward's.
Status attention_backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                          const AttentionOptions& options = {}, Stream stream = {});

/// Merges `parts` partial results of the same rows, as splits over the keys or a ring of devices
/// make them: lse = log(sum exp(lse_p)), out = sum exp(lse_p - lse) * out_p. A part with lse -inf
/// contributes nothing, whatever its out holds. CPU tensors only.
///   outs [parts, rows, d] float32 or float64; lses [parts, rows] of the same dtype;
///   out  [rows, d] any float dtype;           lse  [rows] dtype of lses, may be absent.
Status combine(const Tensor& outs, const Tensor& lses, const Tensor& out, const Tensor& lse = {});

}  // namespace fa4
