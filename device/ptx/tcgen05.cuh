// SPDX-License-Identifier: BSD-3-Clause
// The tensor core of sm_100 and its memory: PTX ISA 9.7.16
// (https://docs.nvidia.com/cuda/parallel-thread-execution/#tensorcore-5th-generation-instructions).
//
// Tensor memory has 128 lanes of 512 columns of 32 bits; an address is lane << 16 | column. Warp w
// reaches lanes 32 (w % 4) to 32 (w % 4) + 31. Products are issued by one thread and complete
// later: commit makes an mbarrier arrive when they have. kGroup is the number of CTAs that work
// together, the same in all of a kernel.
#pragma once

#include "ptx/types.cuh"

namespace fa4::ptx {

// ---- 9.7.16.7 allocation: by one whole warp, of each CTA of the group ---------------------------

// 9.7.16.7.1 tcgen05.alloc: `columns` (a power of two from 32) to *slot; waits until they are free
template <int kGroup>
__device__ inline void tensor_alloc(u32* slot, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
                   shared_address(slot)),
               "r"(columns), "n"(kGroup)
               : "memory");
}

// 9.7.16.7.1 tcgen05.dealloc
template <int kGroup>
__device__ inline void tensor_dealloc(u32 address, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(address),
               "r"(columns), "n"(kGroup)
               : "memory");
}

// 9.7.16.7.1 tcgen05.relinquish_alloc_permit: this CTA allocates no more
template <int kGroup>
__device__ inline void tensor_relinquish() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(kGroup));
}

// ---- 9.7.16.8 registers -------------------------------------------------------------------------

// FA4_R_n name the first n operands, FA4_OUT_n and FA4_IN_n bind an array to them.
#define FA4_R_8(a, b, c, d, e, f, g, h) \
  "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define FA4_LOW_8 FA4_R_8(0, 1, 2, 3, 4, 5, 6, 7)
#define FA4_LOW_16 FA4_LOW_8 ", " FA4_R_8(8, 9, 10, 11, 12, 13, 14, 15)
#define FA4_LOW_32 \
  FA4_LOW_16       \
      ", " FA4_R_8(16, 17, 18, 19, 20, 21, 22, 23) ", " FA4_R_8(24, 25, 26, 27, 28, 29, 30, 31)
#define FA4_LOW_64                                                                              \
  FA4_LOW_32 ", " FA4_R_8(32, 33, 34, 35, 36, 37, 38, 39) ", " FA4_R_8(                         \
      40, 41, 42, 43, 44, 45, 46, 47) ", " FA4_R_8(48, 49, 50, 51, 52, 53, 54,                  \
                                                   55) ", " FA4_R_8(56, 57, 58, 59, 60, 61, 62, \
                                                                    63)
#define FA4_BIND_8(c, r, i) \
  c(r[i]), c(r[i + 1]), c(r[i + 2]), c(r[i + 3]), c(r[i + 4]), c(r[i + 5]), c(r[i + 6]), c(r[i + 7])
#define FA4_BIND_16(c, r, i) FA4_BIND_8(c, r, i), FA4_BIND_8(c, r, i + 8)
#define FA4_BIND_32(c, r, i) FA4_BIND_16(c, r, i), FA4_BIND_16(c, r, i + 16)
#define FA4_BIND_64(c, r, i) FA4_BIND_32(c, r, i), FA4_BIND_32(c, r, i + 32)

// 9.7.16.8.3 tcgen05.ld, shape .32x32b: r[i] of each lane is its row's column i. The registers may
// be used at once; tensor_wait_load() stands before others may overwrite the columns.
// 9.7.16.8.4 tcgen05.st, the reverse.
#define FA4_TENSOR_REGISTERS(N)                                                             \
  __device__ inline void tensor_load(u32(&r)[N], u32 address) {                             \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x" #N ".b32 {" FA4_LOW_##N "}, [%" #N "];" \
                 : FA4_BIND_##N("=r", r, 0)                                                 \
                 : "r"(address));                                                           \
  }                                                                                         \
  __device__ inline void tensor_store(u32 address, const u32(&r)[N]) {                      \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x" #N ".b32 [%" #N "], {" FA4_LOW_##N      \
                 "};" ::FA4_BIND_##N("r", r, 0),                                            \
                 "r"(address)                                                               \
                 : "memory");                                                               \
  }
FA4_TENSOR_REGISTERS(8)
FA4_TENSOR_REGISTERS(16)
FA4_TENSOR_REGISTERS(32)
FA4_TENSOR_REGISTERS(64)
#undef FA4_TENSOR_REGISTERS
#undef FA4_R_8
#undef FA4_LOW_8
#undef FA4_LOW_16
#undef FA4_LOW_32
#undef FA4_LOW_64
#undef FA4_BIND_8
#undef FA4_BIND_16
#undef FA4_BIND_32
#undef FA4_BIND_64

// 9.7.16.8.5 tcgen05.wait::ld: this thread's loads have read tensor memory
__device__ inline void tensor_wait_load() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// 9.7.16.8.5 tcgen05.wait::st: this thread's stores have been written
__device__ inline void tensor_wait_store() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// ---- 9.7.16.11, 9.7.16.12 order -----------------------------------------------------------------

// 9.7.16.11.1 tcgen05.fence::before_thread_sync: stands between tensor operations and an arrival
__device__ inline void tensor_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

// 9.7.16.11.1 tcgen05.fence::after_thread_sync: stands between a wait and tensor operations
__device__ inline void tensor_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// 9.7.16.12.1 tcgen05.commit: the barrier arrives once this thread's products have completed
template <int kGroup>
__device__ inline void tensor_commit(u64* barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
          shared_address(barrier)),
      "n"(kGroup)
      : "memory");
}

// 9.7.16.12.1 tcgen05.commit, multicast: the barriers at this place in the CTAs of the mask arrive
template <int kGroup>
__device__ inline void tensor_commit(u64* barrier, u16 ctas) {
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%0], %1;" ::"r"(shared_address(barrier)),
      "h"(ctas), "n"(kGroup)
      : "memory");
}

// ---- 9.7.16.10 products -------------------------------------------------------------------------

/// Kinds of products: f16 (bf16 as well), tf32, f8f6f4.
struct KindF16 {};
struct KindTf32 {};
struct KindF8 {};

// 9.7.16.10.9.1 tcgen05.mma: D in tensor memory = A B, or D += A B. A and B by descriptor of shared
// memory, or A from tensor memory. By one thread.
#define FA4_TENSOR_MMA(Kind, kind)                                                             \
  template <int kGroup>                                                                        \
  __device__ inline void tensor_mma(Kind, u32 d, u64 a, u64 b, u32 form, bool accumulate) {    \
    asm volatile(                                                                              \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                            \
        "tcgen05.mma.cta_group::%5.kind::" kind " [%0], %1, %2, %3, p;\n}" ::"r"(d),          \
        "l"(a), "l"(b), "r"(form), "r"(static_cast<i32>(accumulate)), "n"(kGroup)              \
        : "memory");                                                                           \
  }                                                                                            \
  template <int kGroup>                                                                        \
  __device__ inline void tensor_mma_ta(Kind, u32 d, u32 a, u64 b, u32 form, bool accumulate) { \
    asm volatile(                                                                              \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                            \
        "tcgen05.mma.cta_group::%5.kind::" kind " [%0], [%1], %2, %3, p;\n}" ::"r"(d),        \
        "r"(a), "l"(b), "r"(form), "r"(static_cast<i32>(accumulate)), "n"(kGroup)              \
        : "memory");                                                                           \
  }
FA4_TENSOR_MMA(KindF16, "f16")
FA4_TENSOR_MMA(KindTf32, "tf32")
FA4_TENSOR_MMA(KindF8, "f8f6f4")
#undef FA4_TENSOR_MMA

/// Swizzles as matrix descriptors number them.
enum class TensorSwizzle : u32 { kNone = 0, k128BBy32 = 1, k128B = 2, k64B = 4, k32B = 6 };

// 9.7.16.4.1 the shared-memory descriptor of a matrix; all in bytes, multiples of 16
__device__ constexpr u64 matrix_descriptor(u32 address, u32 leading, u32 stride,
                                           TensorSwizzle swizzle) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(leading >> 4) << 16 |
         static_cast<u64>(stride >> 4) << 32 | static_cast<u64>(1) << 46 |
         static_cast<u64>(swizzle) << 61;
}

/// Types of A and B as instruction descriptors number them, each within its kind.
constexpr u32 kFormFp16 = 0, kFormBf16 = 1, kFormTf32 = 2, kFormE4m3 = 0, kFormE5m2 = 1;

// 9.7.16.4.2 the instruction descriptor: fp32 result, M x N of the whole group
__device__ constexpr u32 instruction_descriptor(u32 m, u32 n, u32 a_type, u32 b_type,
                                                bool a_mn_major, bool b_mn_major) {
  return 1u << 4 | a_type << 7 | b_type << 10 | static_cast<u32>(a_mn_major) << 15 |
         static_cast<u32>(b_mn_major) << 16 | n / 8 << 17 | m / 16 << 24;
}

}  // namespace fa4::ptx
