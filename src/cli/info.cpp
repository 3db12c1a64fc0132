// SPDX-License-Identifier: BSD-3-Clause
// fa4 info: what this machine has and what fa4 can do on it.
#include <fa4/version.h>
#include <fmt/core.h>

#include "cli/command.h"

namespace fa4::cli {

int info_command(int argc, char** argv) {
  CLI::App app{"Says what this machine has and what fa4 can do on it.", "fa4 info"};
  set_examples(app, {"info"});
  if (const auto code = parse(app, argc, argv)) return *code;
  fmt::print("fa4 {}\n", version());
  return kExitOk;
}

}  // namespace fa4::cli
