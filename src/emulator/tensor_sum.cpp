// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/tensor_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/numeric.h"

namespace fa4::emulator {
namespace {

constexpr int kNoExponent = -10000;

int exponent_of(float x) {
  const int biased = static_cast<int>(std::bit_cast<uint32_t>(x) >> 23 & 255);
  if (biased != 0) return biased - 127;
  return x == 0 ? kNoExponent : std::ilogb(x);
}

/// Infinities and NaNs need no care: float32 has the same.
float plain_sum(const Factors& f, float c) {
  float sum = c;
  for (uint32_t k = 0; k < f.depth; ++k) sum += f.a[k * f.a_step] * f.b[k * f.b_step];
  return std::isnan(sum) ? canonical_nan() : sum;
}

}  // namespace

float hopper_sum(const Factors& f, float c, int bits) {
  int top = exponent_of(c);
  bool finite = top < 128;
  for (uint32_t k = 0; k < f.depth; ++k) {
    const int a = exponent_of(f.a[k * f.a_step]), b = exponent_of(f.b[k * f.b_step]);
    finite = finite && a < 128 && b < 128;
    top = std::max(top, a + b);
  }
  if (!finite) return plain_sum(f, c);
  if (top < kNoExponent / 2) return 0;  // nothing but zeros
  // float64 holds products, scaled terms and the value of the sum exactly.
  const auto power = [](int e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  const double scale = power(bits - top);
  int64_t sum = static_cast<int64_t>(static_cast<double>(c) * scale);
  for (uint32_t k = 0; k < f.depth; ++k) {
    const double product =
        static_cast<double>(f.a[k * f.a_step]) * static_cast<double>(f.b[k * f.b_step]);
    sum += static_cast<int64_t>(product * scale);
  }
  const float result = round_float(static_cast<double>(sum) * power(top - bits), 0, Round::kZero);
  const uint32_t dropped = bits < 23 ? (1u << (23 - bits)) - 1 : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) & ~dropped);
}

}  // namespace fa4::emulator
