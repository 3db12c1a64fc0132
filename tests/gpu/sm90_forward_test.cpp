// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward's host twin, and its kernels through the compiler: no GPU is needed.
#include "gpu/sm90_forward.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/fake_runtime.h"
#include "gpu/jit/kernels.h"
#include "support/case.h"

namespace fa4::gpu::sm90 {
namespace {

core::Problem problem_of(const test::Shape& shape, DType dtype = DType::kBFloat16,
                         const AttentionOptions& options = {}) {
  test::Case c = test::ref64(shape, dtype);
  return core::validate(AttentionProblem::forward(c.tensors(), options)).value();
}

TEST(Sm90Forward, ConfigsFitTheMachine) {
  for (const ForwardConfig& c : all_forward_configs()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_LE(forward_shared_bytes(c), 232448u);
    const int at_launch = 65536 / ((c.warpgroups + 1) * 128) / 8 * 8;
    EXPECT_LE(c.warpgroups * c.consumer_registers + c.producer_registers,
              (c.warpgroups + 1) * at_launch);
    EXPECT_EQ(c.tile_keys % 16, 0);
    EXPECT_LE(c.tile_keys, 256);
    EXPECT_EQ(c.dim_qk % 16, 0);
    EXPECT_EQ(c.dim_v % 16, 0);
  }
}

TEST(Sm90Forward, EveryHeadDimHasAConfig) {
  for (int64_t d = 8; d <= 256; d += 8) {
    for (const int64_t d_v : {int64_t{8}, d, int64_t{256}}) {
      const core::Problem problem = problem_of({.s_q = 3, .s_k = 5, .d = d, .d_v = d_v});
      ASSERT_EQ(unsupported_forward(problem), "");
      const ForwardConfig c = choose_forward(problem);
      EXPECT_GE(c.dim_qk, d);
      EXPECT_LT(c.dim_qk, d + 16);
      EXPECT_GE(c.dim_v, d_v);
      EXPECT_LT(c.dim_v, d_v + 16);
      EXPECT_LE(forward_shared_bytes(c), 232448u);
    }
  }
}

TEST(Sm90Forward, SaysWhatItLacks) {
  const test::Shape shape{.s_q = 3, .s_k = 5};
  EXPECT_NE(unsupported_forward(problem_of(shape, DType::kFloat32)).find("float32"),
            std::string::npos);
  AttentionOptions options;
  options.dropout_p = 0.5;
  EXPECT_EQ(unsupported_forward(problem_of(shape, DType::kBFloat16, options)), "dropout");
  EXPECT_NE(unsupported_forward(problem_of({.s_q = 1, .s_k = 1, .d = 12})).find("12"),
            std::string::npos);
}

TEST(Sm90Forward, VariantsChangeWhatTheyName) {
  const ForwardConfig c = choose_forward(problem_of({.s_q = 3, .s_k = 5, .d = 64, .d_v = 64}));
  EXPECT_EQ(vary(c, "").value(), c);
  const ForwardConfig varied = vary(c, "tile_keys=96,warpgroups=2,polynomial_share=16").value();
  EXPECT_EQ(varied.tile_keys, 96);
  EXPECT_EQ(varied.warpgroups, 2);
  EXPECT_EQ(varied.polynomial_share, 16);
  EXPECT_EQ(varied.stages, c.stages);
  EXPECT_GT(varied.consumer_registers, c.consumer_registers);  // fewer share them
  const ForwardConfig pair = vary(c, "pair=1").value();
  EXPECT_EQ(pair.ctas(), 2);
  EXPECT_NE(to_string(pair).find("-pair"), std::string::npos);
  for (const char* bad : {"tile_keys", "tile_keys=", "tile_keys=33", "tile_keys=-16", "stages=0",
                          "warpgroups=5", "keys=16", "stages=2x", "stages=2;order=1", "=3", ","}) {
    const auto result = vary(c, bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.status().message().find("variant: has \""), std::string::npos);
    EXPECT_NE(result.status().message().find("stages=1..16"), std::string::npos);
  }
}

// Whole clusters, and at least one: a device with a single multiprocessor has none to a pair.
TEST(Sm90Forward, PairsAreLaunchedOnAnyNumberOfMultiprocessors) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  test::Case c = test::ref64({.s_q = 500, .s_k = 300, .heads_q = 9, .d = 64}, DType::kBFloat16);
  c.out = test::HostTensor(DType::kBFloat16, {1, 500, 9, 64});
  const AttentionTensors tensors = c.tensors();
  const auto problem = core::validate(AttentionProblem::forward(tensors)).value();
  for (const auto& [multiprocessors, blocks] : {std::pair{1, 2u}, {2, 2u}, {3, 2u}, {132, 18u}}) {
    const FakeRuntime runtime(multiprocessors);
    const ForwardConfig pair = vary(choose_forward(problem), "pair=1").value();
    const auto forward = Forward::make(runtime, problem, pair);
    ASSERT_TRUE(forward.ok()) << forward.status().message();
    std::vector<std::byte> workspace(forward->workspace_bytes() + 64);
    ASSERT_TRUE(forward->run(problem, tensors, workspace.data(), {}).ok());
    EXPECT_EQ(runtime.last_launch.cluster, 2u);
    EXPECT_EQ(runtime.last_launch.blocks, blocks) << multiprocessors << " multiprocessors";
  }
}

TEST(Sm90Forward, KeysDependOnEverything) {
  const auto configs = all_forward_configs();
  const jit::Program a = forward_kernel(configs[0]).program, b = forward_kernel(configs[1]).program;
  EXPECT_EQ(jit::cache_key(a, CodeFormat::kCubin, "13.0"),
            jit::cache_key(a, CodeFormat::kCubin, "13.0"));
  EXPECT_NE(jit::cache_key(a, CodeFormat::kCubin, "13.0"),
            jit::cache_key(b, CodeFormat::kCubin, "13.0"));
  EXPECT_NE(jit::cache_key(a, CodeFormat::kCubin, "13.0"),
            jit::cache_key(a, CodeFormat::kCubin, "13.1"));
  jit::Program other = a;
  EXPECT_NE(jit::cache_key(a, CodeFormat::kCubin, "13.0"),
            jit::cache_key(a, CodeFormat::kPtx, "13.0"));
  other.target = "sm_100a";
  EXPECT_NE(jit::cache_key(a, CodeFormat::kCubin, "13.0"),
            jit::cache_key(other, CodeFormat::kCubin, "13.0"));
}

// The instructions that make it a Hopper kernel. tests/compile has every config's costs.
TEST(Sm90Forward, UsesTheCopyEngineAndAsynchronousProducts) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const auto compiled =
      jit::compile(forward_kernel(all_forward_configs()[0]).program, CodeFormat::kPtx);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const char* instruction :
       {"wgmma.mma_async.sync.aligned.m64n", "cp.async.bulk.tensor.4d.shared::cluster.global",
        "cp.async.bulk.tensor.5d.shared::cluster.global",
        "cp.async.bulk.tensor.5d.global.shared::cta", "setmaxnreg.inc", "setmaxnreg.dec",
        "mbarrier.try_wait.parity", "ex2.approx.ftz.f32", "stmatrix.sync.aligned"}) {
    EXPECT_NE(compiled->ptx.find(instruction), std::string::npos) << instruction;
  }
}

// The two head dims differ: a kernel whose O takes Q's place must have room for the larger one. The
// sources assert that host and device agree on the bytes.
TEST(Sm90Forward, UnequalHeadDimsCompile) {
  const auto version = jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  for (const auto& [d, d_v] : {std::pair{64, 256}, {256, 64}, {128, 192}, {8, 128}}) {
    const core::Problem problem = problem_of({.s_q = 3, .s_k = 5, .d = d, .d_v = d_v});
    const auto compiled = jit::compile(forward_kernel(choose_forward(problem)).program);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled->spill_bytes, 0);
    EXPECT_FALSE(compiled->serialized);
  }
}

}  // namespace
}  // namespace fa4::gpu::sm90
