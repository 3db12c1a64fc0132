// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>

#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

GridOptions grid_options() {
  GridOptions options;
  options.threads = {1, 2};
  options.decode_bytes = 128 << 20;
  return options;
}

TEST(BenchGrid, HasTheCellsOfTheDocs) {
  const std::vector<Cell> cells = make_grid(grid_options());
  EXPECT_EQ(cells.size(), 2U * (16 + 4));
  for (const Cell& cell : cells) {
    if (cell.kind != Kind::kDecode) continue;
    EXPECT_GE(cell.kv_bytes(), 128 << 20);
    EXPECT_LT(cell.kv_bytes(), 1.1 * (128 << 20));
  }
}

TEST(BenchGrid, CountsFlopsAsPapersDo) {
  Cell cell;
  cell.d = 128;
  EXPECT_EQ(cell.flops(), 4.0 * 8 * 2048 * 2048 * 128);
  cell.causal = true;
  EXPECT_EQ(cell.flops(), 2.0 * 8 * 2048 * 2048 * 128);
  cell.pass = Pass::kBackward;
  EXPECT_EQ(cell.flops(), 5.0 * 8 * 2048 * 2048 * 128);
}

TEST(BenchGrid, FiltersByName) {
  GridOptions options = grid_options();
  options.filter = "prefill/fp32/d128/.*/forward/t1$";
  ASSERT_EQ(make_grid(options).size(), 2U);
  EXPECT_EQ(make_grid(options)[1].name(), "prefill/fp32/d128/causal/forward/t1");
  options.filter = "(";
  EXPECT_THROW(make_grid(options), UsageError);
}

/// Two forward cells of one and two threads with made-up times, torch 1.5 and 2.4 times slower.
BenchResult made_up() {
  BenchResult result;
  Roofs roofs;
  for (const int threads : {1, 2}) {
    roofs.threads = threads;
    roofs.fma_gflops = 100.0 * threads;
    roofs.read_gbs = 20;
    result.roofs.push_back(roofs);
    for (const bool causal : {false, true}) {
      Cell cell;
      cell.d = 128;
      cell.causal = causal;
      cell.threads = threads;
      const double seconds = cell.flops() / (threads == 1 ? 80e9 : 120e9) * (causal ? 1.25 : 1);
      result.cells.push_back(
          {cell, {{2 * seconds, seconds}}, {{seconds * (causal ? 1.5 : 2.4)}}, "", "", {}});
    }
  }
  return result;
}

const Goal& goal_with(const std::vector<Goal>& goals, const std::string& text) {
  for (const Goal& goal : goals) {
    if (goal.what.find(text) != std::string::npos) return goal;
  }
  throw std::runtime_error("no goal says " + text);
}

TEST(BenchReport, TakesGeometricMeansOfBestTimes) {
  const std::vector<Group> groups = groups_of(made_up());
  ASSERT_EQ(groups.size(), 2U);  // one and two threads
  EXPECT_EQ(groups[0].cells, 2);
  EXPECT_NEAR(groups[0].ratio, std::sqrt(1.5 * 2.4), 1e-12);
}

TEST(BenchReport, JudgesTheGoals) {
  const std::vector<Goal> goals = goals_of(made_up());
  EXPECT_NEAR(goal_with(goals, "fp32 forward, 1 thread").value, std::sqrt(1.5 * 2.4), 1e-12);
  EXPECT_TRUE(goal_with(goals, "fp32 forward, 1 thread").met());
  EXPECT_NEAR(goal_with(goals, "slowest cell").value, 1.5, 1e-12);
  const Goal& peak = goal_with(goals, "FMA peak");  // 120 of 200
  EXPECT_NEAR(peak.value, 0.6, 1e-12);
  EXPECT_FALSE(peak.met());
  EXPECT_NEAR(goal_with(goals, "causal's least").value, 0.8, 1e-12);
  EXPECT_NEAR(goal_with(goals, "gain from all threads").value, 0.75, 1e-12);
}

TEST(BenchReport, AsksNoGoalOfBfloat16BesideAmx) {
  BenchResult result = made_up();
  for (Measured& m : result.cells) m.cell.dtype = DType::kBFloat16;
  EXPECT_NO_THROW(goal_with(goals_of(result), "bf16 forward, 1 thread"));
  result.cpu.flags = {"avx2", "amx_bf16"};
  EXPECT_THROW(goal_with(goals_of(result), "bf16 forward, 1 thread"), std::runtime_error);
}

TEST(BenchReport, LeavesOutWhatWasNotMeasured) {
  BenchResult result = made_up();
  for (Measured& m : result.cells) m.torch = {};
  EXPECT_TRUE(groups_of(result).empty());
  EXPECT_THROW(goal_with(goals_of(result), "torch"), std::runtime_error);
  for (Measured& m : result.cells) m.ours = {};
  EXPECT_TRUE(goals_of(result).empty());
}

/// One decode step of one second a GB, for each of two groups.
BenchResult made_up_decode(DType dtype) {
  BenchResult result;
  Roofs roofs;
  roofs.fma_gflops = 100;
  roofs.widened_once_gflops = 40;
  roofs.widened_gflops = 80;
  roofs.read_gbs = 20;
  result.roofs.push_back(roofs);
  for (const int64_t group : {1, 8}) {
    Cell cell;
    cell.kind = Kind::kDecode;
    cell.dtype = dtype;
    cell.s_q = 1;
    cell.heads_q = cell.heads_k * group;
    result.cells.push_back({cell, {{1e-9 * cell.kv_bytes() / 10}}, {}, "", "", {}});
  }
  return result;
}

TEST(BenchReport, DecodeIsBoundByMemoryOrByProducts) {
  const auto roof = [](const BenchResult& result, size_t cell) {
    return roof_of(result.cells[cell], result.roofs.front());
  };
  BenchResult result = made_up_decode(DType::kFloat32);
  EXPECT_EQ(roof(result, 0).bound, "read");  // 0.5 flop a byte: 200 GB/s of products
  EXPECT_EQ(roof(result, 0).rate, 20);
  EXPECT_EQ(roof(result, 1).bound, "read");  // 4 flop a byte: 25
  EXPECT_NEAR(goal_with(goals_of(result), "one query head").value, 0.5, 1e-12);
  result.roofs.front().fma_gflops = 64;
  EXPECT_EQ(roof(result, 1).bound, "FMA");
  EXPECT_NEAR(roof(result, 1).rate, 16, 1e-12);
  EXPECT_NEAR(goal_with(goals_of(result), "several query heads").value, 10.0 / 16, 1e-12);

  result = made_up_decode(DType::kBFloat16);
  EXPECT_EQ(roof(result, 0).bound, "read");         // 1 flop a byte: 40
  EXPECT_EQ(roof(result, 1).bound, "widened FMA");  // 8 flop a byte
  EXPECT_NEAR(roof(result, 1).rate, 10, 1e-12);
  result.roofs.front().bf16_gflops = 400;
  EXPECT_EQ(roof(result, 1).bound, "read");
  result.cells[0].read.seconds = {1e-9 * result.cells[0].cell.kv_bytes() / 25};  // beside it
  EXPECT_NEAR(roof(result, 0).rate, 25, 1e-12);
  result.cells[0].read.seconds = {1};
  EXPECT_EQ(roof(result, 0).rate, 20);
  EXPECT_NE(json_text(result).find("\"share_of_read\": 0.5"), std::string::npos);
  EXPECT_NE(json_text(result).find("\"roof_is\": \"read\""), std::string::npos);
}

TEST(Times, KnowBestAndMedian) {
  EXPECT_EQ((Times{{3, 1, 2}}).best(), 1);
  EXPECT_EQ((Times{{3, 1, 2}}).median(), 2);
  EXPECT_EQ((Times{{4, 1, 2, 3}}).median(), 2.5);
}

TEST(Terminal, AlignsColumnsByWhatIsSeen) {
  EXPECT_EQ(display_width("\033[1mab\033[0m"), 2);
  EXPECT_EQ(display_width("─█é"), 3);
  Table table({{"name", Table::Align::kLeft}, {"n"}});
  table.add_row({"a", "10"});
  table.add_row({"\033[32mlonger\033[0m", "7"});
  EXPECT_EQ(table.text(),
            "  name     n\n  ──────  ──\n  a       10\n  \033[32mlonger\033[0m   7\n");
}

TEST(Terminal, NumbersNotesOnce) {
  Notes notes;
  EXPECT_EQ(notes.mark("one"), "[1]");
  EXPECT_EQ(notes.mark("two"), "[2]");
  EXPECT_EQ(notes.mark("one"), "[1]");
}

TEST(Roofs, ProbesReturnWhatTheyCompute) {
  std::vector<float> x(2048);
  for (size_t i = 0; i < x.size(); ++i) x[i] = -static_cast<float>(i % 24);
  double expected = 0;
  for (const float value : x) expected += std::exp2(static_cast<double>(value));
  EXPECT_NEAR(probe::exp2(x.data(), 2048), expected, 1e-4 * expected);
  std::fill(x.begin(), x.end(), 0.5F);
  EXPECT_EQ(probe::read(x.data(), 2048), 1024);
  EXPECT_GT(probe::flops_of_fma(), 0);
  // Factors of 0 leave the sums as they begin: 0 + 1 + ... + 7 in each of a few lanes.
  const std::vector<uint16_t> zeros(256, 0);
  for (const int uses : {1, 8}) {
    const float sum = probe::widened_fma(zeros.data(), 256, 3, uses);
    EXPECT_EQ(std::fmod(sum, 28.0F), 0) << sum;
    EXPECT_GT(sum, 0);
    const std::vector<uint16_t> ones(256, 0x3F80);
    const double added = probe::widened_fma(ones.data(), 256, 3, uses) - sum;
    EXPECT_NEAR(added, 0.999 * 3 * 256 * uses, 1);
  }
  EXPECT_TRUE(std::isfinite(probe::fma(1000)));
  const std::vector<float> memory(1 << 20, 1);
  for (const int threads : {1, 3}) EXPECT_GT(time_read(threads, memory.data(), 4 << 20), 0);
}

}  // namespace
}  // namespace fa4::cli
