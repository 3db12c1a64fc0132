// SPDX-License-Identifier: BSD-3-Clause
// What a run is told, and what it tells.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "emulator/judge/rules.h"

namespace fa4::emulator {

/// In what order warps run.
enum class Schedule : uint8_t {
  kRandom,    ///< Each turn a warp drawn at random runs for a random number of instructions.
  kPriority,  ///< PCT: random priorities with a few points at which one drops to the lowest.
};

/// When asynchronous operations complete.
enum class Timing : uint8_t {
  kEarliest,  ///< At once.
  kRandom,
  kLatest,  ///< When nothing else can go on.
};

/// How tensor cores add products.
enum class Sums : uint8_t {
  kQuick,   ///< One after another in float32.
  kHopper,  ///< As an H200 does, to the bit (tensor_sum.h), and slowly.
};

/// What the judge looks for (judge/rules.h).
enum class Checks : uint8_t {
  kOff,
  kErrors,    ///< What is an error; it ends the run.
  kWarnings,  ///< Warnings too, which are counted.
};

struct RunOptions {
  uint64_t seed = 0;
  Schedule schedule = Schedule::kRandom;
  Timing timing = Timing::kRandom;
  /// tcgen05.ld reads as late as the timing says, or when one of its registers is used; else at
  /// once. (Known kernels leave out tcgen05.wait::ld where hardware forgives it.)
  bool late_loads = true;
  /// tcgen05.st writes when the timing says; else at once. (Known kernels leave out
  /// tcgen05.wait::st, too, where warps of the same lanes hand values over.)
  bool late_stores = true;
  uint32_t resident_clusters = 2;  ///< Of each worker, at a time.
  uint32_t workers = 1;            ///< Host threads. Only one gives runs that a seed replays.
  /// mbarrier.try_wait returns false once in so many times although it could wait on; 0: never.
  uint32_t spurious_wakes = 16;
  uint64_t max_instructions = uint64_t{1} << 40;  ///< Warp-instructions, then it is an error.
  uint32_t multiprocessors = 132;                 ///< What %nsmid says.
  Checks checks = Checks::kOff;
  Sums sums = Sums::kQuick;  ///< Of mma.sync and wgmma.
  bool counters = false;     ///< Tally::roles is wanted. Not together with checks.
  /// Rules, as bits by number: what is against them ends no run, and counts as a warning.
  uint64_t forgiven = 0;
  /// Is given what the kernel prints, by one thread at a time. (Device::emulator prints nothing.)
  std::function<void(std::string_view)> print = nullptr;

  bool forgives(Rule rule) const { return (forgiven >> static_cast<int>(rule) & 1) != 0; }
};
static_assert(kRules <= 64);

/// Sets an option from text: seed, workers, resident (numbers), timing, schedule, checks,
/// late_loads, late_stores, sums (words), forgive (names of rules with + between). False if there
/// is no such option, or not that value of it; `options` is as it was.
bool set_option(RunOptions& options, std::string_view name, std::string_view value);
/// The words that an option may be, such as "earliest, random, latest"; empty for numbers.
std::string words_of(std::string_view name);
/// Whether a run can go on after something against the rule.
bool can_be_forgiven(const RuleText& rule);

}  // namespace fa4::emulator
