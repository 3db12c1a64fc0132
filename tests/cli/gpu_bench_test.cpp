// SPDX-License-Identifier: BSD-3-Clause
// What `fa4 bench --gpu` makes of its measurements, and the process that peers run in.
#include "cli/gpu_bench.h"

#include <gtest/gtest.h>

#include <set>

namespace fa4::cli {
namespace {

GpuMeasured measured(std::vector<double> ours, std::vector<double> cudnn,
                     std::vector<double> gemm) {
  GpuMeasured m;
  m.cell = gpu_grid("^d128/full/s4096$").at(0);
  m.turns[kOurs].seconds = std::move(ours);
  m.turns[kYardstick].seconds = std::move(cudnn);
  m.turns[kGemm].seconds = std::move(gemm);
  return m;
}

TEST(GpuBench, GridIsThePublishedOne) {
  const auto grid = gpu_grid("");
  EXPECT_EQ(grid.size(), 70u);
  std::set<std::string> names;
  for (const GpuCell& cell : grid) {
    EXPECT_TRUE(names.insert(cell.name()).second) << cell.name();
    EXPECT_EQ(cell.batch * cell.seqlen, 32768);
  }
  EXPECT_TRUE(names.contains("d64/causal/s512"));
  EXPECT_TRUE(names.contains("d128/g4/full/s32768"));
  EXPECT_TRUE(names.contains("d192x128/causal/s1024"));
  EXPECT_THROW(gpu_grid("("), UsageError);
}

TEST(GpuBench, FlopsAndRates) {
  const GpuCell full = gpu_grid("^d192x128/full/s1024$").at(0);
  const GpuCell causal = gpu_grid("^d192x128/causal/s1024$").at(0);
  EXPECT_DOUBLE_EQ(full.flops(), 2.0 * 32 * 16 * 1024 * 1024 * (192 + 128));
  EXPECT_DOUBLE_EQ(causal.flops(), full.flops() / 2);
  const GpuMeasured m = measured({1e-3, 3e-3, 2e-3}, {1, 1, 1}, {2e-3, 2e-3, 2e-3});
  EXPECT_DOUBLE_EQ(m.tflops(kOurs), m.cell.flops() / 2e-3 * 1e-12);
  EXPECT_DOUBLE_EQ(m.tflops(kGemm), kGemmFlops / 2e-3 * 1e-12);
}

// Each turn is held against the yardstick's of the same round: a clock that falls takes both down.
TEST(GpuBench, RatiosAreOfOneRound) {
  const GpuMeasured m = measured({1, 2, 4}, {1.3, 2.6, 5.2}, {1, 1, 1});
  EXPECT_DOUBLE_EQ(m.ratio(kOurs).value(), 1.3);
  EXPECT_DOUBLE_EQ(m.best_peer().value(), 1.0);
  EXPECT_FALSE(m.ratio("fa3").has_value());
}

TEST(GpuBench, GoalIsARatioOrTheProductsRate) {
  const double flops = gpu_grid("^d128/full/s4096$").at(0).flops();
  const double at_600 = flops / 600e12, gemm_700 = kGemmFlops / 700e12;
  EXPECT_TRUE(measured({at_600}, {1.21 * at_600}, {gemm_700}).reached());
  EXPECT_FALSE(measured({at_600}, {1.19 * at_600}, {gemm_700}).reached());
  const double at_680 = flops / 680e12;
  EXPECT_TRUE(measured({at_680}, {1.05 * at_680}, {gemm_700}).reached());
  GpuMeasured alone = measured({at_680}, {1}, {gemm_700});
  alone.turns.erase(kYardstick);
  EXPECT_FALSE(alone.reached());
}

TEST(GpuBench, JsonHasEveryTurn) {
  GpuBenchResult result;
  result.device = "a GPU";
  result.cells.push_back(measured({1, 2}, {2, 3}, {4, 5}));
  result.cells.back().problems["fa2"] = "why";
  const nlohmann::json json = to_json(result);
  EXPECT_EQ(json["kind"], "gpu");
  EXPECT_EQ(json["providers"], (std::vector<std::string>{"fa4", "cudnn", "gemm"}));
  const auto& cell = json["cells"][0];
  EXPECT_EQ(cell["turns"]["fa4"]["seconds"], (std::vector<double>{1, 2}));
  EXPECT_EQ(cell["turns"]["cudnn"]["ratio"], 1.0);
  EXPECT_EQ(cell["problems"]["fa2"], "why");
}

TEST(ScriptProcess, AnswersErrorsAndItsOwnEnd) {
  ScriptProcess process("python3", R"(
import json, sys
print(json.dumps({"name": "echo"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "end": break
    print(json.dumps({"error": "no"} if request["op"] == "fail" else request), flush=True)
)");
  ASSERT_TRUE(process.available()) << process.problem();
  EXPECT_EQ(process.hello()["name"], "echo");
  EXPECT_EQ(process.ask({{"op", "this"}}).value()["op"], "this");
  EXPECT_FALSE(process.ask({{"op", "fail"}}).has_value());
  EXPECT_EQ(process.problem(), "no");
  EXPECT_TRUE(process.ask({{"op", "that"}}).has_value());
  EXPECT_FALSE(process.ask({{"op", "end"}}).has_value());
  EXPECT_NE(process.problem().find("ended"), std::string::npos);
}

TEST(ScriptProcess, SaysWhyItCannotStart) {
  const ScriptProcess missing("/no/such/python", "");
  EXPECT_FALSE(missing.available());
  EXPECT_NE(missing.problem().find("/no/such/python"), std::string::npos);
  const ScriptProcess refused("python3", R"(print('{"error": "not here"}'))");
  EXPECT_FALSE(refused.available());
  EXPECT_NE(refused.problem().find("not here"), std::string::npos);
}

// Here as there is no GPU, or no torch: a reason either way, and never a traceback.
TEST(ScriptProcess, TheGpuPeerGreetsOrSaysWhyNot) {
  const ScriptProcess peer("python3", kTorchGpuPeerScript);
  if (peer.available()) {
    EXPECT_TRUE(peer.hello()["providers"].is_array());
  } else {
    EXPECT_FALSE(peer.problem().empty());
    EXPECT_EQ(peer.problem().find("could not be run"), std::string::npos) << peer.problem();
  }
}

}  // namespace
}  // namespace fa4::cli
