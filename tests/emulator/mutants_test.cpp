// SPDX-License-Identifier: BSD-3-Clause
// Faults put into kernels on purpose must be noticed: tests/emulator/mutants, docs/notes/
// emulator_mutants.md. build/tests/fa4_mutants prints the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <thread>

#include "emulator/mutants/score.h"
#include "emulator/mutants/survivors.h"
#include "gpu/jit/nvrtc.h"

namespace fa4::emulator::mutants {
namespace {

/// Of the mutants that are faults: fewer may not be noticed.
constexpr double kLeastShare = 0.95;

class Mutants : public testing::Test {
 protected:
  void SetUp() override {
    const auto version = gpu::jit::nvrtc_version();
    if (!version.ok()) GTEST_SKIP() << version.status().message();
    same_compiler_ = *version == kSurvivorsNvrtc;
    static const auto all = all_mutants();
    ASSERT_TRUE(all.ok()) << all.status().message();
    mutants_ = *all;
  }
  static unsigned processes() { return std::max(1u, std::thread::hardware_concurrency()); }
  /// Whether the lists of names are about this mutant.
  bool is_listed_kind(const Mutant& m) const { return !m.by_program || same_compiler_; }

  std::vector<Mutant> mutants_;
  bool same_compiler_ = false;
};

const char* find(std::span<const Survivor> list, const std::string& name) {
  const auto it =
      std::find_if(list.begin(), list.end(), [&](const auto& s) { return s.name == name; });
  return it == list.end() ? nullptr : it->reason;
}

bool is_known_unnoticed(const Mutant& m) {
  return find(survivors(), m.name) != nullptr || find(equivalents(), m.name) != nullptr;
}

TEST_F(Mutants, ListIsSound) {
  std::set<std::string> names;
  size_t by_program = 0;
  for (const Mutant& m : mutants_) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name << " stands twice in the list";
    EXPECT_FALSE(m.why.empty() || m.kind.empty() || m.victims.empty()) << m.name;
    by_program += m.by_program ? 1 : 0;
  }
  EXPECT_GE(mutants_.size(), 60u);
  EXPECT_GE(2 * by_program + 2, mutants_.size());
  for (const auto& list : {survivors(), equivalents()}) {
    for (const Survivor& s : list) {
      const bool by_hand = std::string(s.name).find('/') == std::string::npos;
      EXPECT_TRUE(names.contains(s.name) || !(by_hand || same_compiler_)) << s.name;
    }
  }
}

/// A mutant in which nothing is changed.
Mutant unchanged(const Victim& victim) {
  Mutant m;
  m.name = victim.name();
  m.victims = {victim.name()};
  m.by_program = true;
  m.base = std::make_shared<const std::string>(original_ptx(victim).value());
  return m;
}

TEST_F(Mutants, KernelsWithoutFaultAreRight) {
  std::vector<Mutant> all;
  for (const auto& victim : victims()) all.push_back(unchanged(*victim));
  for (const Verdict& v : judge_all(all, processes(), {kSeeds, When::kAlways})) {
    EXPECT_EQ(v.broken, "") << v.victim;
    EXPECT_EQ(v.notice, Notice::kNone) << v.victim << ", " << v.schedule << ": " << v.message;
  }
}

/// Those that nothing is known to notice go through every schedule: fewer will do. Puts them first.
std::vector<Verdict> judge_sorted(std::vector<Mutant>& mutants, unsigned processes) {
  const auto others = std::stable_partition(mutants.begin(), mutants.end(), is_known_unnoticed);
  const auto count = static_cast<size_t>(others - mutants.begin());
  const std::span<const Mutant> all(mutants);
  auto verdicts = judge_all(all.first(count), processes, {1, When::kAlways});
  for (Verdict& v : judge_all(all.subspan(count), processes, {kSeeds, When::kAlways})) {
    verdicts.push_back(std::move(v));
  }
  return verdicts;
}

TEST_F(Mutants, AreNoticed) {
  const std::vector<Verdict> verdicts = judge_sorted(mutants_, processes());
  size_t faults = 0, noticed = 0;
  for (size_t i = 0; i < mutants_.size(); ++i) {
    const Mutant& m = mutants_[i];
    const Verdict& v = verdicts[i];
    EXPECT_EQ(v.broken, "") << m.name << " could not be made";
    const bool seen = v.notice != Notice::kNone;
    const char* known = find(survivors(), m.name);
    const bool no_fault = find(equivalents(), m.name) != nullptr;
    if (!no_fault || seen) ++faults;
    if (seen) ++noticed;
    if (!is_listed_kind(m)) continue;
    if (!seen && known == nullptr && !no_fault) {
      ADD_FAILURE() << m.name << " is not noticed: " << m.why
                    << ". If no check can, say why in survivors.cpp";
    }
    if (seen && (known != nullptr || no_fault)) {
      ADD_FAILURE() << m.name << " is noticed now (" << v.victim << ", " << v.schedule << ": "
                    << v.message << "). Take it off the list in survivors.cpp";
    }
  }
  const double share = static_cast<double>(noticed) / static_cast<double>(faults);
  EXPECT_GE(share, kLeastShare) << noticed << " of " << faults;
  RecordProperty("noticed", static_cast<int>(noticed));
  RecordProperty("faults", static_cast<int>(faults));
}

}  // namespace
}  // namespace fa4::emulator::mutants
