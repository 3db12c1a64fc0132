// SPDX-License-Identifier: BSD-3-Clause
#include "oracle/judge.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oracle/numbers.h"

namespace fa4::oracle {
namespace {

constexpr int64_t kScatteringRows = 64;
constexpr int64_t kFewRows = 16;

double unit_roundoff(DType dtype) {
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

struct Slice {
  Extent extent;
  double allowed = 0;
  double error = 0;
};

std::string describe(const Comparison& c, size_t flat, const std::string& what) {
  std::ostringstream text;
  text.precision(10);
  text << c.name << "[";
  size_t below = c.actual.size();
  for (size_t i = 0; i < c.dims.size(); ++i) {
    below /= static_cast<size_t>(c.dims[i]);
    text << (i > 0 ? ", " : "") << flat / below % static_cast<size_t>(c.dims[i]);
  }
  text << "] of " << to_string(c.kind.dtype) << " is " << c.actual[flat] << ", should be "
       << c.expected[flat] << ": " << what;
  return text.str();
}

std::string too_large(const Comparison& c, size_t i, const Slice& slice, double error) {
  std::ostringstream what;
  what << "off by " << error << "; allowed in slice " << c.slice_of[i] << ": " << slice.allowed
       << " (plain same-dtype error " << slice.extent.plain_error << ", largest "
       << slice.extent.largest << ", terms " << slice.extent.magnitude << ")";
  return describe(c, i, what.str());
}

std::vector<Slice> measure(const Comparison& c) {
  const auto last = std::max_element(c.slice_of.begin(), c.slice_of.end());
  std::vector<Slice> slices(last == c.slice_of.end() ? 0 : static_cast<size_t>(*last + 1));
  for (size_t i = 0; i < c.actual.size(); ++i) {
    if (c.slice_of[i] < 0) continue;
    Extent& extent = slices[static_cast<size_t>(c.slice_of[i])].extent;
    if (std::isfinite(c.expected[i])) {
      extent.largest = std::max(extent.largest, std::abs(c.expected[i]));
    }
    extent.magnitude = std::max(extent.magnitude, c.magnitude[i]);
    const double error = std::abs(round_to(c.kind.dtype, c.plain[i]) - c.expected[i]);
    if (std::isfinite(error)) extent.plain_error = std::max(extent.plain_error, error);
  }
  for (Slice& slice : slices) slice.allowed = allowed_error(c.kind, slice.extent);
  return slices;
}

/// Whether `actual` is infinite or NaN just where the reference, in the dtype, is. Next to the
/// dtype's largest number either may be.
bool same_class(const Comparison& c, size_t i, double allowed) {
  const DType dtype = c.kind.dtype;
  const double actual = c.actual[i], expected = round_to(dtype, c.expected[i]);
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) == std::isinf(expected)) return !std::isinf(actual) || actual == expected;
  if (std::isinf(c.expected[i]) || std::signbit(actual) != std::signbit(expected)) return false;
  const double low = round_to(dtype, std::abs(c.expected[i]) - allowed);
  const double high = round_to(dtype, std::abs(c.expected[i]) + allowed);
  return std::isinf(low) != std::isinf(high);
}

/// What is wrong with an element apart from its size; empty if nothing.
std::string misplaced(const Comparison& c, size_t i, const std::vector<Slice>& slices) {
  const bool exact = c.slice_of[i] < 0 || (c.magnitude[i] == 0 && c.expected[i] == 0);
  if (exact) {
    if (c.actual[i] == c.expected[i]) return "";
    return describe(c, i, "nothing adds to it, so it must be exact");
  }
  if (same_class(c, i, slices[static_cast<size_t>(c.slice_of[i])].allowed)) return "";
  return describe(c, i, "NaN or infinity out of place");
}

/// Error beside what is allowed: above 1 it is too large.
double share(const Slice& slice, double error) {
  return slice.allowed > 0 ? error / slice.allowed : error > 0 ? HUGE_VAL : 0;
}

}  // namespace

double allowed_error(const Kind& kind, const Extent& extent) {
  const bool is_double = kind.input_dtype == DType::kFloat64;
  const double of_largest = is_double ? 1e-10 : 1e-5, of_terms = is_double ? 1e-13 : 5e-7;
  // What is this small may vanish: half of float16's least number, or some values times a
  // probability that float32 (float64) holds no more.
  const double underflow = kind.dtype == DType::kFloat16 ? 0x1p-25
                           : is_double                   ? 0x1p-1000
                                                         : 0x1p-110;
  const double factor = kind.softcap || kind.rows < kScatteringRows ? 3 : 2;
  double allowed = factor * extent.plain_error + of_largest * extent.largest +
                   of_terms * extent.magnitude + underflow;
  const double rounding = std::max(unit_roundoff(kind.dtype), unit_roundoff(kind.input_dtype));
  if (kind.rows < kScatteringRows && extent.largest > 0) {
    const double below =
        std::exp2(std::ilogb(extent.largest));  // numbers there are 2 roundings apart
    allowed = std::max(allowed, rounding * (extent.largest + below));
  }
  if (kind.rows < kFewRows) {
    allowed += rounding * (extent.largest + extent.magnitude / 4);
  }
  return allowed;
}

Verdict judge(const Comparison& c) {
  std::vector<Slice> slices = measure(c);
  Verdict verdict;
  double worst_share = 1;  // of single elements: above it something is wrong
  for (size_t i = 0; i < c.actual.size(); ++i) {
    const std::string fault = misplaced(c, i, slices);
    if (!fault.empty()) {
      verdict.fault = fault;
      break;
    }
    if (c.slice_of[i] < 0) continue;
    Slice& slice = slices[static_cast<size_t>(c.slice_of[i])];
    const double error = std::abs(c.actual[i] - c.expected[i]);
    if (!std::isfinite(error)) continue;
    slice.error = std::max(slice.error, error);
    if (share(slice, error) <= worst_share) continue;
    worst_share = share(slice, error);
    verdict.fault = too_large(c, i, slice, error);
  }
  double worst = -1;
  for (const Slice& slice : slices) {
    if (share(slice, slice.error) <= worst) continue;
    worst = share(slice, slice.error);
    verdict.error = slice.error;
    verdict.plain_error = slice.extent.plain_error;
    verdict.allowed = slice.allowed;
  }
  return verdict;
}

}  // namespace fa4::oracle
