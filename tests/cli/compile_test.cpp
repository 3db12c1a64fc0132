// SPDX-License-Identifier: BSD-3-Clause
// `fa4 compile` and `fa4 cache` as their users run them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_program.h"
#include "gpu/configs.h"
#include "support/temporary_folder.h"

namespace fa4::cli {
namespace {

namespace fs = std::filesystem;

class CompileCommand : public testing::Test {
 protected:
  /// Runs "fa4 <arguments>" with the cache in this test's folder.
  Outcome fa4(const std::string& arguments, const std::string& environment = "") const {
    return run_program(arguments,
                       environment + " FA4_CACHE_DIR='" + (folder_ / "cache").string() + "'");
  }
  std::string path(const char* name) const { return folder_.string(name); }

  const std::string kernel_ = gpu::all_kernels().front().name;
  const test::TemporaryFolder folder_;
};

TEST_F(CompileCommand, WantsToKnowWhich) {
  const Outcome none = fa4("compile");
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(none.says("--all")) << none.text;
  EXPECT_EQ(fa4("compile no-such-kernel").code, 2);
  EXPECT_EQ(fa4("compile '('").code, 2);
  const Outcome target = fa4("compile --all --target sm_1");
  EXPECT_EQ(target.code, 2);
  EXPECT_TRUE(target.says("known: sm_90a")) << target.text;
}

TEST_F(CompileCommand, ListsNames) {
  const Outcome list = fa4("compile --list");
  EXPECT_EQ(list.code, 0);
  for (const auto& kernel : gpu::all_kernels()) {
    const bool wanted = kernel.program.target == "sm_90a";
    EXPECT_EQ(list.says(kernel.name + "\n"), wanted) << kernel.name;
  }
}

TEST_F(CompileCommand, SaysWhereNvrtcWasLookedFor) {
  const Outcome named = fa4("compile --all", "FA4_NVRTC=/no/such/libnvrtc.so");
  EXPECT_EQ(named.code, 1);
  EXPECT_TRUE(named.says("no NVRTC")) << named.text;
  EXPECT_TRUE(named.says("/no/such/libnvrtc.so")) << named.text;
}

TEST_F(CompileCommand, TellsFiguresAndWritesCode) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const Outcome one = fa4("compile '^" + kernel_ + "$' --ptx " + path("ptx") + " --cubin " +
                          path("cubin") + " --json " + path("figures.json"));
  EXPECT_TRUE(one.says(kernel_)) << one.text;
  const auto json = nlohmann::json::parse(std::ifstream(path("figures.json")));
  ASSERT_EQ(json["kernels"].size(), 1u);
  const auto& figures = json["kernels"][0];
  EXPECT_EQ(figures["name"], kernel_);
  EXPECT_EQ(figures["spill_bytes"], 0);
  EXPECT_GT(figures["cpu_seconds"], 0);
  std::string file = kernel_;
  std::replace(file.begin(), file.end(), '/', '-');
  EXPECT_EQ(fs::file_size(folder_ / "cubin" / (file + ".cubin")), figures["code_bytes"]);
  EXPECT_EQ(fs::file_size(folder_ / "ptx" / (file + ".ptx")), figures["ptx_bytes"]);
}

// A kernel has a budget of its own: a sum over several names the least and the most.
TEST_F(CompileCommand, NamesTheBudgetsThatItCountsBy) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const Outcome one = fa4("compile 'bf16/d64/full/192x128$'");
  EXPECT_TRUE(one.says("within the budget of 0.6 s")) << one.text;
  const Outcome two = fa4("compile 'bf16/d64/full/192x128$' 'bf16/d64/full-mask/128x64$'");
  EXPECT_TRUE(two.says("within their budgets of 0.6 to 0.9 s")) << two.text;
}

TEST_F(CompileCommand, CacheIsFilledShownAndCleared) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  EXPECT_TRUE(fa4("cache info").says("entries  0"));
  const std::string warm = "cache warm '^" + kernel_ + "$'";
  const Outcome first = fa4(warm), second = fa4(warm), info = fa4("cache info");
  EXPECT_TRUE(first.says("0 there already, 1 compiled")) << first.text;
  EXPECT_TRUE(second.says("1 there already, 0 compiled")) << second.text;
  EXPECT_TRUE(info.says("entries  1")) << info.text;
  EXPECT_TRUE(info.says("kernels  1 of")) << info.text;
  EXPECT_TRUE(fa4("cache clear").says("removed 1 entry"));
  EXPECT_TRUE(fa4("cache info").says("entries  0"));
  EXPECT_EQ(fa4("cache").code, 2);
}

TEST_F(CompileCommand, CacheThatCannotBeWrittenFailsToWarm) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  std::ofstream(folder_ / "cache") << "in the way";
  const Outcome warm = fa4("cache warm '^" + kernel_ + "$'");
  EXPECT_EQ(warm.code, 1);
  EXPECT_TRUE(warm.says("could not be written")) << warm.text;
}

}  // namespace
}  // namespace fa4::cli
