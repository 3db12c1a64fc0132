// SPDX-License-Identifier: BSD-3-Clause
// Checks a problem: shapes, dtypes, options. Lengths and pointers are checked when it runs.
#include <cmath>
#include <limits>

#include "core/message.h"
#include "core/problem.h"

namespace fa4::core {
namespace {

using std::string;
using std::to_string;

constexpr int64_t kMaxHeadDim = 256;

// Every check returns Status; the first error ends the validation.
#define FA4_RETURN_IF_ERROR(expression)                               \
  do {                                                                \
    if (Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

bool is_float(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kBFloat16 ||
         t == DType::kFloat16;
}

Status check_float(const char* name, const TensorSpec& spec) {
  if (is_float(spec.dtype)) return {};
  return invalid_argument(string(name) + ": dtype is " + fa4::to_string(spec.dtype) +
                          "; allowed: float32, float64, bfloat16, float16");
}

/// Non-negative dims whose product, in bytes, fits 63 bits.
Status check_size(const char* name, const TensorSpec& spec) {
  int64_t bytes = size_of(spec.dtype);
  for (int i = 0; i < std::min(spec.rank, Tensor::kMaxRank); ++i) {
    if (spec.dims[i] < 0) {
      return invalid_argument(string(name) + ": dim " + to_string(i) + " of " + format_dims(spec) +
                              " is negative; allowed: 0 or more");
    }
    // A zero dim empties the tensor, but the other dims must be sane all the same.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(spec.dims[i], 1), &bytes)) {
      return {StatusCode::kOutOfMemory,
              string(name) + ": " + format_dims(spec) +
                  " has more bytes than 64 bits count; allowed: fewer than 2^63"};
    }
  }
  return {};
}

/// q, k or v: a float tensor, rank 4 dense or rank 3 packed, with at least one head and column.
Status check_operand(const char* name, const TensorSpec& spec) {
  if (spec.rank != 3 && spec.rank != 4) {
    const string was = spec.present() ? "rank is " + to_string(spec.rank) : "absent";
    return invalid_argument(string(name) + ": " + was +
                            "; allowed: rank 4 ([batch, seqlen, heads, head_dim]) or 3 (packed, "
                            "[total, heads, head_dim])");
  }
  FA4_RETURN_IF_ERROR(check_float(name, spec));
  FA4_RETURN_IF_ERROR(check_size(name, spec));
  const int64_t heads = spec.dims[spec.rank - 2];
  const int64_t head_dim = spec.dims[spec.rank - 1];
  if (heads < 1) {
    return invalid_argument(string(name) + ": " + to_string(heads) + " heads in " +
                            format_dims(spec) + "; allowed: 1 or more");
  }
  if (head_dim < 1) {
    return invalid_argument(string(name) + ": head_dim is 0 in " + format_dims(spec) +
                            "; allowed: 1 to " + to_string(kMaxHeadDim));
  }
  if (head_dim > kMaxHeadDim) {
    return unsupported(string(name) + ": head_dim is " + to_string(head_dim) +
                       "; supported: 1 to " + to_string(kMaxHeadDim));
  }
  return {};
}

/// q, k and v each, then against one another.
Status check_operands(const AttentionProblem& p) {
  FA4_RETURN_IF_ERROR(check_operand("q", p.q));
  FA4_RETURN_IF_ERROR(check_operand("k", p.k));
  FA4_RETURN_IF_ERROR(check_operand("v", p.v));
  if (p.q.dtype != p.k.dtype || p.q.dtype != p.v.dtype) {
    return invalid_argument(string("q, k, v: dtypes are ") + fa4::to_string(p.q.dtype) + ", " +
                            fa4::to_string(p.k.dtype) + ", " + fa4::to_string(p.v.dtype) +
                            "; allowed: one dtype for all three (convert the others)");
  }
  if (p.k.rank != p.v.rank) {
    return invalid_argument("v: rank is " + to_string(p.v.rank) + ", k has " + to_string(p.k.rank) +
                            "; allowed: both dense or both packed");
  }
  for (int i = 0; i < p.k.rank - 1; ++i) {
    if (p.k.dims[i] == p.v.dims[i]) continue;
    return invalid_argument("v: is " + format_dims(p.v) + " and k " + format_dims(p.k) +
                            "; allowed: equal in all but head_dim");
  }
  const int64_t d_q = p.q.dims[p.q.rank - 1];
  const int64_t d_k = p.k.dims[p.k.rank - 1];
  if (d_q != d_k) {
    return invalid_argument("k: head_dim is " + to_string(d_k) + ", q's is " + to_string(d_q) +
                            "; allowed: the same");
  }
  const int64_t heads_q = p.q.dims[p.q.rank - 2];
  const int64_t heads_k = p.k.dims[p.k.rank - 2];
  if (heads_q % heads_k != 0) {
    return invalid_argument("q: " + to_string(heads_q) + " heads over " + to_string(heads_k) +
                            " heads of k; allowed: a multiple of k's heads");
  }
  return {};
}

/// An index tensor: int32 or int64, rank 1, `count` entries.
Status check_index(const char* name, const TensorSpec& spec, int64_t count, const char* what) {
  if (!spec.present()) return {};
  if (spec.dtype != DType::kInt32 && spec.dtype != DType::kInt64) {
    return invalid_argument(string(name) + ": dtype is " + fa4::to_string(spec.dtype) +
                            "; allowed: int32, int64");
  }
  if (spec.rank != 1 || spec.dims[0] != count) {
    return invalid_argument(string(name) + ": is " + format_dims(spec) + "; allowed: [" + what +
                            "] = [" + to_string(count) + "]");
  }
  return {};
}

/// The batch as one side (q or k) tells it, or -1 with an error.
Result<int64_t> batch_of(const char* name, const TensorSpec& operand, const char* cu_name,
                         const TensorSpec& cu_seqlens) {
  if (operand.rank == 4) {
    if (!cu_seqlens.present()) return operand.dims[0];
    return invalid_argument(string(cu_name) + ": given, but " + name +
                            " is dense (rank 4); allowed: "
                            "a packed " +
                            name + " of rank 3, or no " + cu_name);
  }
  if (!cu_seqlens.present()) {
    return invalid_argument(string(cu_name) + ": absent, but " + name +
                            " is packed (rank 3); allowed: int32 or int64 [batch + 1]");
  }
  if (cu_seqlens.rank != 1 || cu_seqlens.dims[0] < 1) {
    return invalid_argument(string(cu_name) + ": is " + format_dims(cu_seqlens) +
                            "; allowed: [batch + 1], so at least one entry");
  }
  return cu_seqlens.dims[0] - 1;
}

/// The error for q and k of different batches, which names the tensor that says so.
Status different_batches(const AttentionProblem& spec, int64_t batch_q, int64_t batch_k) {
  const auto cu = [](const char* name, int64_t batch, const char* other, int64_t wanted) {
    return invalid_argument(string(name) + ": is [" + to_string(batch + 1) + "], so " +
                            to_string(batch) + " sequences, and " + other + " has " +
                            to_string(wanted) + "; allowed: [batch + 1] = [" +
                            to_string(wanted + 1) + "]");
  };
  if (spec.cu_seqlens_k.present()) return cu("cu_seqlens_k", batch_k, "q", batch_q);
  if (spec.cu_seqlens_q.present()) return cu("cu_seqlens_q", batch_q, "k", batch_k);
  return invalid_argument("k: " + to_string(batch_k) + " sequences, q has " + to_string(batch_q) +
                          "; allowed: as many in both");
}

/// bias or mask: rank 4, each dim 1 or what it covers. Packed rows are covered by the longest
/// sequence, which is known only when the plan runs, so there any size passes here.
Status check_broadcast(const char* name, const TensorSpec& spec, const Problem& p) {
  if (!spec.present()) return {};
  if (spec.rank == 4) FA4_RETURN_IF_ERROR(check_size(name, spec));
  const std::array<int64_t, 4> full = {p.batch, p.heads_q, p.packed_q ? -1 : p.rows_q,
                                       p.packed_k ? -1 : p.rows_k};
  bool fits = spec.rank == 4;
  for (int i = 0; fits && i < 4; ++i) {
    fits = spec.dims[i] == 1 || full[i] < 0 || spec.dims[i] == full[i];
  }
  if (fits) return {};
  const auto side = [](int64_t rows, const char* longest) {
    return rows < 0 ? string(longest) : to_string(rows);
  };
  return invalid_argument(string(name) + ": is " + format_dims(spec) + "; allowed: [" +
                          to_string(p.batch) + ", " + to_string(p.heads_q) + ", " +
                          side(full[2], "longest q") + ", " + side(full[3], "longest k") +
                          "], any of them 1");
}

Status check_extras(const AttentionProblem& spec, const Problem& p) {
  if (spec.bias.present()) FA4_RETURN_IF_ERROR(check_float("bias", spec.bias));
  FA4_RETURN_IF_ERROR(check_broadcast("bias", spec.bias, p));
  if (spec.mask.present() && spec.mask.dtype != DType::kBool) {
    return invalid_argument(string("mask: dtype is ") + fa4::to_string(spec.mask.dtype) +
                            "; allowed: bool (true = may see; a float mask is a bias)");
  }
  FA4_RETURN_IF_ERROR(check_broadcast("mask", spec.mask, p));

  if (const TensorSpec& slopes = spec.alibi_slopes; slopes.present()) {
    const bool per_head = slopes.rank == 1 && slopes.dims[0] == p.heads_q;
    const bool per_batch =
        slopes.rank == 2 && slopes.dims[0] == p.batch && slopes.dims[1] == p.heads_q;
    if (slopes.dtype != DType::kFloat32 || !(per_head || per_batch)) {
      return invalid_argument("alibi_slopes: is " + format_spec(slopes) + "; allowed: float32 [" +
                              to_string(p.heads_q) + "] or [" + to_string(p.batch) + ", " +
                              to_string(p.heads_q) + "]");
    }
  }
  if (spec.sink.present()) {
    FA4_RETURN_IF_ERROR(check_float("sink", spec.sink));
    if (spec.sink.rank != 1 || spec.sink.dims[0] != p.heads_q) {
      return invalid_argument("sink: is " + format_dims(spec.sink) + "; allowed: [heads_q] = [" +
                              to_string(p.heads_q) + "]");
    }
  }
  FA4_RETURN_IF_ERROR(check_index("seqused_q", spec.seqused_q, p.batch, "batch"));
  FA4_RETURN_IF_ERROR(check_index("seqused_k", spec.seqused_k, p.batch, "batch"));
  FA4_RETURN_IF_ERROR(check_index("start_q", spec.start_q, p.batch, "batch"));
  FA4_RETURN_IF_ERROR(check_index("start_k", spec.start_k, p.batch, "batch"));
  return {};
}

Status check_window(const char* side, const std::optional<int64_t>& limit) {
  if (!limit || *limit >= 0) return {};
  return invalid_argument(string("window ") + side + ": is " + to_string(*limit) +
                          "; allowed: absent (no limit), or 0 or more");
}

Status check_max_seqlen(const char* name, const std::optional<int64_t>& value) {
  if (!value || *value >= 0) return {};
  return invalid_argument(string(name) + ": is " + to_string(*value) +
                          "; allowed: absent, or 0 or more");
}

Status check_options(const AttentionOptions& o) {
  if (o.scale && !std::isfinite(*o.scale)) {
    return invalid_argument("scale: is " + format_number(*o.scale) +
                            "; allowed: any finite number");
  }
  if (o.causal != Causal::kNone && o.causal != Causal::kBottomRight &&
      o.causal != Causal::kTopLeft) {
    return invalid_argument("causal: is " + to_string(static_cast<int>(o.causal)) +
                            "; allowed: none (0), bottom_right (1), top_left (2)");
  }
  FA4_RETURN_IF_ERROR(check_window("left", o.window.left));
  FA4_RETURN_IF_ERROR(check_window("right", o.window.right));
  if (!std::isfinite(o.softcap) || o.softcap < 0) {
    return invalid_argument("softcap: is " + format_number(o.softcap) +
                            "; allowed: 0 (off) or a finite cap above 0");
  }
  if (!(o.dropout_p >= 0 && o.dropout_p < 1)) {
    return invalid_argument("dropout_p: is " + format_number(o.dropout_p) +
                            "; allowed: 0 or more, below 1");
  }
  if (o.batch_invariant && o.dropout_p > 0) {
    return invalid_argument(
        "batch_invariant: asked for with dropout_p " + format_number(o.dropout_p) +
        "; allowed: one of the two (dropout depends on the place in the batch)");
  }
  if (o.threads < 0) {
    return invalid_argument("threads: is " + to_string(o.threads) +
                            "; allowed: 0 (every core) or a count");
  }
  FA4_RETURN_IF_ERROR(check_max_seqlen("max_seqlen_q", o.max_seqlen_q));
  return check_max_seqlen("max_seqlen_k", o.max_seqlen_k);
}

Status check_gradients(const AttentionProblem& p) {
  if (p.has_dbias && !p.bias.present()) {
    return invalid_argument("dbias: given without bias; allowed: only with bias");
  }
  if (p.has_dsink && !p.sink.present()) {
    return invalid_argument("dsink: given without sink; allowed: only with sink");
  }
  return {};
}

/// Where arithmetic is float32, the options must be numbers that it can work with.
Status check_range(const AttentionOptions& o, DType dtype) {
  constexpr double kSmallest = 1e-30, kLargest = 1e30;
  if (dtype == DType::kFloat64) return {};
  if (o.scale && std::abs(*o.scale) > kLargest) {
    return invalid_argument("scale: is " + format_number(*o.scale) +
                            "; allowed: -1e30 to 1e30 (float64 tensors: any finite number)");
  }
  if (o.softcap != 0 && (o.softcap < kSmallest || o.softcap > kLargest)) {
    return invalid_argument(
        "softcap: is " + format_number(o.softcap) +
        "; allowed: 0 (off), or 1e-30 to 1e30 (float64 tensors: any finite cap)");
  }
  return {};
}

}  // namespace

Result<Problem> validate(const AttentionProblem& spec) {
  FA4_RETURN_IF_ERROR(check_operands(spec));
  FA4_RETURN_IF_ERROR(check_options(spec.options));
  FA4_RETURN_IF_ERROR(check_range(spec.options, spec.q.dtype));

  Problem p;
  p.spec = spec;
  p.dtype = spec.q.dtype;
  p.packed_q = spec.q.rank == 3;
  p.packed_k = spec.k.rank == 3;
  p.rows_q = spec.q.dims[spec.q.rank - 3];
  p.rows_k = spec.k.dims[spec.k.rank - 3];
  p.heads_q = spec.q.dims[spec.q.rank - 2];
  p.heads_k = spec.k.dims[spec.k.rank - 2];
  p.group = p.heads_q / p.heads_k;
  p.dim_qk = spec.q.dims[spec.q.rank - 1];
  p.dim_v = spec.v.dims[spec.v.rank - 1];
  p.scale = spec.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.dim_qk)));

  const Result<int64_t> batch_q = batch_of("q", spec.q, "cu_seqlens_q", spec.cu_seqlens_q);
  FA4_RETURN_IF_ERROR(batch_q.status());
  const Result<int64_t> batch_k = batch_of("k", spec.k, "cu_seqlens_k", spec.cu_seqlens_k);
  FA4_RETURN_IF_ERROR(batch_k.status());
  if (*batch_q != *batch_k) return different_batches(spec, *batch_q, *batch_k);
  p.batch = *batch_q;
  FA4_RETURN_IF_ERROR(check_index("cu_seqlens_q", spec.cu_seqlens_q, p.batch + 1, "batch + 1"));
  FA4_RETURN_IF_ERROR(check_index("cu_seqlens_k", spec.cu_seqlens_k, p.batch + 1, "batch + 1"));
  FA4_RETURN_IF_ERROR(check_extras(spec, p));
  if (spec.pass == Pass::kBackward) FA4_RETURN_IF_ERROR(check_gradients(spec));
  return p;
}

int64_t Problem::max_rows_q() const {
  return packed_q ? std::min(rows_q, spec.options.max_seqlen_q.value_or(rows_q)) : rows_q;
}

int64_t Problem::max_rows_k() const {
  return packed_k ? std::min(rows_k, spec.options.max_seqlen_k.value_or(rows_k)) : rows_k;
}

}  // namespace fa4::core
