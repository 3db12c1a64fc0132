// SPDX-License-Identifier: BSD-3-Clause
// fa4 cache: the folder where compiled GPU kernels are kept.
#include <fmt/core.h>

#include <cstdlib>

#include "cli/kernel_choice.h"
#include "cli/terminal.h"
#include "gpu/jit/kernels.h"
#include "gpu/jit/store.h"

namespace fa4::cli {
namespace {

using gpu::CodeFormat;
using gpu::jit::Store;

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string size_text(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

/// What decided where the folder is.
const char* folder_source() {
  for (const char* variable : {"FA4_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return variable;
  }
  return "";
}

int print_info() {
  const Store store(Store::default_folder());
  if (store.folder().empty()) {
    fmt::print("  no folder: none of FA4_CACHE_DIR, XDG_CACHE_HOME and HOME is set\n");
    return kExitOk;
  }
  const Store::Usage usage = store.usage();
  fmt::print("  folder   {} (from ${})\n", store.folder(), folder_source());
  fmt::print("  entries  {}, {}\n", usage.entries, size_text(usage.bytes));
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) {
    fmt::print("  NVRTC    {}\n", version.status().message());
    return kExitOk;
  }
  fmt::print("  NVRTC    {}, {}\n", *version, gpu::jit::nvrtc_path());
  const auto kernels = gpu::all_kernels();
  int there = 0;
  for (const auto& kernel : kernels) {
    there += store.contains(gpu::jit::cache_key(kernel.program, CodeFormat::kCubin, *version));
  }
  fmt::print("  kernels  {} of {} that this version can choose for their own head dims\n", there,
             kernels.size());
  return kExitOk;
}

int clear() {
  const Store store(Store::default_folder());
  const Store::Usage gone = store.clear();
  const int left = store.usage().entries;
  fmt::print("  removed {}, {}\n", plural(gone.entries, "entry", "entries"), size_text(gone.bytes));
  if (left > 0) {
    throw std::runtime_error(fmt::format("{} could not be removed from {}",
                                         plural(left, "entry", "entries"), store.folder()));
  }
  return kExitOk;
}

int warm(const KernelChoice& choice) {
  const auto kernels = chosen_kernels(choice);
  (void)gpu::jit::nvrtc_version().value();
  ProgressBar bar(static_cast<int64_t>(kernels.size()));
  int stored = 0, kept = 0;
  double seconds = 0;
  for (const auto& kernel : kernels) {
    bar.show(kernel.name);
    const auto code = gpu::jit::obtain(kernel.program, CodeFormat::kCubin);
    if (!code.ok()) throw std::runtime_error(kernel.name + ": " + code.status().message());
    stored += code->stored;
    kept += code->kept;
    seconds += code->cpu_seconds;
    bar.advance();
  }
  bar.clear();
  const int compiled = static_cast<int>(kernels.size()) - stored;
  fmt::print("  {} there already, {} compiled in {:.1f} s of CPU time\n", stored, compiled,
             seconds);
  if (kept < static_cast<int>(kernels.size())) {
    throw std::runtime_error(fmt::format("{} of them could not be written to '{}'",
                                         static_cast<int>(kernels.size()) - kept,
                                         Store::default_folder()));
  }
  return kExitOk;
}

}  // namespace

int cache_command(int argc, char** argv) {
  CommandLine line(
      "fa4 cache",
      "Compiled GPU kernels are kept on disk: in $FA4_CACHE_DIR, else $XDG_CACHE_HOME/fa4cpp, "
      "else\n"
      "~/.cache/fa4cpp. A kernel's entry depends on its source, its options, NVRTC's version, the\n"
      "GPU architecture and the library's version.");
  std::string action;
  line.add("ACTION", action,
           "info: where it is and what is in it\nclear: remove every entry\n"
           "warm: compile kernels that are not there yet")
      .one_of({"info", "clear", "warm"})
      .type("")
      .required();
  KernelChoice choice;
  add_choice(line, choice);
  line.examples({"cache info", "cache warm --all", "cache warm 'bf16/d128'", "cache clear"});
  if (const auto code = line.parse(argc, argv)) return *code;
  if (action == "warm") return warm(choice);
  if (choice.all || !choice.filters.empty()) throw UsageError("only warm takes kernels");
  return action == "info" ? print_info() : clear();
}

}  // namespace fa4::cli
