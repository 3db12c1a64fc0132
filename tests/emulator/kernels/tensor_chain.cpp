// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/kernels/tensor_chain.h"

#include <bit>
#include <vector>

#include "emulator/kernels/tensor_operand.h"
#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

constexpr char kSource[] = R"(
#include "ptx/sync.cuh"
#include "ptx/tcgen05.cuh"
#include "ptx/math.cuh"
using namespace fa4;

// Q, K, V: 128 rows of 64 bf16, in shared memory swizzled by 128 bytes.
constexpr u32 kS = 0, kP = 128, kO = 256, kColumns = 512;

__device__ void load_tile(u16* tile, const u16* from, int tid) {
  for (int i = tid; i < 128 * 64; i += 128) {
    const int row = i / 64, chunk = i % 64 / 8;
    tile[row * 64 + (chunk ^ row % 8) * 8 + i % 8] = from[i];
  }
}

extern "C" __global__ void __launch_bounds__(160) chain(const u16* q, const u16* k, const u16* v, float* o) {
  __shared__ __align__(1024) u16 tile_q[128 * 64], tile_k[128 * 64], tile_v[128 * 64];
  __shared__ u64 loaded, s_full, p_full, o_full;
  __shared__ u32 slot;
  const int tid = threadIdx.x, warp = tid / 32;
  if (warp == 4) {
    ptx::tensor_alloc<1>(&slot, kColumns);
    ptx::tensor_relinquish<1>();
    if (tid == 128) {
      ptx::mbarrier_init(&loaded, 128);
      ptx::mbarrier_init(&s_full, 1);
      ptx::mbarrier_init(&p_full, 128);
      ptx::mbarrier_init(&o_full, 1);
      ptx::fence_mbarrier_init();
    }
  }
  __syncthreads();
  const u32 memory = *(volatile u32*)&slot;
  if (warp == 4) {
    if (ptx::elect_one()) {
      ptx::mbarrier_wait(&loaded, 0);
      const u64 dq = ptx::matrix_descriptor(shared_address(tile_q), 16, 1024, ptx::TensorSwizzle::k128B);
      const u64 dk = ptx::matrix_descriptor(shared_address(tile_k), 16, 1024, ptx::TensorSwizzle::k128B);
      const u64 dv = ptx::matrix_descriptor(shared_address(tile_v), 16, 1024, ptx::TensorSwizzle::k128B);
      const u32 qk = ptx::instruction_descriptor(128, 128, ptx::kFormBf16, ptx::kFormBf16, false, false);
      const u32 pv = ptx::instruction_descriptor(128, 64, ptx::kFormBf16, ptx::kFormBf16, false, true);
      for (int i = 0; i < 4; ++i) {
        ptx::tensor_mma<1>(ptx::KindF16{}, memory + kS, dq + 2 * i, dk + 2 * i, qk, i > 0);
      }
      ptx::tensor_commit<1>(&s_full);
      ptx::mbarrier_wait(&p_full, 0);
      ptx::tensor_fence_after();
      for (int i = 0; i < 8; ++i) {
        ptx::tensor_mma_ta<1>(ptx::KindF16{}, memory + kO, memory + kP + 8 * i, dv + 128 * i, pv, i > 0);
      }
      ptx::tensor_commit<1>(&o_full);
    }
  } else {
    load_tile(tile_q, q, tid);
    load_tile(tile_k, k, tid);
    load_tile(tile_v, v, tid);
    ptx::fence_async_shared();
    ptx::mbarrier_arrive(&loaded);
    const u32 own = memory + (static_cast<u32>(warp) << 21);
    ptx::mbarrier_wait(&s_full, 0);
    ptx::tensor_fence_after();
    for (int i = 0; i < 4; ++i) {
      u32 s[32], p[16];
      ptx::tensor_load(s, own + kS + 32 * i);
      ptx::tensor_wait_load();
      for (int j = 0; j < 16; ++j) {
        p[j] = ptx::pack(Bf16{}, __uint_as_float(s[2 * j]), __uint_as_float(s[2 * j + 1]));
      }
      ptx::tensor_store(own + kP + 16 * i, p);
    }
    ptx::tensor_wait_store();
    ptx::tensor_fence_before();
    ptx::mbarrier_arrive(&p_full);
    ptx::mbarrier_wait(&o_full, 0);
    ptx::tensor_fence_after();
    for (int i = 0; i < 2; ++i) {
      u32 x[32];
      ptx::tensor_load(x, own + kO + 32 * i);
      ptx::tensor_wait_load();
      for (int j = 0; j < 32; ++j) o[tid * 64 + 32 * i + j] = __uint_as_float(x[j]);
    }
    ptx::tensor_fence_before();
  }
  __syncthreads();
  if (warp == 4) ptx::tensor_dealloc<1>(memory, kColumns);
}
)";

struct Inputs {
  Matrix q, k, v;
};

Inputs make_inputs() {
  Inputs in;
  uint32_t state = 5;
  for (Matrix* m : {&in.q, &in.k, &in.v}) {
    *m = {128, 64, std::vector<int>(size_t{128} * 64)};
    for (int& x : m->values) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<int>(state >> 24) % 3 - 1;
    }
  }
  return in;
}

std::vector<uint32_t> packed(const Matrix& m) {
  std::vector<uint32_t> words(m.values.size() / 2);
  for (size_t i = 0; i < m.values.size(); ++i) {
    words[i / 2] |= encode(Element::kBF16, m.values[i]) << (16 * (i % 2));
  }
  return words;
}

std::vector<uint32_t> expected(const Inputs& in) {
  std::vector<uint32_t> o(size_t{128} * 64);
  for (uint32_t row = 0; row < 128; ++row) {
    std::vector<int> s(128);
    for (uint32_t j = 0; j < 128; ++j) {
      for (uint32_t k = 0; k < 64; ++k) s[j] += in.q.at(row, k) * in.k.at(j, k);
    }
    for (uint32_t c = 0; c < 64; ++c) {
      int sum = 0;
      for (uint32_t j = 0; j < 128; ++j) sum += s[j] * in.v.at(j, c);
      o[row * 64 + c] = std::bit_cast<uint32_t>(static_cast<float>(sum));
    }
  }
  return o;
}

}  // namespace

const char* chain_source() { return kSource; }

ChainProblem chain_problem() {
  const Inputs in = make_inputs();
  return {{packed(in.q), packed(in.k), packed(in.v),
           std::vector<uint32_t>(size_t{128} * 64, 0x7fc00000)},
          expected(in)};
}

ChainRun run_chain(const std::string& ptx, const RunOptions& options) {
  ChainProblem p = chain_problem();
  const Ran ran = run_module(ptx, "chain", p.buffers, {.threads = {kChainThreads, 1, 1}}, options);
  return {ran.error, ran.error.empty() && p.buffers[3] == p.result, ran.tally};
}

}  // namespace fa4::emulator::test
