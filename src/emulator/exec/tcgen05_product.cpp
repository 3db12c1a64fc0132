// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/exec/tcgen05_product.h"

#include "emulator/exec/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/tcgen05_product.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 8 floats a vector, so that 16 lanes are whole vectors everywhere.
using Vector = hn::CappedTag<float, 8>;
constexpr uint32_t kColumns = 4;

/// Two vectors of lanes and 4 columns at once: 8 sums, which hide the latency of an addition.
HWY_INLINE void multiply_tile(const ProductBlock& p, uint32_t lane, uint32_t column) {
  const Vector v;
  const size_t n = hn::Lanes(v);
  float* d0 = p.d + column * p.d_stride + lane;
  float* d1 = d0 + p.d_stride;
  float* d2 = d1 + p.d_stride;
  float* d3 = d2 + p.d_stride;
  auto s00 = hn::Zero(v), s01 = s00, s02 = s00, s03 = s00, s10 = s00, s11 = s00, s12 = s00,
       s13 = s00;
  if (p.scale != 0) {
    const auto scale = hn::Set(v, p.scale);
    s00 = hn::Mul(scale, hn::LoadU(v, d0)), s10 = hn::Mul(scale, hn::LoadU(v, d0 + n));
    s01 = hn::Mul(scale, hn::LoadU(v, d1)), s11 = hn::Mul(scale, hn::LoadU(v, d1 + n));
    s02 = hn::Mul(scale, hn::LoadU(v, d2)), s12 = hn::Mul(scale, hn::LoadU(v, d2 + n));
    s03 = hn::Mul(scale, hn::LoadU(v, d3)), s13 = hn::Mul(scale, hn::LoadU(v, d3 + n));
  }
  const float* a = p.a + lane;
  const float* b = p.b + column;
  for (uint32_t k = 0; k < p.depth; ++k, a += p.a_stride, b += p.b_stride) {
    const auto a0 = hn::LoadU(v, a), a1 = hn::LoadU(v, a + n);
    const auto b0 = hn::Set(v, b[0]), b1 = hn::Set(v, b[1]);
    s00 = hn::MulAdd(a0, b0, s00), s10 = hn::MulAdd(a1, b0, s10);
    s01 = hn::MulAdd(a0, b1, s01), s11 = hn::MulAdd(a1, b1, s11);
    const auto b2 = hn::Set(v, b[2]), b3 = hn::Set(v, b[3]);
    s02 = hn::MulAdd(a0, b2, s02), s12 = hn::MulAdd(a1, b2, s12);
    s03 = hn::MulAdd(a0, b3, s03), s13 = hn::MulAdd(a1, b3, s13);
  }
  hn::StoreU(s00, v, d0), hn::StoreU(s10, v, d0 + n);
  hn::StoreU(s01, v, d1), hn::StoreU(s11, v, d1 + n);
  hn::StoreU(s02, v, d2), hn::StoreU(s12, v, d2 + n);
  hn::StoreU(s03, v, d3), hn::StoreU(s13, v, d3 + n);
}

}  // namespace

void multiply_block(const ProductBlock& p) {
  const auto step = static_cast<uint32_t>(2 * hn::Lanes(Vector()));
  for (uint32_t c = 0; c < p.columns; c += kColumns) {
    for (uint32_t l = 0; l < p.lanes; l += step) multiply_tile(p, l, c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator {

using exec::has_avx2;

void multiply_add(const ProductBlock& block) { FA4_EMULATOR_BEST(multiply_block(block)); }

}  // namespace fa4::emulator
#endif
