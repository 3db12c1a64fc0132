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
/// wait for a product that wrote `d`, and before the fence of one that reads what instructions just
/// before have written. One statement a register: one with all of them takes the compiler longer.
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

// What a descriptor gains from one step of 16 along K to the next, in a tile of the 128-byte
// swizzle.
constexpr u64 kStepKMajor = 16 * 2 / 16;
constexpr u64 kStepMnMajor = 16 * 128 / 16;

// The instruction names every register of D, so that each N needs its own text. FA4_FOUR_i names
// the i-th four operands, FA4_PLACES_g and FA4_OPERANDS_g the first 8 g registers of D; FA4_WGMMA
// makes the functions of one N.
#define FA4_FOUR_0 "%0, %1, %2, %3"
#define FA4_FOUR_1 "%4, %5, %6, %7"
#define FA4_FOUR_2 "%8, %9, %10, %11"
#define FA4_FOUR_3 "%12, %13, %14, %15"
#define FA4_FOUR_4 "%16, %17, %18, %19"
#define FA4_FOUR_5 "%20, %21, %22, %23"
#define FA4_FOUR_6 "%24, %25, %26, %27"
#define FA4_FOUR_7 "%28, %29, %30, %31"
#define FA4_FOUR_8 "%32, %33, %34, %35"
#define FA4_FOUR_9 "%36, %37, %38, %39"
#define FA4_FOUR_10 "%40, %41, %42, %43"
#define FA4_FOUR_11 "%44, %45, %46, %47"
#define FA4_FOUR_12 "%48, %49, %50, %51"
#define FA4_FOUR_13 "%52, %53, %54, %55"
#define FA4_FOUR_14 "%56, %57, %58, %59"
#define FA4_FOUR_15 "%60, %61, %62, %63"
#define FA4_FOUR_16 "%64, %65, %66, %67"
#define FA4_FOUR_17 "%68, %69, %70, %71"
#define FA4_FOUR_18 "%72, %73, %74, %75"
#define FA4_FOUR_19 "%76, %77, %78, %79"
#define FA4_FOUR_20 "%80, %81, %82, %83"
#define FA4_FOUR_21 "%84, %85, %86, %87"
#define FA4_FOUR_22 "%88, %89, %90, %91"
#define FA4_FOUR_23 "%92, %93, %94, %95"
#define FA4_FOUR_24 "%96, %97, %98, %99"
#define FA4_FOUR_25 "%100, %101, %102, %103"
#define FA4_FOUR_26 "%104, %105, %106, %107"
#define FA4_FOUR_27 "%108, %109, %110, %111"
#define FA4_FOUR_28 "%112, %113, %114, %115"
#define FA4_FOUR_29 "%116, %117, %118, %119"
#define FA4_FOUR_30 "%120, %121, %122, %123"
#define FA4_FOUR_31 "%124, %125, %126, %127"
#define FA4_FOUR_32 "%128, %129, %130, %131"
#define FA4_FOUR_33 "%132, %133, %134, %135"
#define FA4_FOUR_34 "%136, %137, %138, %139"
#define FA4_FOUR_35 "%140, %141, %142, %143"
#define FA4_FOUR_36 "%144, %145, %146, %147"
#define FA4_FOUR_37 "%148, %149, %150, %151"
#define FA4_PLACES_1 FA4_FOUR_0 ", " FA4_FOUR_1
#define FA4_PLACES_2 FA4_PLACES_1 ", " FA4_FOUR_2 ", " FA4_FOUR_3
#define FA4_PLACES_3 FA4_PLACES_2 ", " FA4_FOUR_4 ", " FA4_FOUR_5
#define FA4_PLACES_4 FA4_PLACES_3 ", " FA4_FOUR_6 ", " FA4_FOUR_7
#define FA4_PLACES_5 FA4_PLACES_4 ", " FA4_FOUR_8 ", " FA4_FOUR_9
#define FA4_PLACES_6 FA4_PLACES_5 ", " FA4_FOUR_10 ", " FA4_FOUR_11
#define FA4_PLACES_7 FA4_PLACES_6 ", " FA4_FOUR_12 ", " FA4_FOUR_13
#define FA4_PLACES_8 FA4_PLACES_7 ", " FA4_FOUR_14 ", " FA4_FOUR_15
#define FA4_PLACES_9 FA4_PLACES_8 ", " FA4_FOUR_16 ", " FA4_FOUR_17
#define FA4_PLACES_10 FA4_PLACES_9 ", " FA4_FOUR_18 ", " FA4_FOUR_19
#define FA4_PLACES_11 FA4_PLACES_10 ", " FA4_FOUR_20 ", " FA4_FOUR_21
#define FA4_PLACES_12 FA4_PLACES_11 ", " FA4_FOUR_22 ", " FA4_FOUR_23
#define FA4_PLACES_13 FA4_PLACES_12 ", " FA4_FOUR_24 ", " FA4_FOUR_25
#define FA4_PLACES_14 FA4_PLACES_13 ", " FA4_FOUR_26 ", " FA4_FOUR_27
#define FA4_PLACES_15 FA4_PLACES_14 ", " FA4_FOUR_28 ", " FA4_FOUR_29
#define FA4_PLACES_16 FA4_PLACES_15 ", " FA4_FOUR_30 ", " FA4_FOUR_31
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
// (kTransposeB). kSteps instructions that follow each other along K, one or four. Four in one
// statement break the rule of one instruction a function: the compiler's time goes with the number
// of statements times their operands, and D has up to 128. Steps lie as in a tile of the 128-byte
// swizzle (tile/shared_tile.cuh), all four within a panel of what is K-major. Arguments: N, N / 16,
// the element type's tag and name, the numbers of the ten operands after D, those of the fours that
// begin at the ninth of these.
#define FA4_WGMMA_STEP(N, G, type, a, b, accumulate, transpose)                       \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" FA4_PLACES_##G \
      "}, " a ", " b ", " accumulate ", 1, 1, " transpose ";\n"
#define FA4_WGMMA(N, G, Tag, type, r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, f0, f1, f2, f3)         \
  template <int kTransposeB, int kSteps = 1>                                                       \
  __device__ inline void wgmma_shared(Tag, float(&d)[N / 2], u64 a, u64 b, bool accumulate) {      \
    static_assert(kSteps == 1 || kSteps == 4);                                                     \
    constexpr u64 kA = kStepKMajor, kB = kTransposeB ? kStepMnMajor : kStepKMajor;                 \
    if constexpr (kSteps == 1) {                                                                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r0                                        \
                   ", 0;\n" FA4_WGMMA_STEP(N, G, type, "%" #r2, "%" #r3, "p", "0, %" #r1) "}"      \
                   : FA4_OPERANDS_##G(d)                                                           \
                   : "r"(static_cast<i32>(accumulate)), "n"(kTransposeB), "l"(a), "l"(b));         \
    } else {                                                                                       \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r0                                        \
                   ", 0;\n" FA4_WGMMA_STEP(N, G, type, "%" #r2, "%" #r3, "p", "0, %" #r1)          \
                       FA4_WGMMA_STEP(N, G, type, "%" #r4, "%" #r5, "1", "0, %" #r1)               \
                           FA4_WGMMA_STEP(N, G, type, "%" #r6, "%" #r7, "1", "0, %" #r1)           \
                               FA4_WGMMA_STEP(N, G, type, "%" #r8, "%" #r9, "1", "0, %" #r1) "}"   \
                   : FA4_OPERANDS_##G(d)                                                           \
                   : "r"(static_cast<i32>(accumulate)), "n"(kTransposeB), "l"(a), "l"(b),          \
                     "l"(a + kA), "l"(b + kB), "l"(a + 2 * kA), "l"(b + 2 * kB), "l"(a + 3 * kA),  \
                     "l"(b + 3 * kB));                                                             \
    }                                                                                              \
  }                                                                                                \
  template <int kTransposeB, int kSteps = 1>                                                       \
  __device__ inline void wgmma_registers(Tag, float(&d)[N / 2], const u32* a, u64 b,               \
                                         bool accumulate) {                                        \
    static_assert(kSteps == 1 || kSteps == 4);                                                     \
    constexpr u64 kB = kTransposeB ? kStepMnMajor : kStepKMajor;                                   \
    if constexpr (kSteps == 1) {                                                                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r0                                        \
                   ", 0;\n" FA4_WGMMA_STEP(N, G, type, "{%" #r3 ", %" #r4 ", %" #r5 ", %" #r6 "}", \
                                           "%" #r2, "p", "%" #r1) "}"                              \
                   : FA4_OPERANDS_##G(d)                                                           \
                   : "r"(static_cast<i32>(accumulate)), "n"(kTransposeB), "l"(b), "r"(a[0]),       \
                     "r"(a[1]), "r"(a[2]), "r"(a[3]));                                             \
    } else {                                                                                       \
      /* Two operands are there only so that A begins with a four. */                              \
      asm volatile(                                                                                \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #r0                                                 \
          ", 0;\n" FA4_WGMMA_STEP(N, G, type, "{" FA4_FOUR_##f0 "}", "%" #r2, "p", "%" #r1)        \
              FA4_WGMMA_STEP(N, G, type, "{" FA4_FOUR_##f1 "}", "%" #r3, "1", "%" #r1)             \
                  FA4_WGMMA_STEP(N, G, type, "{" FA4_FOUR_##f2 "}", "%" #r4, "1", "%" #r1)         \
                      FA4_WGMMA_STEP(N, G, type, "{" FA4_FOUR_##f3 "}", "%" #r5, "1", "%" #r1) "}" \
          : FA4_OPERANDS_##G(d)                                                                    \
          : "r"(static_cast<i32>(accumulate)), "n"(kTransposeB), "l"(b), "l"(b + kB),              \
            "l"(b + 2 * kB), "l"(b + 3 * kB), "n"(0), "n"(0), "r"(a[0]), "r"(a[1]), "r"(a[2]),     \
            "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]),           \
            "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]));               \
    }                                                                                              \
  }
#define FA4_WGMMA_TYPES(N, G, ...)           \
  FA4_WGMMA(N, G, Bf16, "bf16", __VA_ARGS__) \
  FA4_WGMMA(N, G, Fp16, "f16", __VA_ARGS__)

// A program that defines FA4_WGMMA_COLUMNS(n) gets the functions of those N alone for which it is
// not 0: to read all takes the compiler 20 ms.
#ifndef FA4_WGMMA_COLUMNS
#define FA4_WGMMA_COLUMNS(n) 1
#endif
#if FA4_WGMMA_COLUMNS(16)
FA4_WGMMA_TYPES(16, 1, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 4, 5, 6, 7)
#endif
#if FA4_WGMMA_COLUMNS(32)
FA4_WGMMA_TYPES(32, 2, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 6, 7, 8, 9)
#endif
#if FA4_WGMMA_COLUMNS(48)
FA4_WGMMA_TYPES(48, 3, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 8, 9, 10, 11)
#endif
#if FA4_WGMMA_COLUMNS(64)
FA4_WGMMA_TYPES(64, 4, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 10, 11, 12, 13)
#endif
#if FA4_WGMMA_COLUMNS(80)
FA4_WGMMA_TYPES(80, 5, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 12, 13, 14, 15)
#endif
#if FA4_WGMMA_COLUMNS(96)
FA4_WGMMA_TYPES(96, 6, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 14, 15, 16, 17)
#endif
#if FA4_WGMMA_COLUMNS(112)
FA4_WGMMA_TYPES(112, 7, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 16, 17, 18, 19)
#endif
#if FA4_WGMMA_COLUMNS(128)
FA4_WGMMA_TYPES(128, 8, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 18, 19, 20, 21)
#endif
#if FA4_WGMMA_COLUMNS(144)
FA4_WGMMA_TYPES(144, 9, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 20, 21, 22, 23)
#endif
#if FA4_WGMMA_COLUMNS(160)
FA4_WGMMA_TYPES(160, 10, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 22, 23, 24, 25)
#endif
#if FA4_WGMMA_COLUMNS(176)
FA4_WGMMA_TYPES(176, 11, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 24, 25, 26, 27)
#endif
#if FA4_WGMMA_COLUMNS(192)
FA4_WGMMA_TYPES(192, 12, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 26, 27, 28, 29)
#endif
#if FA4_WGMMA_COLUMNS(208)
FA4_WGMMA_TYPES(208, 13, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 28, 29, 30, 31)
#endif
#if FA4_WGMMA_COLUMNS(224)
FA4_WGMMA_TYPES(224, 14, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 30, 31, 32, 33)
#endif
#if FA4_WGMMA_COLUMNS(240)
FA4_WGMMA_TYPES(240, 15, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 32, 33, 34, 35)
#endif
#if FA4_WGMMA_COLUMNS(256)
FA4_WGMMA_TYPES(256, 16, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 34, 35, 36, 37)
#endif

#undef FA4_WGMMA_TYPES
#undef FA4_WGMMA

}  // namespace fa4::ptx
