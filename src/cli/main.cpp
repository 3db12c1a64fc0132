// SPDX-License-Identifier: BSD-3-Clause
// The program fa4: a table of commands. Each has a file of its own.
#include <fa4/version.h>
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "cli/commands.h"

namespace {

using namespace fa4::cli;

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"attend", "attention of tensors in .npy files", attend_command},
    {"bench", "speed beside the roofs of the machine and PyTorch", bench_command},
    {"cache", "compiled GPU kernels on disk: look, clear, fill", cache_command},
    {"compile", "GPU kernels through the compiler, no GPU needed", compile_command},
    {"demo", "attention as a real model runs it: errors, speed, a picture", demo_command},
    {"emulate", "a kernel from a file of PTX, run on the CPU", emulate_command},
    {"info", "what this machine has and what fa4 can do on it", info_command},
    {"roofline", "where the cycles of an attention tile go on a GPU", roofline_command},
    {"selftest", "twenty problems on every backend, checked", selftest_command},
};

void print_help(std::FILE* file) {
  fmt::print(file, "fa4 {}: exact attention, forward and backward\n\n", fa4::version());
  fmt::print(file, "Usage: fa4 COMMAND [OPTIONS]\n\nCommands:\n");
  for (const Command& command : kCommands) {
    fmt::print(file, "  {:<10} {}\n", command.name, command.summary);
  }
  fmt::print(file,
             "\nBegin with 'fa4 info' and 'fa4 demo'. 'fa4 COMMAND --help' explains a command;\n"
             "'fa4 --version' prints the version.\n");
}

const Command* find(const std::string& name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int unknown(const std::string& name) {
  std::string known;
  for (const Command& command : kCommands) known += fmt::format(" {}", command.name);
  fmt::print(stderr, "fa4: unknown command '{}'; known:{}\nSee 'fa4 --help'.\n", name, known);
  return kExitUsage;
}

int run(const Command& command, int argc, char** argv) {
  try {
    return command.run(argc, argv);
  } catch (const UsageError& error) {
    fmt::print(stderr, "fa4 {}: {}\nSee 'fa4 {} --help'.\n", command.name, error.what(),
               command.name);
    return kExitUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "fa4 {}: {}\n", command.name, error.what());
    return kExitFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return kExitUsage;
  }
  std::string name = argv[1];
  if (name == "--version" || name == "-V") {
    fmt::print("fa4 {}\n", fa4::version());
    return kExitOk;
  }
  if (name == "--help" || name == "-h" || (name == "help" && argc == 2)) {
    print_help(stdout);
    return kExitOk;
  }
  if (name == "help") {  // fa4 help COMMAND = fa4 COMMAND --help
    const Command* command = find(argv[2]);
    std::string flag = "--help";
    char* help[] = {argv[2], flag.data(), nullptr};
    return command != nullptr ? run(*command, 2, help) : unknown(argv[2]);
  }
  const Command* command = find(name);
  return command != nullptr ? run(*command, argc - 1, argv + 1) : unknown(name);
}
