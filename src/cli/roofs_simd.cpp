// SPDX-License-Identifier: BSD-3-Clause
// The probes that Highway compiles for each vector unit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cli/roofs_simd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cli/roofs.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cli::probe {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Multiply-adds in flight: latency (4 or 5 cycles) times 2 a cycle, and no more than AVX2's
// registers hold beside the two constants.
constexpr int kChains = 12;

const char* Name() { return hwy::TargetName(HWY_TARGET); }

int64_t FlopsOfFma() { return int64_t{2} * kChains * static_cast<int64_t>(hn::Lanes(D())); }

float Fma(int64_t iterations) {
  const D d;
  const V a = hn::Set(d, 0.999F), b = hn::Set(d, 0.001F);
  V c0 = hn::Iota(d, 1), c1 = c0 + b, c2 = c1 + b, c3 = c2 + b, c4 = c3 + b, c5 = c4 + b;
  V c6 = c5 + b, c7 = c6 + b, c8 = c7 + b, c9 = c8 + b, c10 = c9 + b, c11 = c10 + b;
  for (int64_t i = 0; i < iterations; ++i) {
    c0 = hn::MulAdd(c0, a, b);
    c1 = hn::MulAdd(c1, a, b);
    c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b);
    c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b);
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b);
    c10 = hn::MulAdd(c10, a, b);
    c11 = hn::MulAdd(c11, a, b);
  }
  const V sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Two vectors of float32 from as many bfloat16 numbers, an instruction each: the even ones
/// shifted, the odd ones masked.
void Widen(D d, const uint16_t* x, V& even, V& odd) {
#if HWY_TARGET == HWY_SCALAR
  const hn::RebindToUnsigned<D> d32;
  even = hn::BitCast(d, hn::Set(d32, uint32_t{x[0]} << 16));
  odd = hn::BitCast(d, hn::Set(d32, uint32_t{x[1]} << 16));
#else
  const hn::Repartition<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto both = hn::BitCast(d32, hn::LoadU(d16, x));
  even = hn::BitCast(d, hn::ShiftLeft<16>(both));
  odd = hn::BitCast(d, hn::And(both, hn::Set(d32, 0xFFFF0000U)));
#endif
}

/// Eight sums, to each of which one vector in eight goes, or every vector.
template <int kUses>
float WidenedFma(const uint16_t* x, int64_t count, int64_t rounds) {
  constexpr int kPairs = kUses == 1 ? 4 : 1;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, 0.999F);
  V s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) s[i] = hn::Set(d, static_cast<float>(i));
  // The count is a power of two, so that `at` goes through it again and again.
  for (int64_t i = 0; i < rounds * count; i += 2 * kPairs * lanes) {
    const uint16_t* at = x + (i & (count - 1));
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
      V even, odd;
      Widen(d, at + 2 * pair * lanes, even, odd);
#pragma GCC unroll 8
      for (int u = 0; u < kUses; ++u) {
        const int other = kUses == 1 ? 2 * pair + 1 : u;
        s[2 * pair + u] = hn::MulAdd(even, factor, s[2 * pair + u]);
        s[other] = hn::MulAdd(odd, factor, s[other]);
      }
    }
  }
  const V sum = (s[0] + s[1]) + (s[2] + s[3]) + ((s[4] + s[5]) + (s[6] + s[7]));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

float WidenedFmaOnce(const uint16_t* x, int64_t count, int64_t rounds) {
  return WidenedFma<1>(x, count, rounds);
}
float WidenedFmaOften(const uint16_t* x, int64_t count, int64_t rounds) {
  return WidenedFma<8>(x, count, rounds);
}

/// 2^x for x <= 0: x = n + f with |f| <= 1/2, a polynomial of degree 5 in f, and n added to the
/// exponent. The coefficients are those of the Taylor series: a probe needs their number, not the
/// last bit.
V Exp2(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Max(x, hn::Set(d, -126.0F));
  const V n = hn::Round(x);
  const V f = x - n;
  V p = hn::MulAdd(f, hn::Set(d, 1.3333558e-3F), hn::Set(d, 9.6181291e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5504109e-2F));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022651e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 6.9314718e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  return hn::BitCast(d, hn::BitCast(di, p) + exponent);
}

float Exp2OfMany(const float* x, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < count; i += 4 * lanes) {
    s0 = s0 + Exp2(d, hn::LoadU(d, x + i));
    s1 = s1 + Exp2(d, hn::LoadU(d, x + i + lanes));
    s2 = s2 + Exp2(d, hn::LoadU(d, x + i + 2 * lanes));
    s3 = s3 + Exp2(d, hn::LoadU(d, x + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, (s0 + s1) + (s2 + s3)));
}

V SumOf(D d, const float* x, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < count; i += 4 * lanes) {
    s0 = s0 + hn::LoadU(d, x + i);
    s1 = s1 + hn::LoadU(d, x + i + lanes);
    s2 = s2 + hn::LoadU(d, x + i + 2 * lanes);
    s3 = s3 + hn::LoadU(d, x + i + 3 * lanes);
  }
  return (s0 + s1) + (s2 + s3);
}

float Read(const float* x, int64_t count) {
  const D d;
  return hn::GetLane(hn::SumOfLanes(d, SumOf(d, x, count)));
}

float ReadStreams(const float* x, int64_t count) {
  constexpr int64_t kStreams = 8, kTurn = 64;
  const D d;
  V sum = hn::Zero(d);
  const int64_t each = count / kStreams;
  for (int64_t i = 0; i < each; i += kTurn) {
    for (int64_t s = 0; s < kStreams; ++s) sum = sum + SumOf(d, x + s * each + i, kTurn);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fa4::cli::probe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::cli::probe {

HWY_EXPORT(Name);
HWY_EXPORT(FlopsOfFma);
HWY_EXPORT(Fma);
HWY_EXPORT(Exp2OfMany);
HWY_EXPORT(WidenedFmaOnce);
HWY_EXPORT(WidenedFmaOften);
HWY_EXPORT(Read);
HWY_EXPORT(ReadStreams);

const char* target_name() { return HWY_DYNAMIC_DISPATCH(Name)(); }
int64_t flops_of_fma() { return HWY_DYNAMIC_DISPATCH(FlopsOfFma)(); }
float fma(int64_t iterations) { return HWY_DYNAMIC_DISPATCH(Fma)(iterations); }
float widened_fma(const uint16_t* x, int64_t count, int64_t rounds, int uses) {
  if (uses == 1) return HWY_DYNAMIC_DISPATCH(WidenedFmaOnce)(x, count, rounds);
  return HWY_DYNAMIC_DISPATCH(WidenedFmaOften)(x, count, rounds);
}
float exp2(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(Exp2OfMany)(x, count); }
float read(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(Read)(x, count); }
float read_streams(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ReadStreams)(x, count);
}

}  // namespace fa4::cli::probe
#endif
