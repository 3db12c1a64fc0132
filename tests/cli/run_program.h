// SPDX-License-Identifier: BSD-3-Clause
// The program fa4, run as its user runs it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "support/places.h"

namespace fa4::cli {

struct Outcome {
  int code = -1;
  std::string text;  ///< Standard output and error together.

  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// Runs "ENVIRONMENT fa4 ARGUMENTS" through the shell.
inline Outcome run_program(const std::string& arguments, const std::string& environment = "") {
  const std::string command =
      environment + " '" + test::kProgram + "' " + arguments + " 2>&1 </dev/null";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  size_t got = 0;
  while ((got = fread(buffer, 1, sizeof(buffer), pipe)) > 0) outcome.text.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace fa4::cli
