// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mutants/score.h"

#include <atomic>
#include <thread>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::mutants {
namespace {

/// A right run needs less than a tenth of it.
constexpr uint64_t kMaxInstructions = 10'000'000;

struct Named {
  const char* name;
  Timing timing;
  Schedule schedule;
};
constexpr Named kSchedules[] = {
    {"random/random", Timing::kRandom, Schedule::kRandom},
    {"earliest/random", Timing::kEarliest, Schedule::kRandom},
    {"latest/random", Timing::kLatest, Schedule::kRandom},
    {"random/priority", Timing::kRandom, Schedule::kPriority},
    {"earliest/priority", Timing::kEarliest, Schedule::kPriority},
    {"latest/priority", Timing::kLatest, Schedule::kPriority},
};

/// With the victim's mutated kernel, until something is noticed.
Verdict judge_victim(const Mutant& mutant, const Victim& victim, uint64_t seeds, Checks checks) {
  Verdict verdict;
  verdict.victim = victim.name();
  const auto ptx = mutated_ptx(mutant, victim);
  if (!ptx.ok()) {
    verdict.broken = ptx.status().message();
    return verdict;
  }
  const auto run = victim.load(*ptx);
  if (!run.ok()) {
    verdict.notice = Notice::kRejected;
    verdict.message = run.status().message();
    return verdict;
  }
  for (const NamedSchedule& schedule : schedules(seeds)) {
    RunOptions options = schedule.options;
    options.checks = checks;
    const Outcome outcome = (*run)(options);
    verdict.notice = outcome.notice;
    if (checks != Checks::kOff && outcome.notice != Notice::kNone) verdict.notice = Notice::kCheck;
    verdict.message = outcome.message;
    verdict.schedule = schedule.name;
    if (outcome.notice != Notice::kNone) break;
  }
  return verdict;
}

}  // namespace

std::vector<NamedSchedule> schedules(uint64_t seeds) {
  std::vector<NamedSchedule> all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const Named& n : kSchedules) {
      RunOptions o;
      o.seed = seed;
      o.timing = n.timing;
      o.schedule = n.schedule;
      o.max_instructions = kMaxInstructions;
      all.push_back({std::string(n.name) + "/" + std::to_string(seed), o});
    }
  }
  return all;
}

Verdict judge(const Mutant& mutant, const Plan& plan) {
  Verdict verdict;
  for (const Checks checks : {Checks::kOff, Checks::kWarnings}) {
    if (checks != Checks::kOff && !plan.checks) break;
    for (const std::string& name : mutant.victims) {
      verdict = judge_victim(mutant, victim_named(name), plan.seeds, checks);
      if (verdict.notice != Notice::kNone || !verdict.broken.empty()) return verdict;
    }
  }
  return verdict;
}

std::vector<Verdict> judge_all(std::span<const Mutant> mutants, unsigned threads,
                               const Plan& plan) {
  const test::Unjudged quiet;  // checks only where judge_victim() asks for them
  std::vector<Verdict> verdicts(mutants.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < mutants.size(); i = next++) verdicts[i] = judge(mutants[i], plan);
  };
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  return verdicts;
}

std::string table_row(const Mutant& mutant, const Verdict& verdict) {
  std::string row = "| " + mutant.name + " | " + mutant.kind + " | ";
  row += mutant.by_program ? "program | " : "hand | ";
  if (!verdict.broken.empty()) return row + "could not be made: " + verdict.broken + " | | |";
  row += std::string(name_of(verdict.notice)) + " | ";
  if (verdict.notice == Notice::kNone) return row + " | |";
  return row + verdict.victim + " | " + verdict.schedule + " |";
}

}  // namespace fa4::emulator::mutants
