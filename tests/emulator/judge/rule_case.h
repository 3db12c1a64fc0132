// SPDX-License-Identifier: BSD-3-Clause
// A rule, and two kernels that differ in a line or two: one breaks the rule, its twin does not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "emulator/emulator.h"

namespace fa4::emulator::test {

struct RuleCase {
  std::string name;
  Rule rule;
  /// The body. Lines that begin with '-' stand only in the kernel that breaks the rule, those with
  /// '+' only in its twin.
  std::string body;
  uint32_t threads = 64;
  uint32_t cluster = 1;  ///< CTAs.
  bool always = true;    ///< Found whatever the schedule.
};
inline std::ostream& operator<<(std::ostream& out, const RuleCase& c) { return out << c.name; }

/// What the judge says of a kernel: the error's or the first warning's text; empty: nothing.
std::string verdict(const RuleCase& c, bool twin, const RunOptions& options);

/// Both kernels in several schedules: the rule is named in some of them, of the twin nothing is
/// said.
void check_rule(const RuleCase& c);

}  // namespace fa4::emulator::test
