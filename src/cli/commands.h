// SPDX-License-Identifier: BSD-3-Clause
// The commands of `fa4`, and how they end.
//
// Exit codes: 0 done, 1 the work failed (or a check did), 2 the command line was wrong.
#pragma once

#include <stdexcept>

namespace fa4::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

/// Flags that parse but make no sense together. main() prints it and exits with kExitUsage.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Each parses its own arguments (argv[0] is its name) and returns the exit code; they may throw.
int attend_command(int argc, char** argv);
int bench_command(int argc, char** argv);
int cache_command(int argc, char** argv);
int compile_command(int argc, char** argv);
int demo_command(int argc, char** argv);
int emulate_command(int argc, char** argv);
int info_command(int argc, char** argv);
int roofline_command(int argc, char** argv);
int selftest_command(int argc, char** argv);

}  // namespace fa4::cli
