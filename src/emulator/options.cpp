// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/options.h"

#include <charconv>

namespace fa4::emulator {
namespace {

struct Word {
  std::string_view option, word;
  void (*set)(RunOptions&);
};

constexpr Word kWords[] = {
    {"timing", "earliest", [](RunOptions& o) { o.timing = Timing::kEarliest; }},
    {"timing", "random", [](RunOptions& o) { o.timing = Timing::kRandom; }},
    {"timing", "latest", [](RunOptions& o) { o.timing = Timing::kLatest; }},
    {"schedule", "random", [](RunOptions& o) { o.schedule = Schedule::kRandom; }},
    {"schedule", "priority", [](RunOptions& o) { o.schedule = Schedule::kPriority; }},
    {"checks", "off", [](RunOptions& o) { o.checks = Checks::kOff; }},
    {"checks", "errors", [](RunOptions& o) { o.checks = Checks::kErrors; }},
    {"checks", "warnings", [](RunOptions& o) { o.checks = Checks::kWarnings; }},
    {"late_loads", "on", [](RunOptions& o) { o.late_loads = true; }},
    {"late_loads", "off", [](RunOptions& o) { o.late_loads = false; }},
    {"sums", "quick", [](RunOptions& o) { o.sums = Sums::kQuick; }},
    {"sums", "hopper", [](RunOptions& o) { o.sums = Sums::kHopper; }},
};

template <class T>
bool parse_number(std::string_view text, T least, T& out) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return false;
  if (value < least) return false;
  out = value;
  return true;
}

}  // namespace

bool set_option(RunOptions& options, std::string_view name, std::string_view value) {
  if (name == "seed") return parse_number(value, uint64_t{0}, options.seed);
  if (name == "workers") return parse_number(value, 1u, options.workers);
  if (name == "resident") return parse_number(value, 1u, options.resident_clusters);
  for (const Word& w : kWords) {
    if (w.option != name || w.word != value) continue;
    w.set(options);
    return true;
  }
  return false;
}

std::string words_of(std::string_view name) {
  std::string words;
  for (const Word& w : kWords) {
    if (w.option != name) continue;
    if (!words.empty()) words += ", ";
    words += w.word;
  }
  return words;
}

}  // namespace fa4::emulator
