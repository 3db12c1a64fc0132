// SPDX-License-Identifier: BSD-3-Clause
// What the commands of `fa4` share: how they are called, how they parse and how they fail.
//
// Exit codes: 0 done, 1 the work failed (or a check did), 2 the command line was wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace fa4::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

/// Flags that parse but make no sense together. main() prints it and exits with kExitUsage.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses a command's arguments (argv[0] is the command's name). Returns the exit code if the
/// command is over: 0 after --help, kExitUsage after an error, which it prints.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// Sets the examples that end the help text, one command line each, without the leading "fa4".
void set_examples(CLI::App& app, std::initializer_list<const char*> lines);

/// The commands. Each parses its own arguments and returns the exit code; they may throw.
int attend_command(int argc, char** argv);
int bench_command(int argc, char** argv);
int cache_command(int argc, char** argv);
int compile_command(int argc, char** argv);
int demo_command(int argc, char** argv);
int info_command(int argc, char** argv);
int roofline_command(int argc, char** argv);
int selftest_command(int argc, char** argv);

}  // namespace fa4::cli
