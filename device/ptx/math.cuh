// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic instructions that C++ has no word for, and stmatrix.
#pragma once

#include "ptx/types.cuh"

namespace fa4::ptx {

// 9.7.3.21 ex2.approx: 2^x by the special function unit, subnormal results flushed to 0
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 9.7.3.20 lg2.approx
__device__ inline float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 9.7.3.13 rcp.approx
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 9.7.3.22 tanh.approx
__device__ inline float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 9.7.3.6 fma.rn
__device__ inline float fma(float a, float b, float c) {
  float y;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}

// 9.7.3.12 max
__device__ inline float max(float a, float b) {
  float y;
  asm("max.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 9.7.3.11 min
__device__ inline float min(float a, float b) {
  float y;
  asm("min.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 9.7.3.12 max.NaN: NaN if an operand is
__device__ inline float max_nan(float a, float b) {
  float y;
  asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 9.7.3.11 min.NaN
__device__ inline float min_nan(float a, float b) {
  float y;
  asm("min.NaN.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 9.7.3.3 add.rm: rounds towards minus infinity
__device__ inline float add_round_down(float a, float b) {
  float y;
  asm("add.rm.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 9.7.9.21 cvt.rn.bf16x2: `low` in the lower half
__device__ inline u32 pack(Bf16, float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// 9.7.9.21 cvt.rn.f16x2
__device__ inline u32 pack(Fp16, float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// 9.7.9.21 cvt.f32.f16; a bfloat16 is the upper half of a float
__device__ inline float unpack(Fp16, u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline float unpack(Bf16, u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); }

// 9.7.14.5.15 ldmatrix.x4: four 8x8 matrices; lane i gives the address of row i % 8 of matrix i / 8
__device__ inline void load_matrix_x4(const void* row, u32* a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_address(row))
               : "memory");
}

// 9.7.14.5.14 mma.m16n8k16: d += a * b, 16 x 8 of them, by one warp. Layouts of a and d as those of
// wgmma (one 8-column block); b as that of a, transposed: two 8x8 matrices of ldmatrix from B's
// columns.
#define FA4_MMA(Tag, type)                                                              \
  __device__ inline void mma(Tag, float* d, const u32(&a)[4], u32 b0, u32 b1) {         \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));       \
  }
FA4_MMA(Bf16, "bf16")
FA4_MMA(Fp16, "f16")
#undef FA4_MMA

// 9.7.14.5.16 stmatrix.x4: four 8x8 matrices of 16-bit elements; lane i gives the address of row
// i % 8 of matrix i / 8
__device__ inline void store_matrix_x4(void* row, u32 a, u32 b, u32 c, u32 d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

}  // namespace fa4::ptx
