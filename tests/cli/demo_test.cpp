// SPDX-License-Identifier: BSD-3-Clause
// The program's demo as its user runs it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/npy.h"
#include "cli/run_program.h"

namespace fa4::cli {
namespace {

namespace fs = std::filesystem;

void expect_error(const nlohmann::json& error) {
  EXPECT_GE(error.at("error").get<double>(), 0);
  EXPECT_GE(error.at("plain").get<double>(), 0);
  EXPECT_LE(error.at("of_bound").get<double>(), 1);
}

void expect_pass(const nlohmann::json& pass, std::initializer_list<const char*> results) {
  for (const char* name : results) expect_error(pass.at(name));
  EXPECT_TRUE(pass.at("padding_clean").get<bool>());
  for (const char* layout : {"padded", "packed", "masked"}) {
    EXPECT_GT(pass.at("microseconds").at(layout).get<double>(), 0);
  }
  EXPECT_GT(pass.at("gflops").get<double>(), 0);
}

TEST(Demo, RunsAndWritesWhatItFound) {
  const fs::path folder = fs::path(testing::TempDir()) / ("fa4_demo_" + std::to_string(getpid()));
  const Outcome output = run_program("demo --out " + folder.string());
  ASSERT_EQ(output.code, 0) << output.text;
  EXPECT_NE(output.text.find("PASS"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("violinist"), std::string::npos) << "no picture";

  const nlohmann::json demo = nlohmann::json::parse(std::ifstream(folder / "demo.json"));
  EXPECT_TRUE(demo.at("pass").get<bool>());
  EXPECT_EQ(demo.at("input").at("lengths"), nlohmann::json({1, 5, 37, 128}));
  ASSERT_EQ(demo.at("runs").size(), 12U);  // 6 layers in float32 and bfloat16
  for (const nlohmann::json& run : demo.at("runs")) {
    expect_pass(run.at("forward"), {"out_to_torch", "out_to_float64", "lse"});
    expect_pass(run.at("backward"), {"dq", "dk", "dv"});
  }

  const Array maps = read_npy_file((folder / "demo_attention.npy").string()).value();
  ASSERT_EQ(maps.dims(), (std::vector<int64_t>{6, 12, 37, 37}));
  for (int64_t row = 0; row < maps.elements() / 37; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 37; ++i) sum += get(maps, row * 37 + i);
    ASSERT_NEAR(sum, 1, 1e-5) << "row " << row;
  }
  fs::remove_all(folder);
}

TEST(Demo, RefusesWhatMakesNoSense) {
  const Outcome layer = run_program("demo --layer 6");
  EXPECT_EQ(layer.code, 2);
  EXPECT_NE(layer.text.find("--layer is 6, must be 0 to 5"), std::string::npos) << layer.text;
  const Outcome head = run_program("demo --head -1");
  EXPECT_EQ(head.code, 2);
  EXPECT_NE(head.text.find("--head is -1, must be 0 to 11"), std::string::npos) << head.text;
  const Outcome dtype = run_program("demo --dtypes fp32,fp8");
  EXPECT_EQ(dtype.code, 2);
  EXPECT_NE(dtype.text.find("'fp8'"), std::string::npos) << dtype.text;
  const Outcome data = run_program("demo --data /nowhere");
  EXPECT_EQ(data.code, 1);
  EXPECT_NE(data.text.find("/nowhere/manifest.json"), std::string::npos) << data.text;
}

}  // namespace
}  // namespace fa4::cli
