// SPDX-License-Identifier: BSD-3-Clause
// The emulator against what an H200 gave: every probe, family by family.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "emulator/probes/fixture.h"
#include "gpu/emulator_settings.h"
#include "support/places.h"

namespace fa4::emulator::probes {
namespace {

using Records = std::map<std::string, Record>;

const Records& fixture() {
  static const Records records = [] {
    std::ifstream file(std::string(fa4::test::kSourceFolder) + "/tests/emulator/probes/h200.txt");
    std::stringstream text;
    text << file.rdbuf();
    return parse_fixture(text.str()).value();
  }();
  return records;
}

/// What is wrong with a result; empty if nothing.
std::string judge(const Probe& probe, const Words& mine, const Record& record) {
  if (record.key != key_of(probe)) {
    return "has changed since the fixture was made: run fa4_probes on an H200 again";
  }
  if (record.count != mine.size()) return "gave another number of words";
  const Difference d = compare(mine, record.words, probe.tolerance, record.words.size());
  std::ostringstream text;
  if (d.wrong > 0) {
    text << d.wrong << " of " << record.words.size() << " words are wrong, the first, word "
         << d.first << ": is " << std::hex << mine[d.first] << ", an H200 gave "
         << record.words[d.first] << std::dec << "; " << d.ulps << " ulps, " << d.absolute;
  } else if (probe.tolerance.format == Format::kBits && hash_of(mine) != record.hash) {
    text << "a word behind the first " << record.words.size() << " is wrong";
  }
  return text.str();
}

/// Runs them; a skip names what the fixture lacks.
void check(const std::vector<Probe>& probes) {
  std::string missing;
  for (const Probe& probe : probes) {
    const auto mine = run_probe(probe, Device::emulator("sm_90a"));
    if (mine.ok() == probe.refused) {
      ADD_FAILURE() << probe.name << ": " << mine.status().message();
      continue;
    }
    const auto found = fixture().find(probe.name);
    if (found == fixture().end()) {
      missing += " " + probe.name;
      continue;
    }
    EXPECT_EQ(judge(probe, mine.ok() ? *mine : Words(), found->second), "") << probe.name;
  }
  if (!missing.empty()) GTEST_SKIP() << "tests/emulator/probes/h200.txt lacks" << missing;
}

TEST(Probes, Conversions) { check(conversion_probes()); }
TEST(Probes, Floats) { check(float_probes()); }
TEST(Probes, Halves) { check(half_probes()); }
TEST(Probes, Integers) { check(integer_probes()); }
TEST(Probes, Warps) { check(warp_probes()); }
TEST(Probes, Atomics) { check(atomic_probes()); }
TEST(Probes, Matrices) { check(matrix_probes()); }
TEST(Probes, WarpgroupProducts) { check(wgmma_probes()); }
TEST(Probes, Tiles) { check(tile_probes()); }
TEST(Probes, BulkCopies) { check(bulk_probes()); }
TEST(Probes, Barriers) { check(barrier_probes()); }
TEST(Probes, Clusters) { check(cluster_probes()); }

// With Hopper's sums real data need no bound either.
TEST(Probes, ProductsOfRealDataWithHoppersSums) {
  gpu::EmulatorSettings settings;
  settings.run.sums = Sums::kHopper;
  const gpu::ThreadEmulatorSettings scope(settings);
  std::vector<Probe> probes = matrix_probes();
  for (Probe& probe : wgmma_probes()) probes.push_back(std::move(probe));
  for (Probe& probe : probes) probe.tolerance = {};
  check(probes);
}

TEST(Probes, NamesAreUnique) {
  std::map<std::string, int> names;
  for (const Probe& probe : all_probes()) EXPECT_EQ(names[probe.name]++, 0) << probe.name;
}

TEST(ProbeFixture, ReadsWhatItWrote) {
  Probe probe;
  probe.name = "some";
  probe.keep = 6;
  const Words words = {1, 0, 0, 0, 0xffffffff, 0x7f, 9, 9};
  const Record record = record_of(probe, words);
  const std::string text = "# made by hand\n\n" + to_text(probe.name, record);
  EXPECT_NE(text.find("\n1 0 x2 ffffffff 7f\n"), std::string::npos) << text;
  const Records back = parse_fixture(text).value();
  ASSERT_EQ(back.size(), 1u);
  const Record& read = back.at("some");
  EXPECT_EQ(read.key, record.key);
  EXPECT_EQ(read.count, 8u);
  EXPECT_EQ(read.hash, hash_of(words));
  EXPECT_EQ(read.words, Words(words.begin(), words.begin() + 6));
}

TEST(ProbeFixture, BadLinesAreErrors) {
  for (const char* text : {"probe a", "12 13", "probe a k 2 h\n1 2 3", "probe a k 2 h\nxyz",
                           "probe a k 2 h\nx2", "probe a k 1 h\n\nprobe a k 1 h"}) {
    EXPECT_FALSE(parse_fixture(text).ok()) << text;
  }
}

TEST(ProbeComparison, CountsUnitsInTheLastPlace) {
  const Tolerance floats{Format::kFloat32, 2};
  // 1 and its next neighbours; zeros of both signs; NaNs of any kind.
  EXPECT_EQ(compare({0x3f800000}, {0x3f800002}, floats, 1).wrong, 0u);
  EXPECT_EQ(compare({0x3f800000}, {0x3f800003}, floats, 1).wrong, 1u);
  EXPECT_EQ(compare({0x3f800000}, {0x3f800003}, floats, 1).ulps, 3u);
  EXPECT_EQ(compare({0x80000000}, {0x00000001}, floats, 1).ulps, 1u);
  EXPECT_EQ(compare({0x7fc00000}, {0xffffffff}, floats, 1).wrong, 0u);
  EXPECT_EQ(compare({0x7fc00000}, {0x3f800000}, floats, 1).wrong, 1u);
  EXPECT_EQ(compare({0x3c003c00}, {0x3c013c03}, {Format::kFloat16, 2}, 1).ulps, 3u);
  EXPECT_EQ(compare({1}, {2}, {}, 1).wrong, 1u);
  EXPECT_EQ(compare({0x3f800000}, {0x3f900000}, {Format::kFloat32, 0, 0.2}, 1).wrong, 0u);
}

}  // namespace
}  // namespace fa4::emulator::probes
