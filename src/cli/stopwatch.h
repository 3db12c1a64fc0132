// SPDX-License-Identifier: BSD-3-Clause
// How long something took.
#pragma once

#include <chrono>

namespace fa4::cli {

/// Runs from its making on.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace fa4::cli
