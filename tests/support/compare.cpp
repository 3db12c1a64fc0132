// SPDX-License-Identifier: BSD-3-Clause
#include "support/compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oracle/oracle.h"

namespace fa4::test {
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

/// What is known of a slice.
struct Slice {
  double plain_error = 0;
  double largest = 0;    // of the reference
  double magnitude = 0;  // the largest sum of terms in absolute value
  double allowed = 0;
};

std::string describe(const Comparison& c, size_t flat, const std::string& what) {
  std::ostringstream text;
  text.precision(10);
  text << c.name << "[";
  size_t below = c.actual.size();
  for (size_t i = 0; i < c.dims.size(); ++i) {
    below /= c.dims[i];
    text << (i > 0 ? ", " : "") << flat / below % c.dims[i];
  }
  text << "] of " << to_string(c.dtype) << " is " << c.actual[flat] << ", should be "
       << c.expected[flat] << ": " << what;
  return text.str();
}

std::vector<Slice> measure(const Comparison& c) {
  const auto last = std::max_element(c.slice_of.begin(), c.slice_of.end());
  std::vector<Slice> slices(last == c.slice_of.end() ? 0 : *last + 1);
  for (size_t i = 0; i < c.actual.size(); ++i) {
    if (c.slice_of[i] < 0) continue;
    Slice& slice = slices[c.slice_of[i]];
    if (std::isfinite(c.expected[i])) {
      slice.largest = std::max(slice.largest, std::abs(c.expected[i]));
    }
    slice.magnitude = std::max(slice.magnitude, c.magnitude[i]);
    const double error = std::abs(oracle::round_to(c.dtype, c.plain[i]) - c.expected[i]);
    if (std::isfinite(error)) slice.plain_error = std::max(slice.plain_error, error);
  }
  const bool is_double = c.input_dtype == DType::kFloat64;
  const double of_largest = is_double ? 1e-10 : 1e-5, of_terms = is_double ? 1e-13 : 5e-7;
  // What is this small may vanish: half of float16's least number, or some values times a
  // probability that float32 (float64) holds no more.
  const double underflow = c.dtype == DType::kFloat16 ? 0x1p-25 : is_double ? 0x1p-1000 : 0x1p-110;
  const double rounding = std::max(unit_roundoff(c.dtype), unit_roundoff(c.input_dtype));
  const double factor = c.softcap || c.rows < kScatteringRows ? 3 : 2;
  for (Slice& s : slices) {
    s.allowed =
        factor * s.plain_error + of_largest * s.largest + of_terms * s.magnitude + underflow;
    if (c.rows < kFewRows) s.allowed += rounding * (s.largest + s.magnitude / 4);
  }
  return slices;
}

/// Whether `actual` is infinite or NaN just where the reference, in the dtype, is. Next to the
/// dtype's largest number either may be.
bool same_class(const Comparison& c, size_t i, double allowed) {
  const double actual = c.actual[i], expected = oracle::round_to(c.dtype, c.expected[i]);
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) == std::isinf(expected)) return !std::isinf(actual) || actual == expected;
  if (std::isinf(c.expected[i]) || std::signbit(actual) != std::signbit(expected)) return false;
  const double low = oracle::round_to(c.dtype, std::abs(c.expected[i]) - allowed);
  const double high = oracle::round_to(c.dtype, std::abs(c.expected[i]) + allowed);
  return std::isinf(low) != std::isinf(high);
}

}  // namespace

std::string compare(const Comparison& c) {
  const std::vector<Slice> slices = measure(c);
  std::string worst;
  double worst_ratio = 1;
  for (size_t i = 0; i < c.actual.size(); ++i) {
    const bool exact = c.slice_of[i] < 0 || (c.magnitude[i] == 0 && c.expected[i] == 0);
    if (exact && c.actual[i] == c.expected[i]) continue;
    if (exact) return describe(c, i, "nothing adds to it, so it must be exact");
    const Slice& slice = slices[c.slice_of[i]];
    if (!same_class(c, i, slice.allowed)) return describe(c, i, "NaN or infinity out of place");
    const double error = std::abs(c.actual[i] - c.expected[i]);
    if (!std::isfinite(error) || error <= worst_ratio * slice.allowed) continue;
    worst_ratio = slice.allowed > 0 ? error / slice.allowed : HUGE_VAL;
    std::ostringstream what;
    what << "off by " << error << "; allowed in slice " << c.slice_of[i] << ": " << slice.allowed
         << " (plain same-dtype error " << slice.plain_error << ", largest " << slice.largest
         << ", terms " << slice.magnitude << ")";
    worst = describe(c, i, what.str());
  }
  return worst;
}

}  // namespace fa4::test
