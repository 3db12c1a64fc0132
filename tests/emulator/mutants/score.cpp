// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mutants/score.h"

#include <cstring>

#include "emulator/probes/apart.h"
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

/// That a mutant may take.
constexpr double kSeconds = 600;

/// A verdict as words, and back: the notice, then the texts, each with a zero at its end.
probes::Words to_words(const Verdict& v) {
  std::string text;
  for (const std::string* part : {&v.victim, &v.schedule, &v.message, &v.broken}) {
    text.append(*part).append(1, '\0');
  }
  probes::Words words(text.size() / 4 + 1);
  text.resize(words.size() * 4);
  std::memcpy(words.data(), text.data(), text.size());
  words.push_back(static_cast<uint32_t>(v.notice));
  return words;
}

Verdict from_words(probes::Words words) {
  Verdict v;
  v.notice = static_cast<Notice>(words.back());
  words.back() = 0;
  const char* at = reinterpret_cast<const char*>(words.data());
  for (std::string* part : {&v.victim, &v.schedule, &v.message, &v.broken}) {
    *part = at;
    at += part->size() + 1;
  }
  return v;
}

/// A victim's mutated kernel, made once for all passes.
struct Patient {
  std::string victim;
  RunKernel run;
  Verdict verdict;  ///< That it could not be made, or was rejected.
};

Patient make_patient(const Mutant& mutant, const Victim& victim) {
  Patient patient;
  patient.victim = patient.verdict.victim = victim.name();
  const auto ptx = mutated_ptx(mutant, victim);
  if (!ptx.ok()) {
    patient.verdict.broken = ptx.status().message();
    return patient;
  }
  auto run = victim.load(*ptx);
  if (run.ok()) {
    patient.run = *std::move(run);
  } else {
    patient.verdict.notice = Notice::kRejected;
    patient.verdict.message = run.status().message();
  }
  return patient;
}

bool decides(const Verdict& verdict) {
  return verdict.notice != Notice::kNone || !verdict.broken.empty();
}

/// Until something is noticed.
Verdict run_patient(const Patient& patient, uint64_t seeds, Checks checks) {
  if (decides(patient.verdict)) return patient.verdict;
  Verdict verdict;
  verdict.victim = patient.victim;
  for (const NamedSchedule& schedule : schedules(seeds)) {
    RunOptions options = schedule.options;
    options.checks = checks;
    const Outcome outcome = patient.run(options);
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
  std::vector<Patient> patients;
  for (const Checks checks : {Checks::kOff, Checks::kWarnings}) {
    if (checks == Checks::kOff ? plan.checks == When::kAlways : plan.checks == When::kNever)
      continue;
    for (size_t i = 0; i < mutant.victims.size(); ++i) {
      if (i == patients.size()) {
        patients.push_back(make_patient(mutant, victim_named(mutant.victims[i])));
      }
      verdict = run_patient(patients[i], plan.seeds, checks);
      if (decides(verdict)) return verdict;
    }
  }
  return verdict;
}

std::vector<Verdict> judge_all(std::span<const Mutant> mutants, unsigned processes,
                               const Plan& plan) {
  const test::Unjudged quiet;  // checks only where run_patient() asks for them
  std::string ignored;
  const probes::Jobs jobs{
      mutants.size(),
      [&](size_t i) -> Result<probes::Words> { return to_words(judge(mutants[i], plan)); },
      [] { return std::string(); }, kSeconds, processes};
  std::vector<Verdict> verdicts;
  for (const probes::Outcome& outcome : probes::run_apart(jobs, ignored)) {
    verdicts.push_back(outcome.ok ? from_words(outcome.words) : Verdict());
    if (!outcome.ok) verdicts.back().broken = outcome.error;
  }
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
