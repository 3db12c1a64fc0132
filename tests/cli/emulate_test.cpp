// SPDX-License-Identifier: BSD-3-Clause
// `fa4 emulate`, and the emulator as a device of the other commands, as their users run them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/npy.h"
#include "cli/run_program.h"
#include "gpu/jit/nvrtc.h"
#include "support/temporary_folder.h"

namespace fa4::cli {
namespace {

namespace fs = std::filesystem;

/// c[i] = scale * a[i] + b[i]
constexpr char kAxpy[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry axpy(.param .u64 a, .param .u64 b, .param .u64 c, .param .f32 scale,
                     .param .u32 n)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.f32 %f1, [scale];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra END;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd6, %rd2, %rd4;
  add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f2, [%rd5];
  ld.global.f32 %f3, [%rd6];
  fma.rn.f32 %f2, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f2;
END:
  ret;
}
)";

/// Copies a box of 8 x 4 floats through shared memory.
constexpr char kTile[] = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry tile(.param .u64 x, .param .align 64 .b8 map[128], .param .u64 y)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  .reg .pred %p<2>;
  .shared .align 128 .b8 box[128];
  .shared .align 8 .b64 bar;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd2, %rd1;
  ld.param.u64 %rd3, [y];
  mov.u32 %r1, box;
  mov.u32 %r2, bar;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra WAIT;
  mbarrier.init.shared::cta.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {0, 0}], [%r2];
WAIT:
  bar.sync 0;
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
  @!%p1 bra AGAIN;
  shl.b32 %r4, %r3, 2;
  add.u32 %r5, %r1, %r4;
  ld.shared.u32 %r6, [%r5];
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd5, %rd3, %rd4;
  st.global.u32 [%rd5], %r6;
  ret;
}
)";

class EmulateCommand : public testing::Test {
 protected:
  EmulateCommand() {
    write_text("axpy.ptx", kAxpy);
    write_text("tile.ptx", kTile);
    write("a.npy", 100, 1);
    write("b.npy", 100, 1000);
  }
  std::string path(const std::string& name) const { return folder_.string(name); }
  void write_text(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  /// 0, step, 2 step ...
  void write(const std::string& name, int64_t count, double step) const {
    Array array(DType::kFloat32, {count});
    for (int64_t i = 0; i < count; ++i) set(array, i, step * static_cast<double>(i));
    ASSERT_TRUE(write_npy_file(path(name), array).ok());
  }
  Outcome axpy(const std::string& more) const {
    return run_program("emulate " + path("axpy.ptx") + " " + more);
  }
  /// With the arguments that it wants.
  Outcome right_axpy(const std::string& more = "") const {
    return axpy("--grid 4 --block 32 " + more + " --args in:" + path("a.npy") +
                " in:" + path("b.npy") + " out:" + path("c.npy") + ":f32:100 f32:0.5 u32:100");
  }

  const test::TemporaryFolder folder_;
};

TEST_F(EmulateCommand, RunsAKernel) {
  const Outcome run = right_axpy("--runs 3");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("global memory")) << run.text;
  EXPECT_TRUE(run.says("3 runs, seeds 0 to 2, equal results")) << run.text;
  const auto c = read_npy_file(path("c.npy"));
  ASSERT_TRUE(c.ok()) << c.status().message();
  ASSERT_EQ(c->elements(), 100);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(get(*c, i), 1000.5 * static_cast<double>(i));
}

TEST_F(EmulateCommand, TalliesAsJson) {
  const Outcome run = right_axpy("--json");
  const auto json = nlohmann::json::parse(run.text);
  EXPECT_EQ(json["kernel"], "axpy");
  EXPECT_EQ(json["target"], "sm_80");
  EXPECT_EQ(json["classes"]["global memory"], 4 * 3);  // two loads and a store, four warps
  EXPECT_GT(json["instructions"], 4 * 15);
}

TEST_F(EmulateCommand, CopiesByTensorMap) {
  Array x(DType::kFloat32, {6, 10});
  for (int64_t i = 0; i < 60; ++i) set(x, i, static_cast<double>(i));
  Array wide(DType::kFloat32, {6, 12});  // rows of a multiple of 16 bytes
  for (int64_t i = 0; i < 72; ++i) set(wide, i, static_cast<double>(i));
  ASSERT_TRUE(write_npy_file(path("x.npy"), wide).ok());
  ASSERT_TRUE(write_npy_file(path("narrow.npy"), x).ok());
  const std::string tail = " out:" + path("y.npy") + ":f32:4,8";
  const Outcome run =
      run_program("emulate " + path("tile.ptx") +
                  " --block 32 --timing latest --args in:" + path("x.npy") + " map:0:8,4" + tail);
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("128 bytes by bulk and tensor copies")) << run.text;
  const auto y = read_npy_file(path("y.npy"));
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (int64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(get(*y, i), static_cast<double>(i / 8 * 12 + i % 8)) << i;
  }
  const Outcome odd =
      run_program("emulate " + path("tile.ptx") + " --block 32 --args in:" + path("narrow.npy") +
                  " map:0:8,4" + tail);
  EXPECT_EQ(odd.code, 2) << odd.text;
  EXPECT_TRUE(odd.says("argument 1: is 'map:0:8,4'")) << odd.text;
}

TEST_F(EmulateCommand, SaysWhichArgumentIsWrong) {
  const struct {
    const char* word;
    const char* message;
  } cases[] = {
      {"u32:-1", "argument 0: is 'u32:-1': '-1' is no unsigned number of 32 bits"},
      {"u8:256", "'256' is no unsigned number of 8 bits"},
      {"s16:0x10000", "is no whole number of 16 bits"},
      {"f32:one", "'one' is no number"},
      {"int:1", "'int' is unknown; allowed: u8 to u64"},
      {"zeros:f32", "has 2 parts; allowed: zeros:TYPE:DIMS"},
      {"zeros:f31:4", "type 'f31' is unknown; allowed: f16, bf16, f32"},
      {"zeros:f32:4,0", "dim 0 is below 1"},
      {"zeros:f64:9999999,9999999", "is more than"},
      {"map:0:8", "argument 0 is no array before it"},
      {"out:x.npy:f32:1,1,1,1,1,1", "has 6 dims; allowed: 1 to"},
  };
  for (const auto& c : cases) {
    const Outcome run = axpy(std::string("--args ") + c.word);
    EXPECT_EQ(run.code, 2) << run.text;
    EXPECT_TRUE(run.says(c.message)) << run.text;
  }
  const Outcome missing = axpy("--args in:/no/such/file.npy");
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(missing.says("/no/such/file.npy")) << missing.text;
}

TEST_F(EmulateCommand, SaysWhatIsWrongWithTheLaunch) {
  const Outcome params = axpy("--args u32:1");
  EXPECT_EQ(params.code, 1);
  EXPECT_TRUE(params.says("parameters are 4 bytes; allowed: 32")) << params.text;
  const Outcome grid = axpy("--grid 0");
  EXPECT_EQ(grid.code, 2);
  EXPECT_TRUE(grid.says("--grid: has 0; allowed: 1 to")) << grid.text;
  EXPECT_EQ(axpy("--block 1,2,3,4").code, 2);
  const Outcome entry = axpy("--entry nobody");
  EXPECT_EQ(entry.code, 2);
  EXPECT_TRUE(entry.says("--entry: is nobody; ") && entry.says("has axpy")) << entry.text;
  const Outcome target = right_axpy("--target sm_90a");
  EXPECT_EQ(target.code, 1);
  EXPECT_TRUE(target.says(".target is sm_80; allowed by --target: sm_90a")) << target.text;
  EXPECT_EQ(right_axpy("--timing never").code, 2);
}

TEST_F(EmulateCommand, NamesTheLineOfAnError) {
  write_text("bad.ptx",
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
             "frobnicate.u32 %r1;\nret;\n}\n");
  const Outcome bad = run_program("emulate " + path("bad.ptx"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(bad.says("line 6") && bad.says("frobnicate")) << bad.text;
  const Outcome outside =
      axpy("--grid 4 --block 32 --args in:" + path("a.npy") + " in:" + path("b.npy") +
           " out:" + path("c.npy") + ":f32:99 f32:0.5 u32:100");
  EXPECT_EQ(outside.code, 1);
  EXPECT_TRUE(outside.says("PTX line 29") && outside.says("seed 0")) << outside.text;
  EXPECT_EQ(run_program("emulate /no/such/file.ptx").code, 1);
}

TEST_F(EmulateCommand, ListsKernels) {
  const Outcome list = axpy("--list");
  EXPECT_EQ(list.code, 0);
  EXPECT_TRUE(list.says("axpy") && list.says("sm_80") && list.says("32")) << list.text;
}

TEST_F(EmulateCommand, FindsResultsThatDependOnTheOrder) {
  // Every block takes a ticket and writes it to its own place.
  write_text("ticket.ptx",
             ".version 8.0\n.target sm_80\n.address_size 64\n"
             ".visible .entry k(.param .u64 c, .param .u64 o)\n{\n"
             ".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"
             "ld.param.u64 %rd1, [c];\nld.param.u64 %rd2, [o];\n"
             "atom.global.add.u32 %r1, [%rd1], 1;\nmov.u32 %r2, %ctaid.x;\n"
             "mul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd2, %rd2, %rd3;\n"
             "st.global.u32 [%rd2], %r1;\nret;\n}\n");
  const Outcome run = run_program(
      "emulate " + path("ticket.ptx") +
      " --grid 16 --resident 8 --runs 20 --args zeros:u32:1 out:" + path("o.npy") + ":u32:16");
  EXPECT_EQ(run.code, 1) << run.text;
  EXPECT_TRUE(run.says("gives other results than seed 0")) << run.text;
}

TEST_F(EmulateCommand, ChecksForRaces) {
  // Each thread writes its place and reads another warp's, with nothing between.
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o)\n{\n"
      ".reg .b64 %rd<4>;\n.reg .b32 %r<8>;\n.shared .b32 s[64];\n"
      "ld.param.u64 %rd1, [o];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\n"
      "add.u32 %r4, %r2, %r3;\nst.shared.u32 [%r4], %r1;\nBARRIER\nxor.b32 %r3, %r3, 128;\n"
      "add.u32 %r4, %r2, %r3;\nld.shared.u32 %r5, [%r4];\nmul.wide.u32 %rd2, %r1, 4;\n"
      "add.u64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r5;\nret;\n}\n";
  const auto with = [&](const std::string& barrier) {
    std::string changed = text;
    return changed.replace(changed.find("BARRIER"), 7, barrier);
  };
  write_text("race.ptx", with(""));
  write_text("right.ptx", with("bar.sync 0;"));
  const std::string rest = " --block 64 --args out:" + path("o.npy") + ":u32:64 --checks ";
  const Outcome race = run_program("emulate " + path("race.ptx") + rest + "errors");
  EXPECT_EQ(race.code, 1) << race.text;
  EXPECT_TRUE(race.says("shared-race") || race.says("memory that nobody wrote")) << race.text;
  EXPECT_EQ(run_program("emulate " + path("race.ptx") + rest + "off").code, 0);
  const Outcome right = run_program("emulate " + path("right.ptx") + rest + "warnings --json");
  EXPECT_EQ(right.code, 0) << right.text;
  EXPECT_TRUE(nlohmann::json::parse(right.text)["warnings"].empty()) << right.text;
  EXPECT_EQ(run_program("emulate " + path("race.ptx") + rest + "some").code, 2);
  const std::string forgive = " --forgive shared-race+shared-undefined+register-undefined";
  EXPECT_EQ(run_program("emulate " + path("race.ptx") + rest + "errors" + forgive).code, 0);
  const Outcome counted = run_program("emulate " + path("race.ptx") + rest + "warnings" + forgive);
  EXPECT_EQ(counted.code, 0) << counted.text;
  EXPECT_TRUE(counted.says("shared-race: ")) << counted.text;
  const Outcome unknown = run_program("emulate " + path("race.ptx") + rest + "off --forgive races");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.says("--forgive: is races; allowed: register-undefined, ")) << unknown.text;
  const std::string others = " --late-loads off --late-stores off --sums hopper";
  EXPECT_EQ(run_program("emulate " + path("right.ptx") + rest + "errors" + others).code, 0);
}

TEST_F(EmulateCommand, PrintsWhatTheKernelPrints) {
  write_text("print.ptx",
             ".version 8.0\n.target sm_80\n.address_size 64\n"
             ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
             ".global .b8 format[8] = {60, 37, 100, 62, 10, 0};\n"  // "<%d>\n"
             ".visible .entry k()\n{\n.local .align 8 .b8 depot[8];\n.reg .b64 %rd<4>;\n"
             ".reg .b32 %r<4>;\nmov.u64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\n"
             "mov.u32 %r1, %tid.x;\nst.local.u32 [%rd1], %r1;\nmov.u64 %rd3, format;\n"
             "cvta.global.u64 %rd3, %rd3;\n{ .param .b64 f; .param .b64 a; .param .b32 r;\n"
             "st.param.b64 [f], %rd3;\nst.param.b64 [a], %rd2;\n"
             "call.uni (r), vprintf, (f, a); }\nret;\n}\n");
  const Outcome run = run_program("emulate " + path("print.ptx") + " --block 3");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("<0>\n<1>\n<2>\n")) << run.text;
}

TEST_F(EmulateCommand, CountsByRole) {
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .b32 %r<4>;\nmov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, 1;\nbar.sync 0;\nret;\n}\n";
  write_text("count.ptx", text);
  const std::string run = "emulate " + path("count.ptx") + " --grid 4 --block 64 --counters";
  const Outcome table = run_program(run);
  EXPECT_EQ(table.code, 0) << table.text;
  EXPECT_TRUE(table.says("warps 0 to 1")) << table.text;
  EXPECT_TRUE(table.says("waits at barriers")) << table.text;
  const Outcome json = run_program(run + " --json --tiles 16");
  ASSERT_EQ(json.code, 0) << json.text;
  const auto roles = nlohmann::json::parse(json.text)["roles"];
  ASSERT_EQ(roles.size(), 1u);
  EXPECT_EQ(roles[0]["warps"], nlohmann::json({0, 1}));
  EXPECT_EQ(roles[0]["instructions"], 4.0 * 2 * 4 / 16);
  EXPECT_EQ(roles[0]["waits"], 0.5);
  EXPECT_EQ(roles[0]["classes"]["integer"], 0.5);
  const Outcome both = run_program(run + " --checks errors");
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(both.says("--counters: stands with --checks errors; allowed: off")) << both.text;
}

TEST_F(EmulateCommand, IsADeviceOfAttend) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  Array q(DType::kFloat32, {1, 70, 2, 64});
  for (int64_t i = 0; i < q.elements(); ++i) set(q, i, static_cast<double>(i % 17) / 17);
  ASSERT_TRUE(write_npy_file(path("q.npy"), q).ok());
  const std::string files = path("q.npy") + " " + path("q.npy") + " " + path("q.npy");
  const Outcome run =
      run_program("attend " + files + " --dtype bf16 --causal --device emulator:sm_90a --check");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.says("pass")) << run.text;
  const Outcome wide = run_program("attend " + files + " --device emulator:sm_90a");
  EXPECT_EQ(wide.code, 1);
  EXPECT_TRUE(wide.says("only bfloat16 and float16")) << wide.text;
  const Outcome unknown = run_program("attend " + files + " --device emulator:sm_75");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(unknown.says("emulator:sm_90a")) << unknown.text;
  EXPECT_TRUE(run_program("info").says("emulator:sm_90a"));
}

}  // namespace
}  // namespace fa4::cli
