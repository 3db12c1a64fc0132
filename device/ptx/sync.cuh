// SPDX-License-Identifier: BSD-3-Clause
// Barriers, fences, votes and register budgets. One instruction, one function; the PTX ISA section
// (version 9.0) stands above each.
#pragma once

#include "ptx/types.cuh"

namespace fa4::ptx {

// 9.7.13.15.9 mbarrier.init
__device__ inline void mbarrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// 9.7.13.15.13 mbarrier.arrive
__device__ inline void mbarrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// 9.7.13.15.13 mbarrier.arrive.expect_tx: arrives, and announces `bytes` of asynchronous copies
__device__ inline void mbarrier_arrive_expect(u64* barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// 9.7.13.15.16 mbarrier.try_wait: false if the phase of this parity has not completed in a while
__device__ inline bool mbarrier_try_wait(u64* barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// 9.7.13.15.16 mbarrier.test_wait: whether the phase of this parity has completed, without waiting
__device__ inline bool mbarrier_test_wait(u64* barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

/// Waits until the phase of this parity has completed.
__device__ inline void mbarrier_wait(u64* barrier, u32 parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// 9.7.13.4 fence.mbarrier_init: initialised barriers become visible to asynchronous copies
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// 9.7.13.4 fence.proxy.async: ordinary accesses to shared memory before asynchronous ones after
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// 9.7.13.1 barrier (named): waits for `threads` threads, arrivals included
__device__ inline void barrier_sync(int name, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// 9.7.13.1 barrier (named): arrives without waiting
__device__ inline void barrier_arrive(int name, int threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// 9.7.13.14 elect.sync: true in exactly one lane of a converged warp
__device__ inline bool elect_one() {
  u32 elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// 9.7.13.10 vote.sync.all
__device__ inline bool all_lanes(bool predicate) {
  u32 all;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.u32 p, %1, 0;\n"
      "vote.sync.all.pred q, p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, q;\n"
      "}"
      : "=r"(all)
      : "r"(static_cast<u32>(predicate)));
  return all != 0;
}

// 9.7.9.6 shfl.sync.bfly: the value of the lane whose index differs in the bits of `mask`
__device__ inline float shuffle_xor(float x, int mask) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
  return y;
}

// 9.7.9.6 shfl.sync.idx: the value of one lane, for all
__device__ inline u32 broadcast(u32 x, int lane) {
  u32 y;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(y) : "r"(x), "r"(lane));
  return y;
}

// 9.7.13.5 atom.inc: one more, or 0 after `last`; gives what was there before
__device__ inline u32 atomic_increment(u32* address, u32 last) {
  u32 before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(last)
               : "memory");
  return before;
}

// 9.7.13.5 atom.cas: `wanted` where `expected` was; gives what was there before
__device__ inline u64 atomic_exchange_if(u64* address, u64 expected, u64 wanted) {
  u64 before;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(address), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}

// 9.7.9.8 ld.acquire
__device__ inline u64 load_acquire(const u64* address) {
  u64 x;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(address) : "memory");
  return x;
}

// 9.7.9.12 st.release
__device__ inline void store_release(u64* address, u64 x) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(x) : "memory");
}

// 9.7.9.12 st.relaxed
__device__ inline void store_relaxed(u32* address, u32 x) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(x) : "memory");
}

// 9.7.19.5 setmaxnreg: the warpgroup takes registers, waiting until there are enough
template <int kRegisters>
__device__ inline void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// 9.7.19.5 setmaxnreg: the warpgroup gives registers back
template <int kRegisters>
__device__ inline void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// 9.7.13.13 griddepcontrol.wait: earlier grids of the stream have finished and are visible
__device__ inline void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// 9.7.13.13 griddepcontrol.launch_dependents: the next grid may start
__device__ inline void grid_dependency_release() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace fa4::ptx
