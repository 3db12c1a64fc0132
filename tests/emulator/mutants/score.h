// SPDX-License-Identifier: BSD-3-Clause
// Runs mutants under a few schedules and keeps the score.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "emulator/mutants/mutant.h"

namespace fa4::emulator::mutants {

struct NamedSchedule {
  std::string name;  ///< "latest/priority/2"
  RunOptions options;
};
/// Timing and order in all their combinations, so many seeds each.
constexpr uint64_t kSeeds = 6;
std::vector<NamedSchedule> schedules(uint64_t seeds = kSeeds);

/// When the judge looks: at no run; at those mutants that no result gave away, run once more; at
/// every run. (The last is the quickest. It does not tell what results alone would have shown.)
enum class When : uint8_t { kNever, kLater, kAlways };

/// How mutants are run.
struct Plan {
  uint64_t seeds = kSeeds;
  When checks = When::kLater;
};

/// What became of a mutant: the first notice that any of its victims' runs gave.
struct Verdict {
  Notice notice = Notice::kNone;
  std::string victim;
  std::string schedule;
  std::string message;
  std::string broken;  ///< The mutant could not be made: why.
};

/// In that order of victims and schedules, until something is noticed.
Verdict judge(const Mutant& mutant, const Plan& plan = {});
/// All of them, in so many processes: NVRTC compiles one kernel at a time in each.
std::vector<Verdict> judge_all(std::span<const Mutant> mutants, unsigned processes,
                               const Plan& plan = {});

/// A line of the table: name, kind, by hand or program, notice, victim, schedule.
std::string table_row(const Mutant& mutant, const Verdict& verdict);

}  // namespace fa4::emulator::mutants
