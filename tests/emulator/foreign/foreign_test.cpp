// SPDX-License-Identifier: BSD-3-Clause
// A CUDA program compiled by nvcc runs on the emulator, unaware of it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Outcome {
  int code = -1;
  std::string text;
  bool says(const char* part) const { return text.find(part) != std::string::npos; }
};

Outcome run(const std::string& environment, const std::string& arguments = "") {
  const std::string folder = FA4_FOREIGN_FOLDER;
  const std::string command = "LD_PRELOAD='" FA4_FOREIGN_LIBRARY "' " + environment + " '" +
                              folder + "/program' " + arguments + " 2>&1 </dev/null";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  size_t got = 0;
  while ((got = fread(buffer, 1, sizeof buffer, pipe)) > 0) outcome.text.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

const std::string kPtx = "FA4_FOREIGN_PTX='" FA4_FOREIGN_FOLDER "/ptx' ";

class Foreign : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = FA4_FOREIGN_SKIPPED;
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Foreign, RunsRightUnderEverySchedule) {
  for (const char* options :
       {"seed=1,timing=earliest", "seed=2,timing=latest,schedule=priority", "seed=3,workers=2"}) {
    const Outcome got = run(kPtx + "FA4_EMULATOR=checks=warnings," + options);
    EXPECT_EQ(got.code, 0) << got.text;
    EXPECT_TRUE(got.says("right on fa4 emulator sm_90")) << got.text;
    EXPECT_TRUE(got.says("3840 numbers times 3.0 (scale)\n")) << got.text;
    EXPECT_FALSE(got.says("warning")) << got.text;
  }
}

TEST_F(Foreign, SaysWhatItRan) {
  const Outcome got = run(kPtx + "FA4_FOREIGN_VERBOSE=1");
  EXPECT_TRUE(got.says("transpose")) << got.text;
  EXPECT_TRUE(got.says("grid 3x3x1, block 32x1x1")) << got.text;
}

TEST_F(Foreign, ReportsWhatTheKernelDoesWrong) {
  const Outcome got = run(kPtx, "outside");
  EXPECT_EQ(got.code, 1);
  EXPECT_TRUE(got.says("lies in no allocation")) << got.text;
  EXPECT_TRUE(got.says("unspecified launch failure")) << got.text;
}

TEST_F(Foreign, NamesTheCallsThatItLacks) {
  const Outcome got = run(kPtx, "graph");
  EXPECT_EQ(got.code, 1);
  EXPECT_TRUE(got.says("cudaGraphCreate is not supported by the emulator")) << got.text;
}

TEST_F(Foreign, SaysWhereThePtxShouldBe) {
  EXPECT_TRUE(run("").says("FA4_FOREIGN_PTX, the folder of the PTX, is not set"));
  EXPECT_TRUE(run("FA4_FOREIGN_PTX=/nowhere").says("there is no .ptx file in /nowhere"));
  const Outcome got = run(kPtx + "FA4_EMULATOR=timing=never");
  EXPECT_TRUE(got.says("FA4_EMULATOR: has timing=never")) << got.text;
  EXPECT_EQ(got.code, 1);
}

}  // namespace
