// SPDX-License-Identifier: BSD-3-Clause
// fa4_probes: runs the probes on a device and writes what came out as a fixture; compares with the
// emulator.
//
//   fa4_probes --device cuda:0 FOLDER            FOLDER/probes.txt and FOLDER/probes_full.txt
//   fa4_probes --kernels --device cuda:0 FOLDER  the library's kernels: FOLDER/kernels.txt
//   fa4_probes --tables --device cuda:0 FOLDER   ex2, rcp and others at every fraction
//   fa4_probes --ptx FOLDER                      the probes' PTX, for ptxas to look at
#include <CLI/CLI.hpp>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "emulator/probes/apart.h"
#include "emulator/probes/fixture.h"
#include "emulator/probes/kernels_main.h"
#include "emulator/probes/tables.h"
#include "gpu/driver_api.h"
#include "gpu/runtime.h"

namespace {

using namespace fa4;
using namespace fa4::emulator::probes;

struct Arguments {
  std::string device = "emulator:sm_90a";
  std::string folder;
  std::string only;
  bool ptx = false;
  bool kernels = false;
  bool tables = false;
  unsigned workers = 1;
};

constexpr double kSeconds = 12;  ///< That a probe may take.

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string describe(Device device) {
  const auto runtime = gpu::runtime_of(device);
  if (!runtime.ok()) return runtime.status().message();
  const gpu::Properties& p = (*runtime)->properties();
  std::string text =
      p.name + ", compute capability " + std::to_string(p.major) + "." + std::to_string(p.minor);
  std::string reason;
  int version = 0;
  if (device.type == DeviceType::kCuda) {
    const gpu::DriverApi* api = gpu::load_driver(reason);
    if (api != nullptr && api->cuDriverGetVersion(&version) == 0) {
      text += ", driver for CUDA " + std::to_string(version / 1000) + "." +
              std::to_string(version % 1000 / 10);
    }
  }
  return text;
}

std::vector<Probe> chosen(const std::string& only) {
  std::vector<Probe> probes;
  for (Probe& probe : all_probes()) {
    if (probe.name.find(only) != std::string::npos) probes.push_back(std::move(probe));
  }
  return probes;
}

int write_ptx(const Arguments& arguments) {
  std::filesystem::create_directories(arguments.folder);
  int number = 0;
  for (const Probe& probe : chosen(arguments.only)) {
    if (probe.ptx.empty()) continue;
    std::ofstream(arguments.folder + "/" + std::to_string(number++) + ".ptx")
        << "// " << probe.name << "\n"
        << probe.ptx;
  }
  std::cout << number << " modules\n";
  return 0;
}

/// Whether a GPU has found the instruction illegal, or the emulator has.
bool refused(const Outcome& outcome) {
  const bool by_device = outcome.error.find("ILLEGAL_INSTRUCTION") != std::string::npos;
  return !outcome.ok && (by_device || outcome.error.find("allowed: ") != std::string::npos);
}

/// What the emulator makes of the same probes.
void compare_with_emulator(const std::vector<Probe>& probes, const std::vector<Outcome>& outcomes) {
  int equal = 0, within = 0, wrong = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    const auto mine = run_probe(probes[i], Device::emulator("sm_90a"));
    if (probes[i].refused && refused(outcomes[i]) && !mine.ok()) ++equal;
    if (!outcomes[i].ok) continue;
    if (!mine.ok()) {
      ++wrong;
      std::cout << "EMULATOR " << probes[i].name << ": " << mine.status().message() << "\n";
      continue;
    }
    const Difference d =
        compare(*mine, outcomes[i].words, probes[i].tolerance, outcomes[i].words.size());
    equal += d.unequal == 0 ? 1 : 0;
    within += d.unequal != 0 && d.wrong == 0 ? 1 : 0;
    wrong += d.wrong != 0 ? 1 : 0;
    if (d.unequal == 0) continue;
    std::cout << (d.wrong != 0 ? "DIFFERS " : "within ") << probes[i].name << ": " << d.unequal
              << " of " << mine->size() << " words, " << d.ulps << " ulps, " << d.absolute;
    if (d.wrong != 0) {
      std::cout << "; first, word " << d.first << ": emulator " << std::hex << (*mine)[d.first]
                << ", device " << outcomes[i].words[d.first] << std::dec;
    }
    std::cout << "\n";
  }
  std::cout << "against the emulator: " << equal << " equal, " << within << " within their bounds, "
            << wrong << " wrong\n";
}

int run(const Arguments& arguments) {
  const Device device = arguments.device == "cuda:0" ? Device::cuda(0) : Device::emulator("sm_90a");
  if (arguments.tables) return write_tables(device, arguments.folder);
  if (arguments.kernels) {
    return run_kernels(device, arguments.folder, arguments.only,
                       [&] { return describe(device) + "; " + today(); });
  }
  const std::vector<Probe> probes = chosen(arguments.only);
  const auto begin = std::chrono::steady_clock::now();
  std::string description;
  const std::vector<Outcome> outcomes =
      run_apart({probes.size(), [&](size_t i) { return run_probe(probes[i], device); },
                 [&] { return describe(device); }, kSeconds, arguments.workers},
                description);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::filesystem::create_directories(arguments.folder);
  std::ofstream kept(arguments.folder + "/probes.txt"), full(arguments.folder + "/probes_full.txt");
  for (std::ofstream* file : {&kept, &full}) {
    *file << "# SPDX-License-Identifier: BSD-3-Clause\n# fa4 probes: " << description << "; "
          << today() << "\n\n";
  }
  int failed = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].refused && refused(outcomes[i])) {
      for (std::ofstream* file : {&kept, &full})
        *file << to_text(probes[i].name, refusal(probes[i]));
      continue;
    }
    if (!outcomes[i].ok) {
      ++failed;
      std::cout << "FAILED " << probes[i].name << ": " << outcomes[i].error << "\n";
      continue;
    }
    Record record = record_of(probes[i], outcomes[i].words);
    kept << to_text(probes[i].name, record);
    record.words = outcomes[i].words;
    full << to_text(probes[i].name, record);
  }
  std::cout << description << ": " << probes.size() << " probes, " << failed << " failed, "
            << seconds << " s\n";
  if (device.type == DeviceType::kCuda) compare_with_emulator(probes, outcomes);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs the emulator's probes on a device");
  Arguments arguments;
  app.add_option("--device", arguments.device, "cuda:0 or emulator:sm_90a")
      ->check(CLI::IsMember({"cuda:0", "emulator:sm_90a"}));
  app.add_option("--only", arguments.only, "Probes whose name contains this");
  app.add_flag("--ptx", arguments.ptx, "Write the probes' PTX instead");
  app.add_flag("--kernels", arguments.kernels, "The library's kernels instead");
  app.add_flag("--tables", arguments.tables, "Approximations at every fraction instead");
  app.add_option("--workers", arguments.workers, "Processes at a time")->check(CLI::Range(1, 64));
  app.add_option("folder", arguments.folder, "Where files go")->required();
  CLI11_PARSE(app, argc, argv);
  return arguments.ptx ? write_ptx(arguments) : run(arguments);
}
