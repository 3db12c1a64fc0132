// SPDX-License-Identifier: BSD-3-Clause
// fa4_mutants [-v] [--no-checks | --checks-always] [--seeds=N] [PART_OF_A_NAME]: runs the mutants
// and prints the table. With -v, what is wrong with each and what was said.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "emulator/mutants/score.h"
#include "emulator/mutants/survivors.h"

int main(int argc, char** argv) {
  using namespace fa4::emulator::mutants;  // NOLINT(google-build-using-namespace)
  std::string part;
  bool verbose = false;
  Plan plan;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-v") == 0) {
      verbose = true;
    } else if (std::strcmp(argv[i], "--no-checks") == 0) {
      plan.checks = When::kNever;
    } else if (std::strcmp(argv[i], "--checks-always") == 0) {
      plan.checks = When::kAlways;
    } else if (std::strncmp(argv[i], "--seeds=", 8) == 0) {
      plan.seeds = std::strtoull(argv[i] + 8, nullptr, 10);
    } else {
      part = argv[i];
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  auto mutants = all_mutants();
  if (!mutants.ok()) return std::fprintf(stderr, "%s\n", mutants.status().message().c_str()), 1;
  std::erase_if(*mutants, [&](const Mutant& m) { return m.name.find(part) == std::string::npos; });
  const auto verdicts =
      judge_all(*mutants, std::max(1u, std::thread::hardware_concurrency()), plan);
  std::puts("| mutant | kind | made by | noticed as | in | schedule |\n|---|---|---|---|---|---|");
  int caught = 0, by_checks = 0, equivalent = 0, broken = 0;
  for (size_t i = 0; i < mutants->size(); ++i) {
    const Mutant& m = (*mutants)[i];
    std::puts(table_row(m, verdicts[i]).c_str());
    if (verbose) std::printf("    %s\n    %s\n", m.why.c_str(), verdicts[i].message.c_str());
    caught += verdicts[i].notice != Notice::kNone ? 1 : 0;
    by_checks += verdicts[i].notice == Notice::kCheck ? 1 : 0;
    for (const Survivor& s : equivalents()) equivalent += s.name == m.name ? 1 : 0;
    broken += verdicts[i].broken.empty() ? 0 : 1;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%d of %zu noticed, %d of them by checks alone; %d known to be no fault, %d could not be "
      "made; %.0f s\n",
      caught, mutants->size(), by_checks, equivalent, broken, seconds.count());
  return broken > 0 ? 1 : 0;
}
