// SPDX-License-Identifier: BSD-3-Clause
// Every kernel of the list through NVRTC: what ptxas says about it, and what the compile costs. No
// GPU is needed; without NVRTC these tests skip, and say where it was looked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <span>

#include "gpu/configs.h"
#include "gpu/jit/kernels.h"
#include "gpu/jit/store.h"

namespace fa4::gpu {
namespace {

TEST(KernelList, NamesAndSourcesDiffer) {
  std::set<std::string> names, sources;
  for (const KernelConfig& kernel : all_kernels()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_TRUE(sources.insert(kernel.program.target + kernel.program.source).second)
        << kernel.name;
    EXPECT_TRUE(kernel.name.starts_with(kernel.program.target + "/")) << kernel.name;
    EXPECT_GT(kernel.budget_seconds, 0) << kernel.name;
  }
  EXPECT_FALSE(names.empty());
}

/// A fixed program of the kernels' kind: a loop of exponentials and products, unrolled.
const char* const kYardstick = R"(
extern "C" __global__ void yardstick(const float* x, float* y, int n) {
  float row[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) row[i] = x[i * 32 + threadIdx.x];
  for (int k = 0; k < n; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
#pragma unroll
      for (int j = 1; j < 16; ++j) row[i] = __fmaf_rn(row[i], row[(i + j) & 63], 0.5f);
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(row[i]) : "f"(row[i]));
    }
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) y[i * 32 + threadIdx.x] = row[i];
})";
/// What it takes on the machine that the kernels' aims are for, when that is idle.
constexpr double kYardstickSeconds = 0.2;

/// How much longer than there a compile takes here and now; at least 1. Slower processors, and
/// other processes on the same core, cost CPU time that says nothing of a kernel.
double slowness() {
  const auto compiled = jit::compile({kYardstick, "sm_90a", {}});
  return compiled.ok() ? std::max(1.0, compiled->cpu_seconds / kYardstickSeconds) : 1.0;
}

class CompileKernel : public testing::TestWithParam<size_t> {};

TEST_P(CompileKernel, IsCleanAndQuick) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const KernelConfig kernel = all_kernels()[GetParam()];
  auto compiled = jit::compile(kernel.program);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  double limit = 2 * kernel.budget_seconds;
  for (int again = 0; again < 3 && compiled->cpu_seconds > limit; ++again) {
    limit = 2 * kernel.budget_seconds * slowness();
    compiled = jit::compile(kernel.program);
  }
  std::printf("%s: %.2f s of CPU time, aim %.1f; %d registers, %d bytes of spills\n",
              kernel.name.c_str(), compiled->cpu_seconds, kernel.budget_seconds,
              compiled->registers, compiled->spill_bytes);
  RecordProperty("cpu_seconds", std::to_string(compiled->cpu_seconds));
  EXPECT_LE(compiled->cpu_seconds, limit);
  EXPECT_EQ(compiled->spill_bytes, 0) << compiled->log;
  EXPECT_FALSE(compiled->serialized) << compiled->log;
  EXPECT_EQ(compiled->registers, kernel.registers) << compiled->log;
  EXPECT_NE(compiled->ptx.find(".entry " + kernel.entry), std::string::npos);
  // Tests that run this kernel in the emulator need not compile it again.
  const jit::Store store(jit::Store::default_folder());
  store.put(jit::cache_key(kernel.program, CodeFormat::kPtx, *version),
            std::as_bytes(std::span(compiled->ptx)));
}

std::string test_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = all_kernels()[info.param].name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CompileKernel, testing::Range(size_t{0}, all_kernels().size()),
                         test_name);

TEST(Compile, SyntaxErrorsCarryTheLog) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const auto compiled = jit::compile({"int broken(", "sm_90a", {}});
  ASSERT_FALSE(compiled.ok());
  EXPECT_NE(compiled.status().message().find("fa4.cu(1): error"), std::string::npos)
      << compiled.status().message();
}

TEST(Compile, PtxNeedsNoAssembler) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const jit::Program program{"extern \"C\" __global__ void f(int* x) { *x = 1; }", "sm_90a", {}};
  const auto ptx = jit::compile(program, CodeFormat::kPtx), cubin = jit::compile(program);
  ASSERT_TRUE(ptx.ok() && cubin.ok());
  const std::string text(reinterpret_cast<const char*>(ptx->code.data()), ptx->code.size());
  EXPECT_EQ(text, ptx->ptx);
  EXPECT_NE(text.find(".target sm_90a"), std::string::npos);
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_EQ(static_cast<int>(cubin->code[1]), 'E');  // an ELF file
}

// The PTX on the way to machine code is the PTX that the emulator gets.
TEST(Compile, PtxIsTheSameEitherWay) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const KernelConfig kernel = all_kernels().front();
  const auto ptx = jit::compile(kernel.program, CodeFormat::kPtx);
  const auto cubin = jit::compile(kernel.program);
  ASSERT_TRUE(ptx.ok() && cubin.ok());
  EXPECT_FALSE(ptx->ptx.empty());
  EXPECT_EQ(ptx->ptx, cubin->ptx);
}

}  // namespace
}  // namespace fa4::gpu
