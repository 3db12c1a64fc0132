// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/emulator_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace fa4::gpu {
namespace {

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool set_option(EmulatorSettings& s, std::string_view name, std::string_view value) {
  if (name == "seed") return parse_number(value, s.run.seed);
  if (name == "workers") return parse_number(value, s.run.workers) && s.run.workers > 0;
  if (name == "resident") {
    return parse_number(value, s.run.resident_clusters) && s.run.resident_clusters > 0;
  }
  if (name == "multiprocessors") {
    return parse_number(value, s.multiprocessors) && s.multiprocessors > 0;
  }
  if (name == "late_loads") {
    if (value == "on") return s.run.late_loads = true, true;
    if (value == "off") return s.run.late_loads = false, true;
  }
  if (name == "timing") {
    using emulator::Timing;
    if (value == "earliest") return s.run.timing = Timing::kEarliest, true;
    if (value == "random") return s.run.timing = Timing::kRandom, true;
    if (value == "latest") return s.run.timing = Timing::kLatest, true;
  }
  if (name == "checks") {
    using emulator::Checks;
    if (value == "off") return s.run.checks = Checks::kOff, true;
    if (value == "errors") return s.run.checks = Checks::kErrors, true;
    if (value == "warnings") return s.run.checks = Checks::kWarnings, true;
  }
  if (name == "schedule") {
    using emulator::Schedule;
    if (value == "random") return s.run.schedule = Schedule::kRandom, true;
    if (value == "priority") return s.run.schedule = Schedule::kPriority, true;
  }
  return false;
}

}  // namespace

Result<EmulatorSettings> emulator_settings() {
  EmulatorSettings s;
  const char* variable = std::getenv("FA4_EMULATOR");
  std::string_view rest = variable == nullptr ? std::string_view() : variable;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos ||
        !set_option(s, entry.substr(0, equals), entry.substr(equals + 1))) {
      return invalid_argument(
          "FA4_EMULATOR: has " + std::string(entry) +
          "; allowed: seed=N, timing=earliest|random|latest, schedule=random|priority, workers=N, "
          "resident=N, multiprocessors=N, checks=off|errors|warnings, late_loads=on|off");
    }
  }
  return s;
}

}  // namespace fa4::gpu
