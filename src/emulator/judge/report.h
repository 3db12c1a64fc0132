// SPDX-License-Identifier: BSD-3-Clause
// What the judge says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/judge/rules.h"

namespace fa4::emulator {

/// Something against the rules; the same at the same places is one report, counted.
struct Report {
  Rule rule = Rule::kSharedRace;
  uint32_t pc = 0;        ///< Of the instruction.
  uint32_t other_pc = 0;  ///< Of the other party.
  uint64_t count = 1;
  std::string text;  ///< Of the first: the rule's name, what, who, where, and who else.
};

/// Adds it, or counts it if it is there.
inline void add_report(std::vector<Report>& all, const Report& report) {
  for (Report& r : all) {
    if (r.rule == report.rule && r.pc == report.pc && r.other_pc == report.other_pc) {
      r.count += report.count;
      return;
    }
  }
  all.push_back(report);
}

}  // namespace fa4::emulator
