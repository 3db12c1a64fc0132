// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/emulator_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace fa4::gpu {
namespace {

bool set(EmulatorSettings& s, std::string_view name, std::string_view value) {
  const auto positive = [value](auto& number) {
    const char* end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, number);
    return result.ec == std::errc() && result.ptr == end && number > 0;
  };
  if (name == "multiprocessors") return positive(s.multiprocessors);
  if (name == "pair_keys") return positive(s.pair_keys);
  return emulator::set_option(s.run, name, value);
}

thread_local const EmulatorSettings* of_thread = nullptr;

}  // namespace

ThreadEmulatorSettings::ThreadEmulatorSettings(const EmulatorSettings& settings)
    : settings_(settings), outer_(of_thread) {
  of_thread = &settings_;
}
ThreadEmulatorSettings::~ThreadEmulatorSettings() { of_thread = outer_; }

Result<EmulatorSettings> emulator_settings() {
  if (of_thread != nullptr) return *of_thread;
  EmulatorSettings s;
  const char* variable = std::getenv("FA4_EMULATOR");
  std::string_view rest = variable == nullptr ? std::string_view() : variable;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos ||
        !set(s, entry.substr(0, equals), entry.substr(equals + 1))) {
      return invalid_argument(
          "FA4_EMULATOR: has " + std::string(entry) +
          "; allowed: seed=N, timing=earliest|random|latest, schedule=random|priority, workers=N, "
          "resident=N, multiprocessors=N, pair_keys=N, checks=off|errors|warnings, "
          "late_loads=on|off, "
          "late_stores=on|off, sums=quick|hopper, forgive=RULE+RULE");
    }
  }
  return s;
}

}  // namespace fa4::gpu
