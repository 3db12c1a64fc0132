// SPDX-License-Identifier: BSD-3-Clause
// Every sm_90a kernel in the emulator, against what an H200 gave: to the bit for exact data, within
// a bound for real data.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "emulator/probes/apart.h"
#include "emulator/probes/fixture.h"
#include "emulator/probes/kernel_cases.h"
#include "gpu/jit/nvrtc.h"
#include "oracle/oracle.h"
#include "support/places.h"

namespace fa4::emulator::probes {
namespace {

using Records = std::map<std::string, Record>;

const Records& fixture() {
  static const Records records = [] {
    std::ifstream file(std::string(fa4::test::kSourceFolder) +
                       "/tests/emulator/probes/h200_kernels.txt");
    std::stringstream text;
    text << file.rdbuf();
    return parse_fixture(text.str()).value();
  }();
  return records;
}

constexpr double kSeconds = 600;  ///< That a case may take.

class KernelProbes : public testing::Test {
 protected:
  void SetUp() override {
    const auto version = gpu::jit::nvrtc_version();
    if (!version.ok()) GTEST_SKIP() << version.status().message();
  }
};

/// What is wrong with a result; empty if nothing.
std::string judge(const KernelCase& kernel, const Words& mine, const Record& record) {
  if (record.count != mine.size()) return "gave another number of words";
  if (kernel.exact) return hash_of(mine) == record.hash ? "" : "is not what an H200 gave";
  Words theirs = mine;
  for (size_t i = 0; i < kSamples; ++i) {
    theirs[sample_place(i, mine.size())] = record.words.at(i);
  }
  const KernelDifference d = compare_case(make_case(kernel), mine, theirs);
  if (d.row_ulps <= kMostRowUlps && d.lse <= kMostLse) return "";
  return std::to_string(d.row_ulps) + " ulps at the row's scale, lse " + std::to_string(d.lse);
}

// Exact data for every kernel, real data for every sixth.
TEST_F(KernelProbes, GiveWhatTheHardwareGives) {
  std::vector<KernelCase> cases = kernel_cases();
  for (size_t i = cases.size(); i-- > 0;) {
    if (!cases[i].exact && i / 2 % 6 != 0) cases.erase(cases.begin() + static_cast<ptrdiff_t>(i));
  }
  // What is compiled for exact data is there for real data.
  std::stable_partition(cases.begin(), cases.end(), [](const KernelCase& c) { return c.exact; });
  // In processes, each of which has an NVRTC of its own: it compiles one kernel at a time.
  const Jobs jobs{
      cases.size(), [&](size_t i) { return run_case(cases[i], Device::emulator("sm_90a")); },
      [] { return std::string(); }, kSeconds, std::max(1u, std::thread::hardware_concurrency())};
  std::string missing, ignored;
  const std::vector<Outcome> outcomes = run_apart(jobs, ignored);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto found = fixture().find(cases[i].name);
    if (!outcomes[i].ok) {
      ADD_FAILURE() << cases[i].name << ": " << outcomes[i].error;
    } else if (found == fixture().end()) {
      missing += " " + cases[i].name;
    } else {
      EXPECT_EQ(judge(cases[i], outcomes[i].words, found->second), "") << cases[i].name;
    }
  }
  if (!missing.empty()) GTEST_SKIP() << "tests/emulator/probes/h200_kernels.txt lacks" << missing;
}

// The exact data are what they claim to be: the rounded true result is the emulator's, to the bit.
TEST_F(KernelProbes, ExactDataHaveExactResults) {
  const std::vector<KernelCase> cases = kernel_cases();
  int checked = 0;
  for (size_t i = 0; i < cases.size(); i += 14) {
    ASSERT_TRUE(cases[i].exact);
    test::Case c = make_case(cases[i]);
    if (c.k.dims()[1] > 1000) continue;
    c.device = Device::emulator("sm_90a");
    const Status status = c.forward();
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message();
    const auto truth = oracle::forward(c.tensors(), c.options, oracle::Precision::kExact);
    test::HostTensor out(c.out.dtype(), c.out.dims());
    out.fill(truth.out);
    EXPECT_EQ(c.out.bytes(), out.bytes()) << c.name;
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

}  // namespace
}  // namespace fa4::emulator::probes
