// SPDX-License-Identifier: BSD-3-Clause
// Jobs in a process of their own, so that one that hangs or spoils the device costs itself only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emulator/probes/run.h"

namespace fa4::emulator::probes {

struct Outcome {
  bool ok = false;
  std::string error;
  Words words;
};

struct Jobs {
  size_t count = 0;
  std::function<Result<Words>(size_t)> run;
  std::function<std::string()> describe;  ///< The device, told by the process that uses it.
  double seconds = 20;                    ///< That a job may take.
  unsigned workers = 1;                   ///< Processes at a time.
};

/// Runs the jobs one after another in child processes. After one that fails, crashes or takes too
/// long, a new child goes on with the next. `description` becomes what describe() said.
std::vector<Outcome> run_apart(const Jobs& jobs, std::string& description);

}  // namespace fa4::emulator::probes
