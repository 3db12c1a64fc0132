// SPDX-License-Identifier: BSD-3-Clause
// The sm_90a forward kernel in the emulator, through the public interface, judged by the oracle.
// Compiled by NVRTC, which need not be there: then the tests skip.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu/emulator_settings.h"
#include "support/case.h"
#include "support/gpu_case.h"

namespace fa4 {
namespace {

using test::Case;
using test::HostTensor;
using test::Shape;

const Device kDevice = Device::emulator("sm_90a");

/// FA4_EMULATOR for as long as it lives.
class Setting {
 public:
  explicit Setting(const std::string& value) { setenv("FA4_EMULATOR", value.c_str(), 1); }
  ~Setting() { unsetenv("FA4_EMULATOR"); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
};

/// Runs the case's forward on the emulator; its outputs are then as if forward() had run.
Status run_emulated(Case& c) {
  const Tensor q = c.q.view(), v = c.v.view();
  c.out = HostTensor(q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]});
  c.lse = HostTensor(DType::kFloat32, {q.dims[0], q.dims[2], q.dims[1]});
  AttentionTensors t = c.tensors();
  for (Tensor* tensor : {&t.q, &t.k, &t.v, &t.out, &t.lse}) tensor->device = kDevice;
  return attention(t, c.options);
}

class EmulatedForward : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = test::why_no_forward(kDevice);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
  static void expect_right(Case& c) {
    const Status status = run_emulated(c);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message();
    EXPECT_EQ(c.judge_forward(), "") << c.name;
    EXPECT_EQ(c.out.damage(), "") << c.name;
    EXPECT_EQ(c.lse.damage(), "") << c.name;
  }
};

/// Three warpgroups of 64 rows and four producers' warps; 160 keys are three tiles of 64.
TEST_F(EmulatedForward, CountersOfTheKernel) {
  Case c = test::ref64({.s_q = 192, .s_k = 160, .heads_q = 1, .d = 128}, DType::kBFloat16);
  emulator::Tally tally;
  gpu::EmulatorSettings settings;
  settings.run.counters = true;
  settings.tally = &tally;
  {
    const gpu::ThreadEmulatorSettings here(settings);
    expect_right(c);
  }
  constexpr uint64_t kScores = uint64_t{192} * 192, kRow = 128 * 2;
  ASSERT_GE(tally.roles.size(), 3u);
  const emulator::RoleCounts& consumers = tally.roles[0];
  EXPECT_EQ(consumers.name, "warps 0 to 11");
  EXPECT_EQ(consumers.warps, 0xfffu);
  EXPECT_EQ(consumers.counts.matrix_flops, 2 * 2 * kScores * 128);
  // An exponential a score, and a few a row besides.
  EXPECT_GE(consumers.counts.special, kScores);
  EXPECT_LE(consumers.counts.special, kScores + 192 * 64);
  uint64_t loaded = 0;
  for (size_t i = 1; i < tally.roles.size(); ++i) {
    loaded += tally.roles[i].counts.async_shared_written;
    EXPECT_EQ(tally.roles[i].counts.matrix_flops, 0u);
  }
  EXPECT_EQ(loaded, (192 + 2 * 192) * kRow);
}

TEST_F(EmulatedForward, HeadDims) {
  for (const int64_t d : {64, 128, 256}) {
    Case c = test::ref64({.batch = 2, .s_q = 130, .s_k = 150, .heads_q = 2, .d = d},
                         DType::kBFloat16, static_cast<uint64_t>(d));
    expect_right(c);
  }
  Case c = test::ref64({.s_q = 100, .s_k = 300, .d = 192, .d_v = 128}, DType::kFloat16);
  c.options.causal = Causal::kBottomRight;
  expect_right(c);
}

TEST_F(EmulatedForward, Masks) {
  const Shape shape{.s_q = 200, .s_k = 333, .heads_q = 4, .heads_k = 2, .d = 64};
  for (const Causal causal : {Causal::kTopLeft, Causal::kBottomRight}) {
    Case c = test::ref64(shape, DType::kFloat16);
    c.options.causal = causal;
    expect_right(c);
  }
  Case c = test::ref64(shape, DType::kBFloat16);
  c.options.window.left = 40;
  c.options.window.right = 10;
  expect_right(c);
}

/// Keys are walked from the last to the first, and scores grow on the way: from some tile on a
/// row's reference is too low again and again, by a little, or by so much that 2^x is infinite.
TEST_F(EmulatedForward, ScoresThatRiseBeyondTheReference) {
  for (const int64_t d : {64, 128}) {
    for (const double growth : {8.0, 12.0}) {
      for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        Case c = test::ref64({.s_q = 70, .s_k = 500, .d = d}, dtype);
        c.k.fill_with([&](const test::Index& i) {
          return static_cast<double>(i[3] % 3 - 1) *
                 std::exp2(growth - static_cast<double>(i[1]) / 40);
        });
        expect_right(c);
      }
    }
  }
}

/// Row 77 alone finds its largest score late: one warp does a tile again, the others do not.
TEST_F(EmulatedForward, OneRowFindsItsLargestScoreLate) {
  Case c = test::ref64({.s_q = 192, .s_k = 512, .d = 128}, DType::kBFloat16);
  c.k.fill_with([](const test::Index& i) {  // key 100 is row 77's own
    const double x = std::sin(static_cast<double>(i[1] * 131 + i[3] * 7));
    return i[1] == 100 ? 40.0 * static_cast<double>(i[3] == 3) : x;
  });
  c.q.fill_with([](const test::Index& i) {
    const double x = std::cos(static_cast<double>(i[1] * 17 + i[3] * 11));
    return i[3] == 3 ? 40.0 * static_cast<double>(i[1] == 77) : x;
  });
  expect_right(c);
}

/// The result must not depend on who runs when, or on when copies complete.
TEST_F(EmulatedForward, SameBitsInEverySchedule) {
  std::vector<std::byte> first;
  for (const char* setting :
       {"seed=0,timing=earliest", "seed=1,timing=latest", "seed=2,timing=random",
        "seed=3,schedule=priority", "seed=4,schedule=priority,timing=latest", "seed=5,resident=4",
        "seed=6,workers=2"}) {
    const Setting scope(setting);
    Case c = test::ref64({.s_q = 400, .s_k = 300, .heads_q = 2, .d = 64}, DType::kBFloat16);
    c.options.causal = Causal::kBottomRight;
    expect_right(c);
    if (first.empty()) first = c.out.bytes();
    EXPECT_EQ(c.out.bytes(), first) << setting;
  }
}

/// No error and no warning, whatever the schedule.
TEST_F(EmulatedForward, PassesTheJudge) {
  for (const char* setting :
       {"seed=0,checks=warnings,timing=earliest", "seed=1,checks=warnings,timing=latest",
        "seed=2,checks=warnings,schedule=priority,resident=4"}) {
    const Setting scope(setting);
    for (const int64_t d : {64, 128, 256}) {
      Case c = test::ref64({.s_q = 200, .s_k = 300, .heads_q = 4, .heads_k = 2, .d = d},
                           DType::kBFloat16, static_cast<uint64_t>(d));
      c.options.causal = Causal::kBottomRight;
      expect_right(c);
    }
  }
}

TEST_F(EmulatedForward, SettingsAreChecked) {
  const Setting scope("timing=never");
  Case c = test::ref64({.s_q = 1, .s_k = 1, .d = 64}, DType::kBFloat16);
  const Status status = run_emulated(c);
  EXPECT_NE(status.message().find("timing=never"), std::string::npos) << status.message();
}

TEST(EmulatedDevice, UnknownTargetsAreRefused) {
  const Case c = test::ref64({.s_q = 1, .s_k = 1}, DType::kBFloat16);
  const Support support =
      supports(AttentionProblem::forward(c.tensors(), c.options), Device::emulator("sm_75"));
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find("sm_90a"), std::string::npos) << support.reason;
}

TEST(EmulatedDevice, HasAName) {
  EXPECT_EQ(to_string(Device::emulator("sm_90a")), "emulator:sm_90a");
  EXPECT_EQ(to_string(Device::emulator("sm_80")), "emulator:sm_80");
}

}  // namespace
}  // namespace fa4
