// SPDX-License-Identifier: BSD-3-Clause
// Checks the tensors of one run: that they are what the plan was made for, and what their lengths
// say.
#include <limits>

#include "core/message.h"
#include "core/problem.h"
#include "core/run_checker.h"
#include "core/sequence.h"

namespace fa4::core {
namespace {

using std::string;
using std::to_string;

TensorSpec out_spec(const Problem& p) {
  TensorSpec spec = p.spec.q;
  spec.dims[spec.rank - 1] = p.dim_v;
  return spec;
}

TensorSpec lse_spec(const Problem& p) {
  const DType dtype = p.is_double() ? DType::kFloat64 : DType::kFloat32;
  if (p.packed_q) return {dtype, 2, {p.heads_q, p.rows_q}};
  return {dtype, 3, {p.batch, p.heads_q, p.rows_q}};
}

void check_inputs(RunChecker& checker, const AttentionProblem& spec, const AttentionTensors& t) {
  checker.input("q", t.q, spec.q);
  checker.input("k", t.k, spec.k);
  checker.input("v", t.v, spec.v);
  checker.input("bias", t.bias, spec.bias);
  checker.input("mask", t.mask, spec.mask);
  checker.input("alibi_slopes", t.alibi_slopes, spec.alibi_slopes);
  checker.input("sink", t.sink, spec.sink);
  checker.input("cu_seqlens_q", t.cu_seqlens_q, spec.cu_seqlens_q);
  checker.input("cu_seqlens_k", t.cu_seqlens_k, spec.cu_seqlens_k);
  checker.input("seqused_q", t.seqused_q, spec.seqused_q);
  checker.input("seqused_k", t.seqused_k, spec.seqused_k);
  checker.input("start_q", t.start_q, spec.start_q);
  checker.input("start_k", t.start_k, spec.start_k);
}

/// cu_seqlens: first 0, never decreasing, last <= total, no sequence longer than max_seqlen.
Status check_cu_seqlens(const char* name, const Tensor& cu, int64_t total, const char* max_name,
                        const std::optional<int64_t>& max_seqlen) {
  if (!cu.present()) return {};
  const auto entry = [&](int64_t i) {
    return string(name) + "[" + to_string(i) + "]: is " + to_string(read_index(cu, i));
  };
  if (read_index(cu, 0) != 0) return invalid_argument(entry(0) + "; allowed: 0");
  for (int64_t i = 1; i < cu.dims[0]; ++i) {
    const int64_t previous = read_index(cu, i - 1);
    if (read_index(cu, i) < previous) {
      return invalid_argument(
          entry(i) + ", below the entry before; allowed: " + to_string(previous) + " or more");
    }
    if (read_index(cu, i) > total) {
      return invalid_argument(entry(i) + "; allowed: at most the " + to_string(total) +
                              " rows that there are");
    }
    const int64_t length = read_index(cu, i) - previous;
    if (max_seqlen && length > *max_seqlen) {
      return invalid_argument(string(max_name) + ": is " + to_string(*max_seqlen) +
                              ", but sequence " + to_string(i - 1) + " has " + to_string(length) +
                              " rows; allowed: at least that, or absent");
    }
  }
  return {};
}

/// 0 <= start <= used <= capacity for each sequence.
Status check_used(const char* used_name, const Tensor& used, const char* start_name,
                  const Tensor& start, const Tensor& cu, int64_t dense_rows, int64_t batch) {
  if (!used.present() && !start.present()) return {};
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t capacity = cu.present() ? read_index(cu, b + 1) - read_index(cu, b) : dense_rows;
    const int64_t end = used.present() ? read_index(used, b) : capacity;
    if (end < 0 || end > capacity) {
      return invalid_argument(string(used_name) + "[" + to_string(b) + "]: is " + to_string(end) +
                              "; allowed: 0 to " + to_string(capacity) + ", the sequence's rows");
    }
    const int64_t begin = start.present() ? read_index(start, b) : 0;
    if (begin < 0 || begin > end) {
      return invalid_argument(string(start_name) + "[" + to_string(b) + "]: is " +
                              to_string(begin) + "; allowed: 0 to " + to_string(end) +
                              ", the sequence's used rows");
    }
  }
  return {};
}

/// A bias or mask over packed sequences must reach the longest one.
Status check_covers(const char* name, const TensorSpec& spec, const Problem& p,
                    const AttentionTensors& t) {
  if (!spec.present()) return {};
  for (int side = 0; side < 2; ++side) {
    const Tensor& cu = side == 0 ? t.cu_seqlens_q : t.cu_seqlens_k;
    const int64_t dim = spec.dims[2 + side];
    if (!cu.present() || dim == 1) continue;
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t length = read_index(cu, b + 1) - read_index(cu, b);
      if (length <= dim) continue;
      return invalid_argument(string(name) + ": dim " + to_string(2 + side) + " is " +
                              to_string(dim) + ", but sequence " + to_string(b) + " has " +
                              to_string(length) + (side == 0 ? " query" : " key") +
                              " rows; allowed: 1, or at least the longest sequence");
    }
  }
  return {};
}

}  // namespace

Status validate_run(const Problem& p, const AttentionTensors& t, Device device) {
  RunChecker checker(device);
  check_inputs(checker, p.spec, t);
  checker.output("out", t.out, out_spec(p));
  if (t.lse.present()) checker.output("lse", t.lse, lse_spec(p));
  return checker.status();
}

Status validate_run(const Problem& p, const AttentionTensors& t, const AttentionGradients& g,
                    Device device) {
  RunChecker checker(device);
  check_inputs(checker, p.spec, t);
  checker.input("out", t.out, out_spec(p));
  checker.input("lse", t.lse, lse_spec(p));
  checker.input("dout", g.dout, out_spec(p));
  checker.input("dlse", g.dlse, p.spec.has_dlse ? lse_spec(p) : TensorSpec{});
  checker.output("dq", g.dq, p.spec.q);
  checker.output("dk", g.dk, p.spec.k);
  checker.output("dv", g.dv, p.spec.v);
  checker.output("dbias", g.dbias, p.spec.has_dbias ? p.spec.bias : TensorSpec{});
  checker.output("dsink", g.dsink, p.spec.has_dsink ? p.spec.sink : TensorSpec{});
  return checker.status();
}

Status validate_lengths(const Problem& p, const AttentionTensors& t) {
  const AttentionOptions& options = p.spec.options;
  Status status = check_cu_seqlens("cu_seqlens_q", t.cu_seqlens_q, p.rows_q, "max_seqlen_q",
                                   options.max_seqlen_q);
  if (status.ok()) {
    status = check_cu_seqlens("cu_seqlens_k", t.cu_seqlens_k, p.rows_k, "max_seqlen_k",
                              options.max_seqlen_k);
  }
  if (status.ok()) {
    status = check_used("seqused_q", t.seqused_q, "start_q", t.start_q, t.cu_seqlens_q, p.rows_q,
                        p.batch);
  }
  if (status.ok()) {
    status = check_used("seqused_k", t.seqused_k, "start_k", t.start_k, t.cu_seqlens_k, p.rows_k,
                        p.batch);
  }
  if (status.ok()) status = check_covers("bias", p.spec.bias, p, t);
  if (status.ok()) status = check_covers("mask", p.spec.mask, p, t);
  return status;
}

}  // namespace fa4::core
