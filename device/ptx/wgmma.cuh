// SPDX-License-Identifier: BSD-3-Clause
// Warpgroup matrix products: D (64 x N, fp32, in registers) += A (64 x 16) * B (16 x N), with B in
// shared memory and A in shared memory or registers. PTX ISA 9.7.15.
//
// D's element (row, column) of warp w of the warpgroup lies in lane 4 * (row % 8) + column / 2 % 4,
// row in [16 w, 16 w + 16), at d[column / 8 * 4 + row / 8 % 2 * 2 + column % 2]. A in registers has
// the layout of two neighbouring 8-column blocks of D, packed in pairs: a product's result, once
// packed, is the next product's A.
#pragma once

#include "ptx/sync.cuh"
#include "ptx/types.cuh"

namespace fa4::ptx {

// 9.7.15.7.1 wgmma.fence: registers written before are seen by the products after
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// 9.7.15.7.2 wgmma.commit_group
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// 9.7.15.7.3 wgmma.wait_group: all but the youngest `kPending` groups are complete
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// The same, and not before the sums have been computed. ptxas moves a wait up to the products that
/// it waits for, past all arithmetic; it keeps it behind questions to barriers. So `barrier` (any
/// one) is asked about a phase that depends on the sums by a bit that is 0 (blocks have no z), and
/// the answer is dropped.
template <int kPending>
__device__ inline void wgmma_wait_after(const float (&sums)[4], u64* barrier) {
  const u32 bits = __float_as_uint(sums[0]) | __float_as_uint(sums[1]) | __float_as_uint(sums[2]) |
                   __float_as_uint(sums[3]);
  (void)mbarrier_test_wait(barrier, bits & threadIdx.z);
  wgmma_wait<kPending>();
}

/// Keeps the compiler from moving uses of `d` across this point; no instruction. Stands after the
/// wait for a product that wrote `d`, and before the first product that will.
template <class T, int kCount>
__device__ inline void pin(T (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (kSame<T, float>) {
      asm volatile("" : "+f"(d[i])::"memory");
    } else {
      asm volatile("" : "+r"(d[i])::"memory");
    }
  }
}

// The instruction names every register of D, so that each N needs its own text. FA4_PLACES_g and
// FA4_OPERANDS_g name the first 8 g registers; FA4_WGMMA makes the functions of one N.
#define FA4_PLACES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FA4_PLACES_2 FA4_PLACES_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FA4_PLACES_3 FA4_PLACES_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FA4_PLACES_4 FA4_PLACES_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FA4_PLACES_5 FA4_PLACES_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FA4_PLACES_6 FA4_PLACES_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FA4_PLACES_7 FA4_PLACES_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FA4_PLACES_8 FA4_PLACES_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FA4_PLACES_9 FA4_PLACES_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FA4_PLACES_10 FA4_PLACES_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FA4_PLACES_11 FA4_PLACES_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FA4_PLACES_12 FA4_PLACES_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FA4_PLACES_13 FA4_PLACES_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define FA4_PLACES_14 FA4_PLACES_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define FA4_PLACES_15 FA4_PLACES_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define FA4_PLACES_16 FA4_PLACES_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FA4_OPERANDS(d, i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define FA4_OPERANDS_1(d) FA4_OPERANDS(d, 0)
#define FA4_OPERANDS_2(d) FA4_OPERANDS_1(d), FA4_OPERANDS(d, 8)
#define FA4_OPERANDS_3(d) FA4_OPERANDS_2(d), FA4_OPERANDS(d, 16)
#define FA4_OPERANDS_4(d) FA4_OPERANDS_3(d), FA4_OPERANDS(d, 24)
#define FA4_OPERANDS_5(d) FA4_OPERANDS_4(d), FA4_OPERANDS(d, 32)
#define FA4_OPERANDS_6(d) FA4_OPERANDS_5(d), FA4_OPERANDS(d, 40)
#define FA4_OPERANDS_7(d) FA4_OPERANDS_6(d), FA4_OPERANDS(d, 48)
#define FA4_OPERANDS_8(d) FA4_OPERANDS_7(d), FA4_OPERANDS(d, 56)
#define FA4_OPERANDS_9(d) FA4_OPERANDS_8(d), FA4_OPERANDS(d, 64)
#define FA4_OPERANDS_10(d) FA4_OPERANDS_9(d), FA4_OPERANDS(d, 72)
#define FA4_OPERANDS_11(d) FA4_OPERANDS_10(d), FA4_OPERANDS(d, 80)
#define FA4_OPERANDS_12(d) FA4_OPERANDS_11(d), FA4_OPERANDS(d, 88)
#define FA4_OPERANDS_13(d) FA4_OPERANDS_12(d), FA4_OPERANDS(d, 96)
#define FA4_OPERANDS_14(d) FA4_OPERANDS_13(d), FA4_OPERANDS(d, 104)
#define FA4_OPERANDS_15(d) FA4_OPERANDS_14(d), FA4_OPERANDS(d, 112)
#define FA4_OPERANDS_16(d) FA4_OPERANDS_15(d), FA4_OPERANDS(d, 120)

// 9.7.15.5.2 wgmma.mma_async, A by descriptor and A in registers; A K-major, B K-major or MN-major
// (kTransposeB). Arguments: N, N / 16, the element type's tag and name, the numbers of the operands
// after D.
#define FA4_WGMMA(N, G, Tag, type, r0, r1, r2, r3, r4, r5, r6)                                \
  template <int kTransposeB>                                                                  \
  __device__ inline void wgmma_shared(Tag, float(&d)[N / 2], u64 a, u64 b, bool accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r2                                     \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type              \
                 " {" FA4_PLACES_##G "}, %" #r0 ", %" #r1 ", p, 1, 1, 0, %" #r3 ";\n}"        \
                 : FA4_OPERANDS_##G(d)                                                        \
                 : "l"(a), "l"(b), "r"(static_cast<i32>(accumulate)), "n"(kTransposeB));      \
  }                                                                                           \
  template <int kTransposeB>                                                                  \
  __device__ inline void wgmma_registers(Tag, float(&d)[N / 2], const u32* a, u64 b,          \
                                         bool accumulate) {                                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r5                                     \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type              \
                 " {" FA4_PLACES_##G "}, {%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4     \
                                     ", p, 1, 1, %" #r6 ";\n}"                                \
                 : FA4_OPERANDS_##G(d)                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                        \
                   "r"(static_cast<i32>(accumulate)), "n"(kTransposeB));                      \
  }
#define FA4_WGMMA_TYPES(N, G, ...)           \
  FA4_WGMMA(N, G, Bf16, "bf16", __VA_ARGS__) \
  FA4_WGMMA(N, G, Fp16, "f16", __VA_ARGS__)

FA4_WGMMA_TYPES(16, 1, 8, 9, 10, 11, 12, 13, 14)
FA4_WGMMA_TYPES(32, 2, 16, 17, 18, 19, 20, 21, 22)
FA4_WGMMA_TYPES(48, 3, 24, 25, 26, 27, 28, 29, 30)
FA4_WGMMA_TYPES(64, 4, 32, 33, 34, 35, 36, 37, 38)
FA4_WGMMA_TYPES(80, 5, 40, 41, 42, 43, 44, 45, 46)
FA4_WGMMA_TYPES(96, 6, 48, 49, 50, 51, 52, 53, 54)
FA4_WGMMA_TYPES(112, 7, 56, 57, 58, 59, 60, 61, 62)
FA4_WGMMA_TYPES(128, 8, 64, 65, 66, 67, 68, 69, 70)
FA4_WGMMA_TYPES(144, 9, 72, 73, 74, 75, 76, 77, 78)
FA4_WGMMA_TYPES(160, 10, 80, 81, 82, 83, 84, 85, 86)
FA4_WGMMA_TYPES(176, 11, 88, 89, 90, 91, 92, 93, 94)
FA4_WGMMA_TYPES(192, 12, 96, 97, 98, 99, 100, 101, 102)
FA4_WGMMA_TYPES(208, 13, 104, 105, 106, 107, 108, 109, 110)
FA4_WGMMA_TYPES(224, 14, 112, 113, 114, 115, 116, 117, 118)
FA4_WGMMA_TYPES(240, 15, 120, 121, 122, 123, 124, 125, 126)
FA4_WGMMA_TYPES(256, 16, 128, 129, 130, 131, 132, 133, 134)

#undef FA4_WGMMA_TYPES
#undef FA4_WGMMA

}  // namespace fa4::ptx
