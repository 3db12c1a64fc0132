// SPDX-License-Identifier: BSD-3-Clause
// The program as its user runs it: exit codes, what it prints, what it writes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/npy.h"
#include "cli/run_program.h"
#include "oracle/oracle.h"
#include "support/case.h"
#include "support/temporary_folder.h"

namespace fa4::cli {
namespace {

class Program : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.string(name); }

  void write(const std::string& name, const test::HostTensor& tensor) const {
    Array array(tensor.dtype(), tensor.dims());
    const std::vector<double> values = tensor.values();
    for (size_t i = 0; i < values.size(); ++i) set(array, static_cast<int64_t>(i), values[i]);
    ASSERT_TRUE(write_npy_file(path(name), array).ok());
  }

  /// Writes q.npy, k.npy, v.npy and dout.npy.
  test::Case write_case(DType dtype = DType::kFloat32) const {
    test::Case c =
        test::ref64({.batch = 2, .s_q = 33, .s_k = 40, .heads_q = 4, .heads_k = 2, .d = 16}, dtype);
    write("q.npy", c.q);
    write("k.npy", c.k);
    write("v.npy", c.v);
    write("dout.npy", c.dout);
    return c;
  }

  /// "attend q k v" of write_case()'s files.
  std::string attend() const {
    return "attend " + path("q.npy") + " " + path("k.npy") + " " + path("v.npy") + " ";
  }

  void expect_file(const std::string& name, const std::vector<double>& expected) const {
    const Result<Array> array = read_npy_file(path(name));
    ASSERT_TRUE(array.ok()) << array.status().message();
    ASSERT_EQ(array->elements(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(get(*array, static_cast<int64_t>(i)), expected[i], 1e-4) << name << " " << i;
    }
  }

  const test::TemporaryFolder folder_;
};

constexpr const char* kCommands[] = {"attend", "bench", "emulate", "info", "roofline", "selftest"};

TEST_F(Program, HelpsEverywhere) {
  const Outcome help = run_program("--help");
  EXPECT_EQ(help.code, 0);
  for (const std::string command : kCommands) {
    EXPECT_TRUE(help.says("  " + command + " ")) << command;
    for (const std::string& form : {command + " --help", "help " + command}) {
      const Outcome own = run_program(form);
      EXPECT_EQ(own.code, 0) << form;
      EXPECT_TRUE(own.says("Usage: fa4 " + command)) << own.text;
      EXPECT_TRUE(own.says("Examples:")) << form;
    }
  }
  EXPECT_TRUE(run_program("--version").says("fa4 "));
}

TEST_F(Program, AnswersABadCommandLineWithCodeTwo) {
  EXPECT_EQ(run_program("").code, 2);
  const Outcome unknown = run_program("atend");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.says("unknown command 'atend'; known:"));
  EXPECT_EQ(run_program("help nothing").code, 2);
  for (const std::string command : kCommands) {
    const Outcome flag = run_program(command + " --no-such-flag");
    EXPECT_EQ(flag.code, 2) << command;
    EXPECT_TRUE(flag.says("--no-such-flag") || flag.says("is required")) << flag.text;
    EXPECT_TRUE(flag.says("See 'fa4 " + command + " --help'")) << flag.text;
  }
  const Outcome words = run_program("info --fliter x");
  EXPECT_TRUE(words.says("unknown option or argument: --fliter x\n")) << words.text;
  EXPECT_EQ(run_program("roofline --chip V100").code, 2);
  EXPECT_EQ(run_program("roofline --chip H100 --two-cta").code, 2);
  EXPECT_EQ(run_program("roofline --tile-m 0").code, 2);
  EXPECT_EQ(run_program("bench --filter '('").code, 2);
  EXPECT_EQ(run_program("bench --filter nothing").code, 2);
  EXPECT_EQ(run_program("bench --dtype int8").code, 2);
  write_case();
  EXPECT_EQ(run_program(attend() + "--causal sideways").code, 2);
  EXPECT_EQ(run_program(attend() + "--device tpu").code, 2);
  EXPECT_EQ(run_program(attend() + "--dq x.npy").code, 2);
}

TEST_F(Program, TakesNumbersThatAreNumbersAndFit) {
  write_case();
  for (const char* bad :
       {"--window-left 9223372036854775808", "--window-left ''", "--window-left ' 3'",
        "--window-right 0x5", "--seed -1", "--seed 18446744073709551616", "--scale ''",
        "--scale 1e400", "--softcap 1,5", "--threads 2147483648", "--device cuda:99999999999"}) {
    const Outcome run = run_program(attend() + bad);
    EXPECT_EQ(run.code, 2) << bad << "\n" << run.text;
    EXPECT_TRUE(run.says(std::string(bad).substr(0, std::string(bad).find(' ')))) << run.text;
  }
  for (const char* good : {"--window-left 9223372036854775807", "--seed 18446744073709551615",
                           "--scale -1e-3", "--softcap 2.5"}) {
    EXPECT_EQ(run_program(attend() + good).code, 0) << good;
  }
  EXPECT_EQ(run_program("bench --list --threads 1,2 --head-dim 64,128").code, 0);
  EXPECT_EQ(run_program("bench --list --threads 1,two").code, 2);
  EXPECT_EQ(run_program("bench --seconds -1").code, 2);
}

TEST_F(Program, AttendWritesNoTwoResultsToOneFile) {
  write_case();
  const Outcome run = run_program(attend() + "--out " + path("x.npy") + " --lse " + path("x.npy"));
  EXPECT_EQ(run.code, 2);
  EXPECT_TRUE(run.says("--lse is ") && run.says("which --out is too")) << run.text;
  EXPECT_FALSE(std::filesystem::exists(path("x.npy")));
}

TEST_F(Program, PrintsNoEscapeSequencesIntoAPipe) {
  for (const char* arguments : {"info", "roofline", "--help"}) {
    EXPECT_FALSE(run_program(arguments).says("\033")) << arguments;
  }
}

TEST_F(Program, InfoTellsOfCpuGpuAndSupport) {
  const Outcome info = run_program("info");
  EXPECT_EQ(info.code, 0);
  for (const char* part : {"model", "targets", "GPUs", "cuda:0", "float32, head dim 64"}) {
    EXPECT_TRUE(info.says(part)) << part;
  }
  const auto json = nlohmann::json::parse(run_program("info --json").text);
  EXPECT_GE(json["cpu"]["usable"].get<int>(), 1);
  ASSERT_FALSE(json["cpu"]["targets"].empty());
  // Each target that it names can be forced, and another cannot.
  for (const auto& target : json["cpu"]["targets"]) {
    const auto forced = nlohmann::json::parse(
        run_program("info --json", "FA4_CPU_TARGET=" + target.get<std::string>()).text);
    EXPECT_TRUE(forced["features_on_cpu"]["causal"]["supported"].get<bool>()) << target;
  }
}

TEST_F(Program, RooflinePrintsThePublishedTable) {
  const auto rows = nlohmann::json::parse(run_program("roofline --chip B200 --json").text);
  ASSERT_EQ(rows.size(), 4U);
  const double expected[4][3] = {
      {1024, 768, 1024}, {2048, 1536, 2048}, {2560, 3328, 1024}, {2560, 2688, 1024}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rows[i]["mma_cycles"], expected[i][0]);
    EXPECT_EQ(rows[i]["shared_memory_cycles"], expected[i][1]);
    EXPECT_EQ(rows[i]["exp_cycles"], expected[i][2]);
  }
}

TEST_F(Program, AttendWritesWhatTheOracleComputes) {
  const test::Case c = write_case();
  const Outcome run =
      run_program(attend() + "--causal --check --out " + path("out.npy") + " --lse " +
                  path("lse.npy") + " --dout " + path("dout.npy") + " --dq " + path("dq.npy") +
                  " --dk " + path("dk.npy") + " --dv " + path("dv.npy"));
  ASSERT_EQ(run.code, 0) << run.text;
  for (const char* name : {"out", "lse", "dq", "dk", "dv"}) EXPECT_TRUE(run.says(name));
  EXPECT_FALSE(run.says("FAIL"));
  AttentionOptions options;
  options.causal = Causal::kBottomRight;
  const auto forward = oracle::forward(c.tensors(), options);
  expect_file("out.npy", forward.out);
  expect_file("lse.npy", forward.lse);
  const auto backward = oracle::backward(c.tensors(), c.gradients(), options);
  expect_file("dq.npy", backward.dq);
  expect_file("dk.npy", backward.dk);
  expect_file("dv.npy", backward.dv);
}

TEST_F(Program, AttendWithoutFilesToWriteTellsWhatItFound) {
  const test::Case c = write_case();
  const Outcome run = run_program(attend() + "--scale 0");  // so out is a mean of v's rows
  ASSERT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("nothing was written: --out FILE")) << run.text;
  EXPECT_TRUE(run.says("root mean square")) << run.text;
  AttentionOptions options;
  options.scale = 0;
  double largest = 0;
  for (const double x : oracle::forward(c.tensors(), options).out) {
    largest = std::max(largest, std::abs(x));
  }
  const auto json = nlohmann::json::parse(run_program(attend() + "--scale 0 --json").text);
  EXPECT_NEAR(json["out"]["largest"].get<double>(), largest, 1e-5 * largest);
  EXPECT_EQ(json["out"]["dims"].size(), 4U);
  EXPECT_FALSE(json.contains("written"));
}

TEST_F(Program, AttendTakesEveryOptionAndTensor) {
  write_case();
  write("bias.npy", test::HostTensor(DType::kFloat32, {1, 4, 33, 40}).fill(0.5));
  write("mask.npy", test::HostTensor(DType::kBool, {2, 1, 1, 40}).fill(1));
  write("slopes.npy", test::HostTensor(DType::kFloat32, {4}).fill(0.25));
  write("sink.npy", test::HostTensor(DType::kFloat32, {4}).fill(1));
  write("used.npy", test::indices({30, 20}));
  write("start.npy", test::indices({0, 3}));
  write("dlse.npy", test::HostTensor(DType::kFloat32, {2, 4, 33}).fill(0.1));
  const Outcome run = run_program(
      attend() + "--scale 0.3 --causal top-left --window-left 20 --window-right 5 --softcap 10 " +
      "--dropout 0.1 --seed 7 --deterministic --threads 1 --bias " + path("bias.npy") + " --mask " +
      path("mask.npy") + " --alibi-slopes " + path("slopes.npy") + " --sink " + path("sink.npy") +
      " --seqused-q " + path("used.npy") + " --seqused-k " + path("used.npy") + " --start-q " +
      path("start.npy") + " --start-k " + path("start.npy") + " --dout " + path("dout.npy") +
      " --dlse " + path("dlse.npy") + " --dbias " + path("dbias.npy") + " --dsink " +
      path("dsink.npy") + " --check --json");
  ASSERT_EQ(run.code, 0) << run.text;
  const auto json = nlohmann::json::parse(run.text);
  EXPECT_TRUE(json["passed"].get<bool>());
  EXPECT_EQ(json["checks"].size(), 7U);  // out, lse, dq, dk, dv, dbias, dsink
  EXPECT_EQ(json["inputs"].size(), 13U);
  EXPECT_TRUE(std::filesystem::exists(path("dbias.npy")));
  EXPECT_TRUE(std::filesystem::exists(path("dsink.npy")));
}

TEST_F(Program, AttendTakesPackedSequences) {
  const test::Case c =
      test::ref64({.heads_q = 2, .d = 16, .lengths_q = {5, 0, 12}, .lengths_k = {7, 3, 12}});
  write("q.npy", c.q);
  write("k.npy", c.k);
  write("v.npy", c.v);
  write("cu_q.npy", c.cu_seqlens_q);
  write("cu_k.npy", c.cu_seqlens_k);
  const Outcome run =
      run_program(attend() + "--cu-seqlens-q " + path("cu_q.npy") + " --cu-seqlens-k " +
                  path("cu_k.npy") + " --max-seqlen-q 12 --max-seqlen-k 12 --check");
  EXPECT_EQ(run.code, 0) << run.text;
}

TEST_F(Program, AttendReadsAndWritesSixteenBits) {
  write_case(DType::kBFloat16);
  EXPECT_TRUE(run_program(attend()).says("bfloat16")) << "two-byte files need --bf16";
  const Outcome run = run_program(attend() + "--bf16 --check --out " + path("out.npy"));
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(read_npy_file(path("out.npy"), true).ok());
  EXPECT_EQ(run_program(attend() + "--bf16 --widen --out " + path("wide.npy")).code, 0);
  const Result<Array> wide = read_npy_file(path("wide.npy"));
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->dtype(), DType::kFloat32);
  const Outcome half = run_program(attend() + "--bf16 --dtype fp16 --check");
  EXPECT_EQ(half.code, 0) << half.text;
  EXPECT_TRUE(half.says("float16 ["));
}

TEST_F(Program, AttendFailsWithCodeOneAndAReason) {
  write_case();
  const Outcome missing =
      run_program("attend " + path("no.npy") + " " + path("k.npy") + " " + path("v.npy"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(missing.says("no.npy: could not be opened")) << missing.text;
  std::ofstream(path("bad.npy")) << "not numpy";
  const Outcome bad =
      run_program("attend " + path("bad.npy") + " " + path("k.npy") + " " + path("v.npy"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(bad.says("bad.npy: begins with")) << bad.text;
  const Outcome gpu = run_program(attend() + "--device cuda:0");
  EXPECT_EQ(gpu.code, 1);
  EXPECT_TRUE(gpu.says("device: is cuda:0")) << gpu.text;
  const Outcome cap = run_program(attend() + "--softcap -1");
  EXPECT_EQ(cap.code, 1);
  EXPECT_TRUE(cap.says("softcap")) << cap.text;
  write("flat.npy", test::HostTensor(DType::kFloat32, {8}).fill(1));
  EXPECT_EQ(
      run_program("attend " + path("flat.npy") + " " + path("k.npy") + " " + path("v.npy")).code,
      1);
  EXPECT_EQ(run_program(attend() + "--out /no/such/folder/out.npy").code, 1);
}

TEST_F(Program, SelftestPassesAndRepeatsItsSeed) {
  const auto info = nlohmann::json::parse(run_program("info --json").text);
  const size_t backends = info["cpu"]["targets"].size() + info["gpus"].size();
  const Outcome run = run_program("selftest --seed 11 --json");
  EXPECT_EQ(run.code, 0) << run.text;
  const auto json = nlohmann::json::parse(run.text);
  EXPECT_TRUE(json["passed"].get<bool>());
  EXPECT_EQ(json["seed"], 11);
  EXPECT_EQ(json["tests"].size(), 20 * backends);
  for (const auto& test : json["tests"]) {
    if (test["backend"].get<std::string>().rfind("cpu ", 0) != 0) continue;
    EXPECT_EQ(test["forward"]["verdict"], "passed") << test["name"];
    EXPECT_EQ(test["backward"]["verdict"], "passed") << test["name"];
  }
}

TEST_F(Program, BenchMeasuresAndWritesItsJson) {
  const Outcome run = run_program(
      "bench --quick --no-torch --seqlen 64 --seconds 0.001 --repeats 2 --threads 1,2 "
      "--filter 'prefill/fp32/d64' --json " +
      path("bench.json"));
  ASSERT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("not asked for"));
  std::ifstream in(path("bench.json"));
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json["roofs"].size(), 2U);
  for (const auto& roof : json["roofs"]) EXPECT_GT(roof["fma_gflops"].get<double>(), 0);
  ASSERT_EQ(json["cells"].size(), 8U);  // full and causal, both passes, 1 and 2 threads
  for (const auto& cell : json["cells"]) {
    EXPECT_EQ(cell["fa4"]["runs"], 2) << cell["name"];
    EXPECT_GT(cell["fa4"]["best_seconds"].get<double>(), 0);
    EXPECT_TRUE(cell["torch"].is_null());
  }
}

TEST_F(Program, BenchSaysWhenTorchIsNotThere) {
  const Outcome run = run_program(
      "bench --quick --python no-such-python --seqlen 64 --seconds 0.001 --repeats 1 "
      "--threads 1 --filter 'prefill/fp32/d64/full/forward'");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("torch  not found (no-such-python could not be run)")) << run.text;
}

/// A stand-in for a python with torch: it speaks the peer's lines, so that the bench's side of the
/// conversation is tested where torch is not installed. `prepare`: what it does before it answers
/// for a cell, in bash.
void write_peer(const std::string& file, const std::string& prepare) {
  std::ofstream(file) << "#!/bin/bash\n"
                         "echo '{\"torch\": \"0.0\", \"capability\": \"none\"}'\n"
                         "cells=0\n"
                         "while read -r line; do case \"$line\" in\n"
                         "  *prepare*) cells=$((cells + 1)); "
                      << prepare
                      << " echo '{\"ok\": true}';;\n"
                         "  *) echo '{\"seconds\": 0.5}';;\n"
                         "esac; done\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

TEST_F(Program, BenchTakesTurnsWithThePeer) {
  write_peer(path("python"), "");
  const Outcome run = run_program(
      "bench --quick --seqlen 64 --seconds 0.001 --repeats 3 --threads 1 "
      "--filter 'prefill/fp32/d64/full/forward' --python " +
      path("python") + " --json " + path("bench.json"));
  ASSERT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("torch  0.0, none"));
  std::ifstream in(path("bench.json"));
  const auto json = nlohmann::json::parse(in);
  const auto& cell = json["cells"][0];
  EXPECT_EQ(cell["torch"]["runs"], 3);
  EXPECT_EQ(cell["torch"]["best_seconds"], 0.5);
  ASSERT_EQ(json["groups"].size(), 1U);
  EXPECT_DOUBLE_EQ(json["groups"][0]["ratio"].get<double>(),
                   0.5 / cell["fa4"]["best_seconds"].get<double>());
}

/// The peer's script presses Ctrl-C when the second of two cells begins.
TEST_F(Program, BenchInterruptedKeepsWhatIsFinished) {
  write_peer(path("python"), "[ $cells = 2 ] && kill -INT $PPID;");
  const Outcome run = run_program(
      "bench --quick --seqlen 64 --seconds 0.001 --repeats 3 --threads 1 "
      "--filter 'prefill/fp32/d64/full' --python " +
      path("python") + " --json " + path("bench.json"));
  EXPECT_EQ(run.code, 128 + SIGINT) << run.text;
  EXPECT_TRUE(run.says("interrupted after 1 of 2 cells")) << run.text;
  std::ifstream in(path("bench.json"));
  const auto json = nlohmann::json::parse(in);
  EXPECT_TRUE(json["interrupted"].get<bool>());
  ASSERT_EQ(json["cells"].size(), 1U);
  EXPECT_EQ(json["cells"][0]["torch"]["runs"], 3);
}

}  // namespace
}  // namespace fa4::cli
