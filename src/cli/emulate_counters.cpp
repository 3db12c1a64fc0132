// SPDX-License-Identifier: BSD-3-Clause
#include "cli/emulate_counters.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <string>

#include "cli/terminal.h"

namespace fa4::cli {
namespace {

using emulator::Counts;
using emulator::RoleCounts;

/// Whole numbers as they are, others to four digits.
std::string number(uint64_t value, double tiles) {
  if (value == 0) return "";
  return tiles == 1 ? fmt::format("{}", value)
                    : fmt::format("{:.4g}", static_cast<double>(value) / tiles);
}

std::vector<int> warps_of(uint64_t bits) {
  std::vector<int> warps;
  for (; bits != 0; bits &= bits - 1) warps.push_back(std::countr_zero(bits));
  return warps;
}

std::string class_label(int c) {
  return std::string("  ") + emulator::name_of(static_cast<emulator::Class>(c));
}

}  // namespace

void print_counters(const std::vector<RoleCounts>& roles, double tiles) {
  std::vector<Table::Column> columns = {{"", Align::kLeft}};
  Counts all;
  for (const RoleCounts& role : roles) {
    columns.push_back({role.name});
    all.add(role.counts);
  }
  columns.push_back({"all"});
  Table table(columns);
  const auto add = [&](const std::string& label, auto value_of) {
    if (value_of(all) == 0) return;
    std::vector<std::string> row = {label};
    for (const RoleCounts& role : roles) row.push_back(number(value_of(role.counts), tiles));
    row.push_back(number(value_of(all), tiles));
    table.add_row(row);
  };
  std::vector<std::string> warps = {"warps of a block"};
  for (const RoleCounts& role : roles)
    warps.push_back(fmt::format("{}", std::popcount(role.warps)));
  warps.emplace_back();
  table.add_row(warps);
  for (const emulator::NamedCount& n : emulator::named_counts()) {
    add(n.text, [&](const Counts& c) { return c.*n.value; });
    if (n.value != &Counts::instructions) continue;
    for (int i = 0; i < emulator::kClasses; ++i) {
      add(class_label(i), [i](const Counts& c) { return c.classes[static_cast<size_t>(i)]; });
    }
  }
  table.print();
  if (tiles != 1) fmt::print("\n  all divided by {:.10g} tiles\n", tiles);
}

nlohmann::json counters_json(const std::vector<RoleCounts>& roles, double tiles) {
  nlohmann::json list = nlohmann::json::array();
  for (const RoleCounts& role : roles) {
    nlohmann::json entry = {{"role", role.name}, {"warps", warps_of(role.warps)}};
    const auto put = [&](nlohmann::json& to, const char* name, uint64_t value) {
      if (tiles == 1) {
        to[name] = value;
      } else {
        to[name] = static_cast<double>(value) / tiles;
      }
    };
    for (const emulator::NamedCount& n : emulator::named_counts()) {
      put(entry, n.name, role.counts.*n.value);
    }
    nlohmann::json classes;
    for (int i = 0; i < emulator::kClasses; ++i) {
      put(classes, emulator::name_of(static_cast<emulator::Class>(i)),
          role.counts.classes[static_cast<size_t>(i)]);
    }
    entry["classes"] = classes;
    list.push_back(entry);
  }
  return list;
}

}  // namespace fa4::cli
