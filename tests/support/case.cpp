// SPDX-License-Identifier: BSD-3-Clause
#include "support/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "oracle/judge.h"
#include "oracle/oracle.h"
#include "support/gpu_case.h"

namespace fa4::test {
namespace {

using oracle::Precision;

HostTensor like(const HostTensor& x) { return {x.dtype(), x.dims()}; }

void make_and_poison(HostTensor& output, const HostTensor& model) {
  if (!output.present()) output = model;
  output.poison();
}

HostTensor model_of_out(const Case& c) {
  Dims dims = c.q.dims();
  dims.back() = c.v.dims().back();
  return {c.q.dtype(), dims};
}

HostTensor model_of_lse(const Case& c) {
  const Dims& q = c.q.dims();
  const DType dtype = c.q.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return {dtype, q.size() == 3 ? Dims{q[1], q[0]} : Dims{q[0], q[2], q[1]}};
}

/// 64-byte aligned memory full of NaN, with guard bytes behind (and before) it.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(size_t bytes) : bytes_(bytes), storage_(bytes + 3 * kGuard) {
    std::fill(storage_.begin(), storage_.end(), std::byte{0xFF});
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    data_ = storage_.data() + kGuard + (64 - address % 64) % 64;
  }
  Workspace get() const { return {data_, bytes_}; }
  Status check() const {
    const auto broken = [](std::byte x) { return x != std::byte{0xFF}; };
    const std::byte* end = storage_.data() + storage_.size();
    if (std::none_of(storage_.data(), static_cast<const std::byte*>(data_), broken) &&
        std::none_of(static_cast<const std::byte*>(data_) + bytes_, end, broken)) {
      return {};
    }
    return {StatusCode::kRuntimeError, "workspace: bytes outside it were written"};
  }

 private:
  static constexpr size_t kGuard = 256;
  size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_;
};

Status check_guards(std::initializer_list<std::pair<const char*, const HostTensor*>> written) {
  for (const auto& [name, tensor] : written) {
    const std::string damage = tensor->damage();
    if (!damage.empty()) return {StatusCode::kRuntimeError, name + (": " + damage)};
  }
  return {};
}

constexpr int64_t kFewElements = 256;

/// The (sequence, head) slice that each element of q, out, k, v or a gradient of theirs belongs to:
/// [b, s, h, d] or [total, h, d]. -1: none.
std::vector<int> slices_of_rows(const HostTensor& x, const HostTensor& cu) {
  const Dims& dims = x.dims();
  const bool packed = dims.size() == 3;
  const int64_t heads = dims[dims.size() - 2], d = dims.back();
  const int64_t rows = x.size() / std::max<int64_t>(1, heads * d);
  std::vector<int> sequence_of(rows, -1);
  const std::vector<double> ends = cu.values();
  const size_t sequences = packed ? ends.size() - 1 : dims[0];
  for (size_t b = 0; b < sequences; ++b) {
    const int64_t begin =
        packed ? static_cast<int64_t>(ends[b]) : static_cast<int64_t>(b) * dims[1];
    const int64_t end = packed ? static_cast<int64_t>(ends[b + 1]) : begin + dims[1];
    std::fill(sequence_of.begin() + begin, sequence_of.begin() + end, static_cast<int>(b));
  }
  std::vector<int> slices;
  for (int64_t flat = 0; flat < x.size(); ++flat) {
    const int sequence = sequence_of[flat / (heads * d)];
    const auto head = static_cast<int>(flat / d % heads);
    slices.push_back(sequence < 0 ? -1 : sequence * static_cast<int>(heads) + head);
  }
  return slices;
}

/// For lse: the slices of out's rows, transposed.
std::vector<int> slices_of_lse(const Case& c) {
  Dims row_dims = c.q.dims();
  row_dims.back() = 1;
  const std::vector<int> rows = slices_of_rows(HostTensor(DType::kBool, row_dims), c.cu_seqlens_q);
  const bool packed = row_dims.size() == 3;
  const int64_t heads = row_dims[row_dims.size() - 2], s = row_dims[row_dims.size() - 3];
  std::vector<int> slices;
  for (int64_t b = 0; b < (packed ? 1 : row_dims[0]); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < s; ++i) slices.push_back(rows[(b * s + i) * heads + h]);
    }
  }
  return slices;
}

/// Elements of a slice of dbias (a matrix) or dsink (a number): the product of `inner` last dims.
int64_t slice_size(const HostTensor& x, size_t inner) {
  int64_t size = 1;
  for (size_t i = x.dims().size() - inner; i < x.dims().size(); ++i) size *= x.dims()[i];
  return size;
}

std::vector<int> slices_of_size(const HostTensor& x, int64_t size) {
  std::vector<int> slices;
  for (int64_t flat = 0; flat < x.size(); ++flat) slices.push_back(static_cast<int>(flat / size));
  return slices;
}

/// The fewest rows or keys that count in any sequence.
int64_t fewest_rows(const Case& c) {
  const auto side = [&](const HostTensor& x, const HostTensor& cu, const HostTensor& used,
                        const HostTensor& start) {
    const int64_t dense = x.dims().size() == 4 ? x.dims()[1] : INT64_MAX;
    int64_t least = dense;
    const std::vector<double> ends = cu.values(), useds = used.values(), starts = start.values();
    for (int64_t b = 0; b < c.batch(); ++b) {
      double rows = cu.present() ? ends[b + 1] - ends[b] : static_cast<double>(dense);
      if (used.present()) rows = useds[b];
      if (start.present()) rows -= starts[b];
      least = std::min(least, static_cast<int64_t>(rows));
    }
    return least;
  };
  return std::min(side(c.q, c.cu_seqlens_q, c.seqused_q, c.start_q),
                  side(c.k, c.cu_seqlens_k, c.seqused_k, c.start_k));
}

/// Compares one output; the three vectors are the oracle's exact, plain and magnitude results.
std::string judge(const Case& c, const char* name, const HostTensor& actual,
                  std::vector<int> slices, int64_t rows, const std::vector<double>& expected,
                  const std::vector<double>& plain, const std::vector<double>& magnitude) {
  oracle::Comparison comparison;
  comparison.name = name;
  comparison.kind = {actual.dtype(), c.q.dtype(), c.options.softcap > 0, rows};
  comparison.dims = actual.dims();
  comparison.actual = actual.values();
  comparison.expected = expected;
  comparison.plain = plain;
  comparison.magnitude = magnitude;
  comparison.slice_of = std::move(slices);
  return oracle::judge(comparison).fault;
}

Verdict to_verdict(const Case& c, const char* pass, const Status& status) {
  if (status.ok()) return {};
  const bool skip = status.code() == StatusCode::kUnsupported;
  return {skip ? Verdict::Kind::kSkipped : Verdict::Kind::kFailed,
          c.name + ": " + pass + ": " + status.message()};
}

Verdict to_verdict(const Case& c, const char* pass, const std::string& fault) {
  if (fault.empty()) return {};
  return {Verdict::Kind::kFailed, c.name + ": " + pass + ": " + fault};
}

void report(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::kSkipped) GTEST_SKIP() << verdict.message;
  if (verdict.kind == Verdict::Kind::kFailed) ADD_FAILURE() << verdict.message;
}

}  // namespace

AttentionTensors Case::tensors() const {
  AttentionTensors t;
  t.q = q.view(), t.k = k.view(), t.v = v.view();
  t.out = out.view(), t.lse = lse.view();
  t.bias = bias.view(), t.mask = mask.view();
  t.alibi_slopes = alibi_slopes.view(), t.sink = sink.view();
  t.cu_seqlens_q = cu_seqlens_q.view(), t.cu_seqlens_k = cu_seqlens_k.view();
  t.seqused_q = seqused_q.view(), t.seqused_k = seqused_k.view();
  t.start_q = start_q.view(), t.start_k = start_k.view();
  return t;
}

AttentionGradients Case::gradients() const {
  AttentionGradients g;
  g.dout = dout.view(), g.dlse = dlse.view();
  g.dq = dq.view(), g.dk = dk.view(), g.dv = dv.view();
  g.dbias = dbias.view(), g.dsink = dsink.view();
  return g;
}

int64_t Case::batch() const {
  return q.dims().size() == 4 ? q.dims()[0] : cu_seqlens_q.dims()[0] - 1;
}

Status Case::forward() {
  make_and_poison(out, model_of_out(*this));
  make_and_poison(lse, model_of_lse(*this));
  if (device.type != DeviceType::kCpu) return forward_on_gpu(*this);
  const Result<Plan> plan = Plan::make(AttentionProblem::forward(tensors(), options));
  if (!plan.ok()) return plan.status();
  const GuardedWorkspace workspace(plan->workspace_bytes());
  Status status = plan->run(tensors(), workspace.get());
  if (status.ok()) status = workspace.check();
  return status.ok() ? check_guards({{"out", &out}, {"lse", &lse}}) : status;
}

Status Case::backward() {
  if (device.type != DeviceType::kCpu) return unsupported("no backward on a GPU yet");
  if (!dout.present()) dout = model_of_out(*this).fill(1);
  make_and_poison(dq, like(q));
  make_and_poison(dk, like(k));
  make_and_poison(dv, like(v));
  if (bias.present()) make_and_poison(dbias, like(bias));
  if (sink.present()) make_and_poison(dsink, like(sink));
  const Result<Plan> plan = Plan::make(AttentionProblem::backward(tensors(), gradients(), options));
  if (!plan.ok()) return plan.status();
  const GuardedWorkspace workspace(plan->workspace_bytes());
  Status status = plan->run(tensors(), gradients(), workspace.get());
  if (status.ok()) status = workspace.check();
  return status.ok()
             ? check_guards(
                   {{"dq", &dq}, {"dk", &dk}, {"dv", &dv}, {"dbias", &dbias}, {"dsink", &dsink}})
             : status;
}

std::string Case::judge_forward() const {
  const auto exact = oracle::forward(tensors(), options, Precision::kExact);
  const auto plain = oracle::forward(tensors(), options, Precision::kSameDtype);
  const auto magnitude = oracle::forward(tensors(), options, Precision::kMagnitude);
  const int64_t rows = fewest_rows(*this);
  std::string fault =
      judge(*this, "lse", lse, slices_of_lse(*this), rows, exact.lse, plain.lse, magnitude.lse);
  if (!fault.empty()) return fault;
  return judge(*this, "out", out, slices_of_rows(out, cu_seqlens_q), rows, exact.out, plain.out,
               magnitude.out);
}

std::string Case::judge_backward() const {
  const auto exact = oracle::backward(tensors(), gradients(), options, Precision::kExact);
  const auto plain = oracle::backward(tensors(), gradients(), options, Precision::kSameDtype);
  const auto magnitude = oracle::backward(tensors(), gradients(), options, Precision::kMagnitude);
  const int64_t rows = fewest_rows(*this);
  std::string fault = judge(*this, "dv", dv, slices_of_rows(dv, cu_seqlens_k), rows, exact.dv,
                            plain.dv, magnitude.dv);
  if (fault.empty()) {
    fault = judge(*this, "dq", dq, slices_of_rows(dq, cu_seqlens_q), rows, exact.dq, plain.dq,
                  magnitude.dq);
  }
  if (fault.empty()) {
    fault = judge(*this, "dk", dk, slices_of_rows(dk, cu_seqlens_k), rows, exact.dk, plain.dk,
                  magnitude.dk);
  }
  const auto judge_sum = [&](const char* which, const HostTensor& sum, size_t inner,
                             std::vector<double> oracle::Backward::*values) {
    if (!fault.empty() || !sum.present() || sum.size() == 0) return;
    const int64_t size = slice_size(sum, inner);
    const bool few = size < kFewElements;
    fault = judge(*this, which, sum, slices_of_size(sum, size), few ? 1 : rows, exact.*values,
                  plain.*values, magnitude.*values);
  };
  judge_sum("dbias", dbias, 2, &oracle::Backward::dbias);
  judge_sum("dsink", dsink, 0, &oracle::Backward::dsink);
  return fault;
}

Verdict check_forward(Case& c) {
  const Verdict ran = to_verdict(c, "forward", c.forward());
  return ran.kind == Verdict::Kind::kPassed ? to_verdict(c, "forward", c.judge_forward()) : ran;
}

Verdict check_forward_and_backward(Case& c) {
  const Verdict before = check_forward(c);
  if (before.kind != Verdict::Kind::kPassed) return before;
  const Verdict ran = to_verdict(c, "backward", c.backward());
  return ran.kind == Verdict::Kind::kPassed ? to_verdict(c, "backward", c.judge_backward()) : ran;
}

void expect_right(Case& c) { report(check_forward_and_backward(c)); }
void expect_forward_right(Case& c) { report(check_forward(c)); }

}  // namespace fa4::test
