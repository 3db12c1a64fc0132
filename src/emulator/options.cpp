// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/options.h"

#include <algorithm>
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
    {"late_stores", "on", [](RunOptions& o) { o.late_stores = true; }},
    {"late_stores", "off", [](RunOptions& o) { o.late_stores = false; }},
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

bool parse_rules(std::string_view names, uint64_t& out) {
  uint64_t bits = 0;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('+'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto all = all_rules();
    const auto it = std::find_if(all.begin(), all.end(), [&](const RuleText& r) {
      return r.name == name && can_be_forgiven(r);
    });
    if (it == all.end()) return false;
    bits |= uint64_t{1} << static_cast<int>(it->rule);
  }
  out = bits;
  return true;
}

}  // namespace

bool can_be_forgiven(const RuleText& rule) {
  return rule.level == Level::kError && (!rule.always || rule.rule == Rule::kTensorUnallocated);
}

bool set_option(RunOptions& options, std::string_view name, std::string_view value) {
  if (name == "seed") return parse_number(value, uint64_t{0}, options.seed);
  if (name == "workers") return parse_number(value, 1u, options.workers);
  if (name == "resident") return parse_number(value, 1u, options.resident_clusters);
  if (name == "forgive") return parse_rules(value, options.forgiven);
  for (const Word& w : kWords) {
    if (w.option != name || w.word != value) continue;
    w.set(options);
    return true;
  }
  return false;
}

std::string words_of(std::string_view name) {
  std::string words;
  const auto add = [&](std::string_view word) {
    if (!words.empty()) words += ", ";
    words += word;
  };
  for (const Word& w : kWords) {
    if (w.option == name) add(w.word);
  }
  if (name != "forgive") return words;
  for (const RuleText& rule : all_rules()) {
    if (can_be_forgiven(rule)) add(rule.name);
  }
  return words;
}

}  // namespace fa4::emulator
