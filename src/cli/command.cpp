// SPDX-License-Identifier: BSD-3-Clause
#include "cli/command.h"

#include <fmt/core.h>

#include <cstdio>

namespace fa4::cli {

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}\nSee '{} --help'.\n", app.get_name(), error.what(), app.get_name());
    return kExitUsage;
  }
}

void set_examples(CLI::App& app, std::initializer_list<const char*> lines) {
  std::string text = "Examples:\n";
  for (const char* line : lines) text += fmt::format("  fa4 {}\n", line);
  app.footer(text);
}

}  // namespace fa4::cli
