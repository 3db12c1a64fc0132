// SPDX-License-Identifier: BSD-3-Clause
// Ctrl-C in a long measurement: what is finished is told, then the program ends.
#pragma once

namespace fa4::cli {

/// While it lives, the first SIGINT or SIGTERM is noted, and the next one ends the program.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Whether there was one: work in progress should be given up.
  static bool came();
  /// What the program ends with then: 128 + the signal's number, as shells say it.
  static int exit_code();
};

}  // namespace fa4::cli
