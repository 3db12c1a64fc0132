// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "emulator/probes/apart.h"
#include "emulator/probes/fixture.h"
#include "emulator/probes/kernel_cases.h"
#include "emulator/probes/kernels_main.h"
#include "gpu/jit/kernels.h"

namespace fa4::emulator::probes {
namespace {

constexpr double kSeconds = 120;

unsigned cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Compiles every kernel in processes of their own, into the user's store.
int compile_all(const std::vector<KernelCase>& cases, bool cubin) {
  std::string ignored;
  const auto job = [&](size_t i) -> Result<Words> {
    if (i > 0 && cases[i - 1].config == cases[i].config) return Words();
    const auto kernel = gpu::sm90::forward_kernel(cases[i].config);
    for (const auto format : {gpu::CodeFormat::kPtx, gpu::CodeFormat::kCubin}) {
      if (format == gpu::CodeFormat::kCubin && !cubin) continue;
      const auto code = gpu::jit::obtain(kernel.program, format);
      if (!code.ok()) return code.status();
    }
    return Words();
  };
  const Jobs jobs{cases.size(), job, [] { return std::string(); }, kSeconds, cores()};
  int failed = 0;
  for (const Outcome& outcome : run_apart(jobs, ignored)) failed += outcome.ok ? 0 : 1;
  return failed;
}

std::vector<Outcome> run_all(const std::vector<KernelCase>& cases, Device device, unsigned workers,
                             const std::function<std::string()>& describe,
                             std::string& description) {
  const Jobs jobs{cases.size(), [&](size_t i) { return run_case(cases[i], device); }, describe,
                  kSeconds, workers};
  return run_apart(jobs, description);
}

Record record_of(const KernelCase& kernel, const Words& words) {
  Record record{"-", static_cast<uint32_t>(words.size()), "-", {}};
  if (kernel.exact) {
    record.hash = hash_of(words);
    return record;
  }
  for (size_t i = 0; i < kSamples; ++i) {
    record.words.push_back(words[sample_place(i, words.size())]);
  }
  return record;
}

void write(const std::string& folder, const std::string& description,
           const std::vector<KernelCase>& cases, const std::vector<Outcome>& outcomes) {
  std::filesystem::create_directories(folder);
  std::ofstream file(folder + "/kernels.txt");
  file << "# SPDX-License-Identifier: BSD-3-Clause\n# fa4 kernels: " << description << "\n\n";
  std::ofstream full(folder + "/kernels.bin", std::ios::binary);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!outcomes[i].ok) continue;
    file << to_text(cases[i].name, record_of(cases[i], outcomes[i].words));
    full.write(reinterpret_cast<const char*>(outcomes[i].words.data()),
               static_cast<std::streamsize>(4 * outcomes[i].words.size()));
  }
}

int compare_all(const std::vector<KernelCase>& cases, const std::vector<Outcome>& mine,
                const std::vector<Outcome>& theirs) {
  int wrong = 0, equal = 0;
  KernelDifference most;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!mine[i].ok || !theirs[i].ok) continue;
    if (cases[i].exact) {
      const bool same = mine[i].words == theirs[i].words;
      equal += same ? 1 : 0;
      if (same) continue;
      ++wrong;
    }
    const KernelDifference d = compare_case(make_case(cases[i]), mine[i].words, theirs[i].words);
    std::cout << (cases[i].exact ? "DIFFERS " : "") << cases[i].name << ": " << d.ulps
              << " ulps, at the row's scale " << d.row_ulps << ", lse " << d.lse << "\n";
    most = {std::max(most.ulps, d.ulps), std::max(most.row_ulps, d.row_ulps),
            std::max(most.lse, d.lse)};
  }
  std::cout << "kernels: " << equal << " exact cases equal to the bit, " << wrong
            << " not; largest differences of all: " << most.ulps << " ulps, at the row's scale "
            << most.row_ulps << ", lse " << most.lse << "\n";
  return wrong;
}

int report_failures(const std::vector<KernelCase>& cases, const std::vector<Outcome>& outcomes) {
  int failed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (outcomes[i].ok) continue;
    ++failed;
    std::cout << "FAILED " << cases[i].name << ": " << outcomes[i].error << "\n";
  }
  return failed;
}

}  // namespace

int run_kernels(Device device, const std::string& folder, const std::string& only,
                const std::function<std::string()>& describe) {
  std::vector<KernelCase> cases;
  for (KernelCase& kernel : kernel_cases()) {
    if (kernel.name.find(only) != std::string::npos) cases.push_back(std::move(kernel));
  }
  const bool gpu = device.type == DeviceType::kCuda;
  const int not_compiled = compile_all(cases, gpu);
  if (not_compiled > 0) std::cout << "kernels: " << not_compiled << " could not be compiled\n";
  std::string description;
  const std::vector<Outcome> outcomes =
      run_all(cases, device, gpu ? 2 : cores(), describe, description);
  int failed = report_failures(cases, outcomes);
  write(folder, description, cases, outcomes);
  std::cout << description << ": " << cases.size() << " cases, " << failed << " failed\n";
  if (!gpu) return failed;
  std::string ignored;
  const std::vector<Outcome> mine = run_all(
      cases, Device::emulator("sm_90a"), cores(), [] { return std::string(); }, ignored);
  failed += report_failures(cases, mine);
  return failed + compare_all(cases, mine, outcomes);
}

}  // namespace fa4::emulator::probes
