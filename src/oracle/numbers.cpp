// SPDX-License-Identifier: BSD-3-Clause
#include "oracle/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fa4::oracle {
namespace {

/// Rounds to `bits` significant bits, and to multiples of 2^lowest; the exponent has no upper end.
double round_significand(double x, int bits, int lowest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int step = std::max(std::ilogb(x) - bits + 1, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
}

}  // namespace

double read_element(const Tensor& t, int64_t offset) {
  switch (t.dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(t.data)[offset];
    case DType::kFloat64:
      return static_cast<const double*>(t.data)[offset];
    case DType::kBFloat16:
      return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(t.data)[offset]} << 16);
    case DType::kFloat16: {
      const int bits = static_cast<const uint16_t*>(t.data)[offset];
      const int exponent = bits >> 10 & 31, fraction = bits & 1023;
      double x =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      if (exponent == 31) x = fraction == 0 ? kInfinity : std::nan("");
      return (bits & 0x8000) != 0 ? -x : x;
    }
    case DType::kInt32:
      return static_cast<const int32_t*>(t.data)[offset];
    case DType::kInt64:
      return static_cast<double>(static_cast<const int64_t*>(t.data)[offset]);
    case DType::kBool:
      return static_cast<const uint8_t*>(t.data)[offset] != 0 ? 1 : 0;
  }
  return std::nan("");
}

double round_unbounded(DType dtype, double x) {
  if (dtype == DType::kFloat32) return static_cast<float>(x);
  if (dtype == DType::kBFloat16) return round_significand(x, 8, -133);
  if (dtype == DType::kFloat16) return round_significand(x, 11, -24);
  return x;
}

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{x[0]} * 0xD2511F53U, c = uint64_t{x[2]} * 0xCD9E8D57U;
    x = {static_cast<uint32_t>(c >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(c),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return x;
}

double round_to(DType dtype, double x) {
  const double rounded = round_unbounded(dtype, x);
  if (dtype == DType::kBFloat16) return static_cast<float>(rounded);
  if (dtype == DType::kFloat16 && std::abs(rounded) > 65504) return std::copysign(kInfinity, x);
  return rounded;
}

std::vector<double> read(const Tensor& t) {
  std::vector<double> values;
  if (!t.present()) return values;
  int64_t count = 1;
  for (int n = 0; n < t.rank; ++n) count *= t.dims[n];
  values.reserve(count);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, offset = 0;
    for (int n = t.rank - 1; n >= 0; --n) {
      offset += rest % t.dims[n] * t.strides[n];
      rest /= t.dims[n];
    }
    values.push_back(read_element(t, offset));
  }
  return values;
}

}  // namespace fa4::oracle
