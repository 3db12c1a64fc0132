// SPDX-License-Identifier: BSD-3-Clause
// Attention without its softmax, as CUDA source by way of NVRTC: O = bf16(Q K') V, with P in tensor
// memory and V read across its rows, by a warp that issues and four that carry P. Then the same
// with one fault each, which must be noticed.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "emulator/kernels/tensor_operand.h"
#include "emulator/ptx_kernel.h"
#include "gpu/jit/nvrtc.h"

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

/// PTX of the source with `what` replaced by `by` where it stands first.
std::string ptx_of(const std::string& what = "", const std::string& by = "") {
  std::string source = kSource;
  if (!what.empty()) {
    const size_t at = source.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    source.replace(at, what.size(), by);
  }
  const auto compiled = gpu::jit::compile({source, "sm_100a", {}}, gpu::CodeFormat::kPtx);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? compiled->ptx : std::string();
}

struct Outcome {
  std::string error;
  bool right = false;
  Tally tally;
};

Outcome run_chain(const std::string& ptx, const RunOptions& options) {
  const Inputs in = make_inputs();
  std::vector<std::vector<uint32_t>> buffers = {
      packed(in.q), packed(in.k), packed(in.v),
      std::vector<uint32_t>(size_t{128} * 64, 0x7fc00000)};
  const Ran ran = run_module(ptx, "chain", buffers, {.threads = {160, 1, 1}}, options);
  return {ran.error, ran.error.empty() && buffers[3] == expected(in), ran.tally};
}

std::vector<RunOptions> schedules() {
  std::vector<RunOptions> all;
  for (const Timing timing : {Timing::kEarliest, Timing::kLatest, Timing::kRandom}) {
    for (const Schedule schedule : {Schedule::kRandom, Schedule::kPriority}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        RunOptions o;
        o.timing = timing;
        o.schedule = schedule;
        o.seed = seed;
        all.push_back(o);
      }
    }
  }
  return all;
}

TEST(TensorChain, IsExactUnderEverySchedule) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const std::string ptx = ptx_of();
  for (const RunOptions& o : schedules()) {
    const Outcome outcome = run_chain(ptx, o);
    ASSERT_EQ(outcome.error, "") << "seed " << o.seed;
    EXPECT_TRUE(outcome.right) << "seed " << o.seed;
    EXPECT_EQ(outcome.tally.matrix_flops, uint64_t{2} * 128 * 128 * 64 * 2);
  }
}

struct Fault {
  const char* name;
  const char* what;
  const char* by;
};

class FaultsOfTheChain : public testing::TestWithParam<Fault> {};

constexpr Fault kFaults[] = {
    {"no_wait_for_s", "ptx::mbarrier_wait(&s_full, 0);", ""},
    {"no_wait_for_p", "ptx::mbarrier_wait(&p_full, 0);", ""},
    {"no_wait_for_o", "ptx::mbarrier_wait(&o_full, 0);", ""},
    {"no_wait_for_tiles", "ptx::mbarrier_wait(&loaded, 0);", ""},
    {"no_wait_for_stores", "ptx::tensor_wait_store();", ""},
    {"no_commit_of_s", "ptx::tensor_commit<1>(&s_full);", ""},
    {"commit_before_products", "for (int i = 0; i < 8; ++i) {",
     "ptx::tensor_commit<1>(&o_full);\nfor (int i = 0; i < 8; ++i) {"},
    {"other_parity", "ptx::mbarrier_wait(&p_full, 0);", "ptx::mbarrier_wait(&p_full, 1);"},
    {"too_few_arrivals_awaited", "ptx::mbarrier_init(&p_full, 128);",
     "ptx::mbarrier_init(&p_full, 96);"},
    {"too_many_arrivals_awaited", "ptx::mbarrier_init(&p_full, 128);",
     "ptx::mbarrier_init(&p_full, 129);"},
    {"never_freed", "if (warp == 4) ptx::tensor_dealloc<1>(memory, kColumns);", ""},
    {"freed_early", "ptx::tensor_commit<1>(&o_full);\n    }",
     "ptx::tensor_commit<1>(&o_full);\n    }\n    __syncwarp();\n"
     "    ptx::tensor_dealloc<1>(memory, kColumns);\n    return;"},
    {"freed_twice", "if (warp == 4) ptx::tensor_dealloc",
     "if (warp == 4) ptx::tensor_dealloc<1>(memory, kColumns);\nif (warp == 4) "
     "ptx::tensor_dealloc"},
    {"other_stride_of_v", "shared_address(tile_v), 16, 1024", "shared_address(tile_v), 16, 512"},
    {"v_not_transposed", "ptx::kFormBf16, false, true", "ptx::kFormBf16, false, false"},
    {"other_swizzle", "shared_address(tile_k), 16, 1024, ptx::TensorSwizzle::k128B",
     "shared_address(tile_k), 16, 1024, ptx::TensorSwizzle::k64B"},
    {"half_step_of_v", "dv + 128 * i", "dv + 64 * i"},
    {"step_of_p", "memory + kP + 8 * i", "memory + kP + 4 * i"},
    {"p_over_s", "constexpr u32 kS = 0, kP = 128", "constexpr u32 kS = 0, kP = 32"},
    {"first_product_adds", "memory + kS, dq + 2 * i, dk + 2 * i, qk, i > 0",
     "memory + kS, dq + 2 * i, dk + 2 * i, qk, true"},
    {"no_sums", "dv + 128 * i, pv, i > 0", "dv + 128 * i, pv, false"},
    {"f16_for_bf16", "128, 128, ptx::kFormBf16", "128, 128, ptx::kFormFp16"},
    {"lane_lost", "memory + (static_cast<u32>(warp) << 21)", "memory"},
    {"all_threads_issue", "if (ptx::elect_one()) {", "{"},
    {"too_few_columns", "kO = 256, kColumns = 512", "kO = 256, kColumns = 256"},
};
INSTANTIATE_TEST_SUITE_P(All, FaultsOfTheChain, testing::ValuesIn(kFaults),
                         [](const auto& it) { return it.param.name; });

TEST_P(FaultsOfTheChain, AreNoticed) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const std::string ptx = ptx_of(GetParam().what, GetParam().by);
  for (const RunOptions& o : schedules()) {
    if (!run_chain(ptx, o).right) return;
  }
  ADD_FAILURE() << "right under every schedule";
}

}  // namespace
}  // namespace fa4::emulator::test
