// SPDX-License-Identifier: BSD-3-Clause
#include "cli/kernel_choice.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/name_filter.h"

namespace fa4::cli {

void add_choice(CommandLine& line, KernelChoice& choice) {
  line.add("FILTER", choice.filters, "Kernels whose names match one of these regular expressions")
      .type("");
  line.add("--target", choice.target, "The GPU architecture (default: sm_90a)").type("ARCH");
  line.add("--all", choice.all, "Every kernel of the target");
}

std::vector<gpu::KernelConfig> chosen_kernels(const KernelChoice& choice) {
  std::vector<gpu::KernelConfig> kernels = gpu::all_kernels();
  std::vector<std::string> targets;
  for (const auto& kernel : kernels) targets.push_back(kernel.program.target);
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  if (std::find(targets.begin(), targets.end(), choice.target) == targets.end()) {
    std::string known;
    for (const std::string& target : targets) known += " " + target;
    throw UsageError(fmt::format("--target: is {}; known:{}", choice.target, known));
  }
  if (!choice.all && choice.filters.empty()) {
    throw UsageError(
        "no kernel named; give --all or a regular expression ('fa4 compile --list' shows names)");
  }
  std::vector<NameFilter> filters;
  for (const std::string& text : choice.filters) filters.push_back(name_filter("FILTER", text));
  std::erase_if(kernels, [&](const gpu::KernelConfig& kernel) {
    const auto matches = [&](const NameFilter& wanted) { return wanted(kernel.name); };
    return kernel.program.target != choice.target ||
           (!choice.all && std::none_of(filters.begin(), filters.end(), matches));
  });
  if (kernels.empty())
    throw UsageError("FILTER: no kernel's name matches ('fa4 compile --list' shows names)");
  return kernels;
}

}  // namespace fa4::cli
