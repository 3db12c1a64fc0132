// SPDX-License-Identifier: BSD-3-Clause
#include "cli/check.h"

#include <algorithm>
#include <array>
#include <utility>

#include "oracle/judge.h"
#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

using Values = std::vector<double>;
using oracle::Precision;

/// The slice of each element, row-major; -1: no sequence has the row.
struct Slices {
  std::vector<int> of_element;
  int64_t rows = 0;  ///< The fewest rows that a slice sums over or is made of.
};

int64_t elements(const Tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

/// The sequence of each row of [b, s, h, d] or packed [total, h, d].
std::vector<int64_t> sequence_of_rows(const Tensor& x, const Tensor& cu) {
  if (x.rank == 4) {
    std::vector<int64_t> sequences(static_cast<size_t>(x.dims[0] * x.dims[1]));
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i] = static_cast<int64_t>(i) / x.dims[1];
    }
    return sequences;
  }
  std::vector<int64_t> sequences(static_cast<size_t>(x.dims[0]), -1);
  const Values ends = oracle::read(cu);
  for (size_t b = 0; b + 1 < ends.size(); ++b) {
    std::fill(sequences.begin() + static_cast<int64_t>(ends[b]),
              sequences.begin() + static_cast<int64_t>(ends[b + 1]), static_cast<int64_t>(b));
  }
  return sequences;
}

int64_t batch_of(const Tensor& x, const Tensor& cu) {
  return x.rank == 4 ? x.dims[0] : cu.dims[0] - 1;
}

int slice_at(int64_t sequence, int64_t heads, int64_t h) {
  return sequence < 0 ? -1 : static_cast<int>(sequence * heads + h);
}

/// Slices of q, out, k, v and their gradients.
Slices slices_of_rows(const Tensor& x, const Tensor& cu, int64_t fewest) {
  const int64_t heads = x.dims[x.rank - 2], d = x.dims[x.rank - 1];
  Slices slices{{}, fewest};
  slices.of_element.reserve(static_cast<size_t>(elements(x)));
  for (const int64_t sequence : sequence_of_rows(x, cu)) {
    for (int64_t h = 0; h < heads; ++h) {
      slices.of_element.insert(slices.of_element.end(), static_cast<size_t>(d),
                               slice_at(sequence, heads, h));
    }
  }
  return slices;
}

/// Slices of lse, [b, h, s] or [h, total].
Slices slices_of_lse(const Tensor& q, const Tensor& cu, int64_t fewest) {
  const int64_t heads = q.dims[q.rank - 2];
  const int64_t entries = q.rank == 4 ? q.dims[0] : 1;
  const int64_t rows = q.dims[q.rank - 3];
  const std::vector<int64_t> sequences = sequence_of_rows(q, cu);
  Slices slices{{}, fewest};
  for (int64_t b = 0; b < entries; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t sequence = sequences[static_cast<size_t>(b * rows + i)];
        slices.of_element.push_back(slice_at(sequence, heads, h));
      }
    }
  }
  return slices;
}

/// Slices of dbias (its last two dims are one slice) and dsink (each element is one). A slice of
/// few elements is judged as one of few rows.
Slices slices_of_trailing(const Tensor& x, int inner, int64_t fewest) {
  constexpr int64_t kFewElements = 256;
  int64_t per_slice = 1;
  for (int i = x.rank - inner; i < x.rank; ++i) per_slice *= x.dims[i];
  const int64_t count = elements(x);
  Slices slices{{}, per_slice < kFewElements ? 1 : fewest};
  for (int64_t i = 0; i < count; ++i) {
    slices.of_element.push_back(static_cast<int>(i / per_slice));
  }
  return slices;
}

/// The fewest rows that count in any sequence of one side.
int64_t fewest_rows(const Tensor& x, const Tensor& cu, const Tensor& used, const Tensor& start) {
  const auto read = [](const Tensor& t) { return t.present() ? oracle::read(t) : Values{}; };
  const Values ends = read(cu), useds = read(used), starts = read(start);
  int64_t fewest = INT64_MAX;
  for (int64_t b = 0; b < batch_of(x, cu); ++b) {
    const auto i = static_cast<size_t>(b);
    double rows = x.rank == 4 ? static_cast<double>(x.dims[1]) : ends[i + 1] - ends[i];
    if (!useds.empty()) rows = useds[i];
    if (!starts.empty()) rows -= starts[i];
    fewest = std::min(fewest, static_cast<int64_t>(rows));
  }
  return fewest;
}

int64_t fewest_rows(const AttentionTensors& t) {
  return std::min(fewest_rows(t.q, t.cu_seqlens_q, t.seqused_q, t.start_q),
                  fewest_rows(t.k, t.cu_seqlens_k, t.seqused_k, t.start_k));
}

/// What the oracle's three results say of one tensor.
Check compare(const char* name, const Tensor& tensor, Slices slices, const AttentionTensors& t,
              const AttentionOptions& options, std::array<Values, 3> references) {
  oracle::Comparison c;
  c.name = name;
  c.kind = {tensor.dtype, t.q.dtype, options.softcap > 0, slices.rows};
  c.dims.assign(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
  c.actual = oracle::read(tensor);
  c.slice_of = std::move(slices.of_element);
  c.expected = std::move(references[0]);
  c.plain = std::move(references[1]);
  c.magnitude = std::move(references[2]);
  const oracle::Verdict verdict = oracle::judge(c);
  return {name,         verdict.error, verdict.plain_error, verdict.allowed, verdict.right(),
          verdict.fault};
}

}  // namespace

ForwardReference forward_reference(const AttentionTensors& t, const AttentionOptions& options) {
  return {oracle::forward(t, options, Precision::kExact),
          oracle::forward(t, options, Precision::kSameDtype),
          oracle::forward(t, options, Precision::kMagnitude)};
}

BackwardReference backward_reference(const AttentionTensors& t, const AttentionGradients& g,
                                     const AttentionOptions& options) {
  return {oracle::backward(t, g, options, Precision::kExact),
          oracle::backward(t, g, options, Precision::kSameDtype),
          oracle::backward(t, g, options, Precision::kMagnitude)};
}

std::vector<Check> check_forward(const AttentionTensors& t, const AttentionOptions& options,
                                 const ForwardReference& r) {
  const int64_t fewest = fewest_rows(t);
  std::vector<Check> checks = {compare("out", t.out, slices_of_rows(t.out, t.cu_seqlens_q, fewest),
                                       t, options, {r.exact.out, r.plain.out, r.magnitude.out})};
  if (t.lse.present()) {
    checks.push_back(compare("lse", t.lse, slices_of_lse(t.q, t.cu_seqlens_q, fewest), t, options,
                             {r.exact.lse, r.plain.lse, r.magnitude.lse}));
  }
  return checks;
}

std::vector<Check> check_forward(const AttentionTensors& t, const AttentionOptions& options) {
  return check_forward(t, options, forward_reference(t, options));
}

std::vector<Check> check_backward(const AttentionTensors& t, const AttentionGradients& g,
                                  const AttentionOptions& options, const BackwardReference& r) {
  const int64_t fewest = fewest_rows(t);
  std::vector<Check> checks;
  const auto add = [&](const char* name, const Tensor& tensor, Slices slices,
                       Values oracle::Backward::*part) {
    checks.push_back(compare(name, tensor, std::move(slices), t, options,
                             {r.exact.*part, r.plain.*part, r.magnitude.*part}));
  };
  add("dq", g.dq, slices_of_rows(g.dq, t.cu_seqlens_q, fewest), &oracle::Backward::dq);
  add("dk", g.dk, slices_of_rows(g.dk, t.cu_seqlens_k, fewest), &oracle::Backward::dk);
  add("dv", g.dv, slices_of_rows(g.dv, t.cu_seqlens_k, fewest), &oracle::Backward::dv);
  if (g.dbias.present()) {
    add("dbias", g.dbias, slices_of_trailing(g.dbias, 2, fewest), &oracle::Backward::dbias);
  }
  if (g.dsink.present()) {
    add("dsink", g.dsink, slices_of_trailing(g.dsink, 0, fewest), &oracle::Backward::dsink);
  }
  return checks;
}

std::vector<Check> check_backward(const AttentionTensors& t, const AttentionGradients& g,
                                  const AttentionOptions& options) {
  return check_backward(t, g, options, backward_reference(t, g, options));
}

bool all_passed(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.passed; });
}

}  // namespace fa4::cli
