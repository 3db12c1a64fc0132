// SPDX-License-Identifier: BSD-3-Clause
// A chain of two products by way of NVRTC (kernels/tensor_chain.h), under many schedules; then the
// same with one fault each, which must be noticed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/kernels/tensor_chain.h"
#include "gpu/jit/nvrtc.h"

namespace fa4::emulator::test {
namespace {

/// PTX of the source with `what` replaced by `by` where it stands first.
std::string ptx_of(const std::string& what = "", const std::string& by = "") {
  std::string source = chain_source();
  if (!what.empty()) {
    const size_t at = source.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    source.replace(at, what.size(), by);
  }
  const auto compiled = gpu::jit::compile({source, "sm_100a", {}}, gpu::CodeFormat::kPtx);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? compiled->ptx : std::string();
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
    const ChainRun outcome = run_chain(ptx, o);
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
