// SPDX-License-Identifier: BSD-3-Clause
#include "cli/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

using Values = std::vector<double>;

constexpr int64_t kFewRows = 16;

/// The slice of each element, row-major; -1: no sequence has the row.
struct Slices {
  std::vector<int64_t> of_element;
  int64_t count = 0;
  bool few = false;
};

struct Compared {
  std::string name;
  const Tensor* tensor;
  Slices slices;
  const Values* exact;
  const Values* plain;
  const Values* magnitude;
};

/// What the rule needs to know of the call.
struct Rule {
  DType dtype = DType::kFloat32;
  bool softcap = false;
};

struct Slice {
  double error = 0;
  double plain_error = 0;
  double scale = 0;
  double allowed = 0;
};

int64_t elements(const Tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

double roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-53;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
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

/// Slices of q, out, k, v and their gradients.
Slices slices_of_rows(const Tensor& x, const Tensor& cu, bool few) {
  const int64_t heads = x.dims[x.rank - 2], d = x.dims[x.rank - 1];
  const std::vector<int64_t> sequences = sequence_of_rows(x, cu);
  Slices slices{{}, batch_of(x, cu) * heads, few};
  slices.of_element.reserve(static_cast<size_t>(elements(x)));
  for (const int64_t sequence : sequences) {
    for (int64_t h = 0; h < heads; ++h) {
      slices.of_element.insert(slices.of_element.end(), static_cast<size_t>(d),
                               sequence < 0 ? -1 : sequence * heads + h);
    }
  }
  return slices;
}

/// Slices of lse, [b, h, s] or [h, total].
Slices slices_of_lse(const Tensor& q, const Tensor& cu, bool few) {
  const int64_t heads = q.dims[q.rank - 2];
  const int64_t entries = q.rank == 4 ? q.dims[0] : 1;
  const int64_t rows = q.dims[q.rank - 3];
  const std::vector<int64_t> sequences = sequence_of_rows(q, cu);
  Slices slices{{}, batch_of(q, cu) * heads, few};
  for (int64_t b = 0; b < entries; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t sequence = sequences[static_cast<size_t>(b * rows + i)];
        slices.of_element.push_back(sequence < 0 ? -1 : sequence * heads + h);
      }
    }
  }
  return slices;
}

/// Slices of dbias (its last two dims are one slice) and dsink (each element is one).
Slices slices_of_trailing(const Tensor& x, int inner) {
  constexpr int64_t kFewElements = 256;
  int64_t per_slice = 1;
  for (int i = x.rank - inner; i < x.rank; ++i) per_slice *= x.dims[i];
  const int64_t count = elements(x);
  Slices slices{{}, per_slice == 0 ? 0 : count / per_slice, per_slice < kFewElements};
  for (int64_t i = 0; i < count; ++i) slices.of_element.push_back(i / per_slice);
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

bool has_few_rows(const AttentionTensors& t) {
  return std::min(fewest_rows(t.q, t.cu_seqlens_q, t.seqused_q, t.start_q),
                  fewest_rows(t.k, t.cu_seqlens_k, t.seqused_k, t.start_k)) < kFewRows;
}

/// Plain errors, scales and what each slice is allowed.
std::vector<Slice> measure(const Compared& c, const Rule& rule) {
  const DType dtype = c.tensor->dtype;
  std::vector<Slice> slices(static_cast<size_t>(c.slices.count));
  for (size_t i = 0; i < c.exact->size(); ++i) {
    if (c.slices.of_element[i] < 0) continue;
    Slice& slice = slices[static_cast<size_t>(c.slices.of_element[i])];
    slice.scale = std::max(slice.scale, (*c.magnitude)[i]);
    const double error = std::abs(oracle::round_to(dtype, (*c.plain)[i]) - (*c.exact)[i]);
    if (std::isfinite(error)) slice.plain_error = std::max(slice.plain_error, error);
  }
  const double tiny = rule.dtype == DType::kFloat64 ? 1e-10 : 1e-5;
  const double rounding = std::max(roundoff(dtype), roundoff(rule.dtype));
  for (Slice& slice : slices) {
    slice.allowed = (rule.softcap ? 3 : 2) * slice.plain_error + tiny * slice.scale +
                    (c.slices.few ? rounding * slice.scale : 0) +
                    (dtype == DType::kFloat16 ? 0x1p-25 : 0);  // half its least number
  }
  return slices;
}

/// Whether `actual` is NaN or infinite just where the reference, rounded to the dtype, is. Next to
/// the dtype's largest number either may be.
bool same_class(DType dtype, double actual, double exact, double allowed) {
  const double expected = oracle::round_to(dtype, exact);
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) == std::isinf(expected)) return !std::isinf(actual) || actual == expected;
  if (std::isinf(exact) || std::signbit(actual) != std::signbit(expected)) return false;
  return std::isinf(oracle::round_to(dtype, std::abs(exact) - allowed)) !=
         std::isinf(oracle::round_to(dtype, std::abs(exact) + allowed));
}

std::string index_of(const Tensor& tensor, int64_t flat) {
  std::string text;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    text = fmt::format("{}{}{}", flat % tensor.dims[i], text.empty() ? "" : ", ", text);
    flat /= tensor.dims[i];
  }
  return "[" + text + "]";
}

void fail(Check& check, const Compared& c, size_t i, double actual, const std::string& why) {
  if (!check.passed) return;  // The first fault is told.
  check.passed = false;
  check.fault =
      fmt::format("{}{} is {:.9g}, should be {:.9g}: {}", c.name,
                  index_of(*c.tensor, static_cast<int64_t>(i)), actual, (*c.exact)[i], why);
}

Check compare(const Compared& c, const Rule& rule) {
  Check check;
  check.name = c.name;
  const Values actual = oracle::read(*c.tensor);
  std::vector<Slice> slices = measure(c, rule);
  for (size_t i = 0; i < actual.size(); ++i) {
    const double exact = (*c.exact)[i];
    const int64_t s = c.slices.of_element[i];
    if (s < 0 || ((*c.magnitude)[i] == 0 && exact == 0)) {
      if (actual[i] != exact) fail(check, c, i, actual[i], "nothing adds to it");
      continue;
    }
    Slice& slice = slices[static_cast<size_t>(s)];
    if (!same_class(c.tensor->dtype, actual[i], exact, slice.allowed)) {
      fail(check, c, i, actual[i], "NaN or infinity out of place");
      continue;
    }
    const double error = std::abs(actual[i] - exact);
    if (!std::isfinite(error)) continue;
    slice.error = std::max(slice.error, error);
    if (error > slice.allowed) {
      fail(check, c, i, actual[i],
           fmt::format("off by {:.3g}, allowed are {:.3g}", error, slice.allowed));
    }
  }
  double worst = -1;
  for (const Slice& slice : slices) {
    const double ratio = slice.allowed > 0 ? slice.error / slice.allowed : slice.error;
    if (ratio <= worst) continue;
    worst = ratio;
    check.error = slice.error;
    check.plain_error = slice.plain_error;
    check.allowed = slice.allowed;
  }
  return check;
}

}  // namespace

std::vector<Check> check_forward(const AttentionTensors& t, const AttentionOptions& options) {
  const Rule rule{t.q.dtype, options.softcap > 0};
  const bool few = has_few_rows(t);
  const auto exact = oracle::forward(t, options, oracle::Precision::kExact);
  const auto plain = oracle::forward(t, options, oracle::Precision::kSameDtype);
  const auto size = oracle::forward(t, options, oracle::Precision::kMagnitude);
  std::vector<Check> checks;
  checks.push_back(compare({"out", &t.out, slices_of_rows(t.out, t.cu_seqlens_q, few), &exact.out,
                            &plain.out, &size.out},
                           rule));
  if (t.lse.present()) {
    checks.push_back(compare(
        {"lse", &t.lse, slices_of_lse(t.q, t.cu_seqlens_q, few), &exact.lse, &plain.lse, &size.lse},
        rule));
  }
  return checks;
}

std::vector<Check> check_backward(const AttentionTensors& t, const AttentionGradients& g,
                                  const AttentionOptions& options) {
  const Rule rule{t.q.dtype, options.softcap > 0};
  const bool few = has_few_rows(t);
  const auto exact = oracle::backward(t, g, options, oracle::Precision::kExact);
  const auto plain = oracle::backward(t, g, options, oracle::Precision::kSameDtype);
  const auto size = oracle::backward(t, g, options, oracle::Precision::kMagnitude);
  std::vector<Check> checks;
  const auto add = [&](const char* name, const Tensor& tensor, Slices slices, const Values& e,
                       const Values& p, const Values& m) {
    if (!tensor.present()) return;
    checks.push_back(compare({name, &tensor, std::move(slices), &e, &p, &m}, rule));
  };
  add("dq", g.dq, slices_of_rows(g.dq, t.cu_seqlens_q, few), exact.dq, plain.dq, size.dq);
  add("dk", g.dk, slices_of_rows(g.dk, t.cu_seqlens_k, few), exact.dk, plain.dk, size.dk);
  add("dv", g.dv, slices_of_rows(g.dv, t.cu_seqlens_k, few), exact.dv, plain.dv, size.dv);
  if (g.dbias.present()) {
    add("dbias", g.dbias, slices_of_trailing(g.dbias, 2), exact.dbias, plain.dbias, size.dbias);
  }
  if (g.dsink.present()) {
    add("dsink", g.dsink, slices_of_trailing(g.dsink, 0), exact.dsink, plain.dsink, size.dsink);
  }
  return checks;
}

bool all_passed(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.passed; });
}

}  // namespace fa4::cli
