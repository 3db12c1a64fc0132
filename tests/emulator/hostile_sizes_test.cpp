// SPDX-License-Identifier: BSD-3-Clause
// Small texts of which much becomes, and kernels whose work piles up: errors, and no memory without
// bound.
#include <gtest/gtest.h>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

const std::string kCopies = R"(
  .reg .b64 P;
  .reg .b32 BOX;
  .shared .align 16 .b8 box[64];
  ld.param.u64 P, [p0];
  mov.u32 BOX, box;
L:
)";

/// Small texts that become large when calls and tables of branches are written out.
TEST(HostileSizes, TextsThatGrow) {
  std::string calls = ".func f0() { }\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "call f" + std::to_string(i - 1) + "; ";
    calls += ".func f" + std::to_string(i) + "() { " + before + before + "}\n";
  }
  std::string tables = "T: .branchtargets ", jumps, labels;
  for (int i = 0; i < 20000; ++i) {
    const std::string label = "L" + std::to_string(i);
    tables += (i > 0 ? ", " : "") + label;
    labels += label + ":\n";
    jumps += "brx.idx 1, T;\n";
  }
  std::string registers = ".func g() { .reg .b32 r0";
  for (int i = 1; i < 5000; ++i) registers += ", r" + std::to_string(i);
  registers += "; mov.b32 r0, 1; }\n";
  for (int i = 0; i < 12; ++i) {
    const std::string before = i == 0 ? "call g; " : "call g" + std::to_string(i - 1) + "; ";
    registers += ".func g" + std::to_string(i) + "() { " + before + before + "}\n";
  }
  const auto error = [](const std::string& body, const std::string& functions) {
    const auto program = load(module_of(body, 1, functions));
    return program.ok() ? std::string() : program.status().message();
  };
  EXPECT_NE(error("call f59;", calls).find("calls make the kernel too large"), std::string::npos);
  EXPECT_NE(error(tables + ";\n" + jumps + labels, "").find("1048576 instructions"),
            std::string::npos);
  EXPECT_NE(error("call g11;", registers).find("too large"), std::string::npos);
  EXPECT_NE(load(std::string((size_t{1} << 27) + 1, ' ')).status().message().find("allowed"),
            std::string::npos);
}

TEST(HostileSizes, InitialValuesThatDoNotFit) {
  for (const char* globals :
       {".global .b128 g = 1;", ".global .b128 g[2] = {1, 2};", ".const .pred p = 1;",
        ".global .f64 g = {0d7ff0000000000000};", ".global .b8 g[2] = {300, -1};",
        ".global .v4 .b64 g = {1, 2, 3, 4, 5};"}) {
    (void)load(module_of("ret;", 1, globals));
  }
  EXPECT_NE(load(module_of("ret;", 1, ".global .b128 g = 1;")).status().message().find(".b128"),
            std::string::npos);
}

/// A kernel that starts copies and commits groups, and waits for none.
TEST(HostileSizes, WorkThatPilesUp) {
  const Unjudged unjudged;
  for (const char* loop :
       {"cp.async.ca.shared.global [BOX], [P], 16;\ncp.async.commit_group;",
        "cp.async.bulk.global.shared::cta.bulk_group [P], [BOX], 16;\ncp.async.bulk.commit_group;",
        "cp.async.bulk.commit_group;", "cp.async.commit_group;"}) {
    std::vector<std::vector<uint32_t>> buffers(2, std::vector<uint32_t>(64));
    RunOptions options;
    options.timing = Timing::kLatest;
    options.max_instructions = 8'000'000;
    const std::string error =
        run_body(kCopies + loop + "\nbra L;", buffers, {.threads = {1, 1, 1}}, options).error;
    EXPECT_TRUE(error.find("operations in flight") != std::string::npos ||
                error.find("no end") != std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace fa4::emulator::test
