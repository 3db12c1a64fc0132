// SPDX-License-Identifier: BSD-3-Clause
// Integer types and the two 16-bit element types. Device sources include no header but each other,
// so that NVRTC needs no include path and compiles in half a second.
#pragma once

namespace fa4 {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

/// Sixteen bytes, moved by one instruction.
struct alignas(16) u64x2 {
  u64 low, high;
};

/// Element types as tags: tensors of them are seen as u16, pairs in a register as u32.
struct Bf16 {};
struct Fp16 {};

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

constexpr int kWarpThreads = 32;
constexpr int kWarpgroupThreads = 128;

__device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int min_of(int a, int b) { return a < b ? a : b; }
__device__ constexpr int max_of(int a, int b) { return a > b ? a : b; }

/// A driver's CUtensorMap: 128 opaque bytes, passed as part of a kernel's parameters.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

/// Address of a shared variable in the shared window, as PTX instructions want it.
__device__ inline u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

}  // namespace fa4
