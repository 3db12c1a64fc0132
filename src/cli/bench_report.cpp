// SPDX-License-Identifier: BSD-3-Clause
#include "cli/bench_report.h"

#include <fa4/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string format_rate(double rate) { return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0); }

std::string ratio_cell(std::optional<double> ratio) {
  if (!ratio) return "-";
  const Style style = *ratio >= 1.2 ? Style::kGood : *ratio >= 1 ? Style::kWarn : Style::kBad;
  return paint(fmt::format("{:.2f}x", *ratio), style);
}

std::string pass_name(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

void print_title(const std::string& text) { fmt::print("\n{}\n\n", paint(text, Style::kBold)); }

void print_roofs(const BenchResult& result) {
  print_title("Roofs of this machine");
  Table table({{"threads"},
               {"fp32 FMA GFLOP/s"},
               {"bf16 dot GFLOP/s"},
               {"widened once"},
               {"8 times"},
               {"exp G/s"},
               {"read GB/s"},
               {"copy GB/s"}});
  for (const Roofs& r : result.roofs) {
    table.add_row({fmt::format("{}", r.threads), format_rate(r.fma_gflops),
                   r.bf16_gflops ? format_rate(*r.bf16_gflops) : "none",
                   format_rate(r.widened_once_gflops), format_rate(r.widened_gflops),
                   fmt::format("{:.2f}", r.exp_gops), format_rate(r.read_gbs),
                   format_rate(r.copy_gbs)});
  }
  table.print();
  if (!result.roofs.empty() && !result.roofs.front().bf16_gflops) {
    fmt::print(
        "  This processor has no bf16 dot product: bf16 prefill is held against the FMA peak, "
        "decode\n"
        "  against multiply-adds of vectors widened from the L1 cache, each for 1 of them or for "
        "8.\n");
  }
}

/// Best rate, median rate, share of the roof; for decode the roof, what it is and the share of the
/// read bandwidth; with torch its best rate and the ratios.
std::vector<std::string> figures(const BenchResult& result, const Measured& m) {
  const Roofs& roofs = result.roofs_of(m.cell.threads);
  const Roof roof = roof_of(m, roofs);
  std::vector<std::string> cells = {"-", "-", "-"};
  const double best = m.ours.present() ? rate_of(m.cell, m.ours.best()) : 0;
  if (m.ours.present()) {
    cells = {format_rate(best), format_rate(rate_of(m.cell, m.ours.median())),
             percent(best / roof.rate)};
  }
  if (m.cell.kind == Kind::kDecode) {
    cells.push_back(format_rate(roof.rate) + " " + roof.bound);
    cells.push_back(m.ours.present() ? percent(best / read_gbs_of(m, roofs)) : "-");
  }
  if (!result.has_torch()) return cells;
  cells.push_back(m.torch.present() ? format_rate(rate_of(m.cell, m.torch.best())) : "-");
  cells.push_back(ratio_cell(m.ratio()));
  cells.push_back(ratio_cell(m.ratio(true)));
  return cells;
}

/// The columns that figures() fills, behind `first`.
Table figures_table(const BenchResult& result, std::vector<Table::Column> first, Kind kind) {
  for (const char* name : {"fa4 best", "median", "of roof"}) first.push_back({name});
  if (kind == Kind::kDecode) {
    for (const char* name : {"roof", "of read"}) first.push_back({name});
  }
  if (result.has_torch()) {
    for (const char* name : {"torch best", "fa4 / torch", "of medians"}) first.push_back({name});
  }
  return Table(std::move(first));
}

void append(std::vector<std::string>& row, const std::vector<std::string>& cells) {
  row.insert(row.end(), cells.begin(), cells.end());
}

void print_problems(const std::vector<const Measured*>& cells) {
  Notes notes;
  for (const Measured* m : cells) {
    if (!m->ours_problem.empty()) notes.mark("fa4: " + m->ours_problem);
    if (!m->torch_problem.empty()) notes.mark("torch: " + m->torch_problem);
  }
  notes.print();
}

void print_prefill(const BenchResult& result, const std::vector<const Measured*>& cells) {
  if (cells.empty()) return;
  const Cell& first = cells.front()->cell;
  print_title(fmt::format("Prefill, s {}, b {}, h {}, {}: GFLOP/s", first.s_q, first.batch,
                          first.heads_q, threads_text(first.threads)));
  Table table = figures_table(
      result, {{"pass", Align::kLeft}, {"dtype", Align::kLeft}, {"d"}, {"mask", Align::kLeft}},
      Kind::kPrefill);
  const Cell* last = nullptr;
  for (const Measured* m : cells) {
    const Cell& c = m->cell;
    if (last != nullptr && (last->pass != c.pass || last->dtype != c.dtype)) table.add_rule();
    std::vector<std::string> row = {pass_name(c.pass), short_name(c.dtype), fmt::format("{}", c.d),
                                    c.causal ? "causal" : "full"};
    append(row, figures(result, *m));
    table.add_row(row);
    last = &c;
  }
  table.print();
  print_problems(cells);
}

void print_decode(const BenchResult& result, const std::vector<const Measured*>& cells) {
  if (cells.empty()) return;
  const Cell& first = cells.front()->cell;
  print_title(fmt::format("Decode, one query, d {}, {} key heads, {}: GB/s of k and v", first.d,
                          first.heads_k, threads_text(first.threads)));
  Table table = figures_table(result, {{"dtype", Align::kLeft}, {"query heads"}, {"keys"}, {"MiB"}},
                              Kind::kDecode);
  for (const Measured* m : cells) {
    const Cell& c = m->cell;
    std::vector<std::string> row = {short_name(c.dtype), fmt::format("{}", c.heads_q),
                                    fmt::format("{}", c.s_k),
                                    fmt::format("{:.0f}", c.kv_bytes() / (1 << 20))};
    append(row, figures(result, *m));
    table.add_row(row);
  }
  table.print();
  print_problems(cells);
}

void print_groups(const BenchResult& result) {
  const std::vector<Group> groups = groups_of(result);
  if (groups.empty()) return;
  print_title("Geometric means, times torch");
  Table table(
      {{"pass", Align::kLeft}, {"dtype", Align::kLeft}, {"threads"}, {"cells"}, {"fa4 / torch"}});
  for (const Group& g : groups) {
    table.add_row({pass_name(g.pass), short_name(g.dtype), fmt::format("{}", g.threads),
                   fmt::format("{}", g.cells), ratio_cell(g.ratio)});
  }
  table.print();
}

/// The probes find the machine's clock of one moment, the cells that of another.
void print_shares_above_one(const BenchResult& result) {
  const bool any = std::any_of(result.cells.begin(), result.cells.end(), [&](const Measured& m) {
    const Roof roof = roof_of(m, result.roofs_of(m.cell.threads));
    return m.ours.present() && rate_of(m.cell, m.ours.best()) > roof.rate;
  });
  if (!any) return;
  fmt::print(
      "\n  A share above 100%: the roof was measured at another time than the cell, when the "
      "machine\n"
      "  was slower (its clock, other programs){}.\n",
      result.quick ? "; --quick looks at each for a moment only" : "");
}

void print_goals(const BenchResult& result) {
  const std::vector<Goal> goals = goals_of(result);
  if (goals.empty() || result.quick || result.interrupted) return;
  print_title("Goals");
  Table table({{"", Align::kLeft}, {"is"}, {"goal"}, {"what", Align::kLeft}});
  for (const Goal& g : goals) {
    const auto show = [&](double x) { return g.percent ? percent(x) : fmt::format("{:.2f}x", x); };
    table.add_row({g.met() ? paint("met", Style::kGood) : paint("missed", Style::kBad),
                   show(g.value), show(g.goal), g.what});
  }
  table.print();
}

nlohmann::json to_json(const Times& times) {
  if (!times.present()) return nullptr;
  return {{"best_seconds", times.best()},
          {"median_seconds", times.median()},
          {"runs", times.seconds.size()}};
}

nlohmann::json to_json(const Measured& m, const Roofs& roofs) {
  const Cell& c = m.cell;
  const bool decode = c.kind == Kind::kDecode;
  const Roof roof = roof_of(m, roofs);
  nlohmann::json json = {{"name", c.name()},
                         {"kind", decode ? "decode" : "prefill"},
                         {"pass", pass_name(c.pass)},
                         {"dtype", short_name(c.dtype)},
                         {"batch", c.batch},
                         {"seqlen_q", c.s_q},
                         {"seqlen_k", c.s_k},
                         {"heads_q", c.heads_q},
                         {"heads_k", c.heads_k},
                         {"dim", c.d},
                         {"causal", c.causal},
                         {"threads", c.threads},
                         {"unit", decode ? "GB/s" : "GFLOP/s"},
                         {"work", decode ? c.kv_bytes() : c.flops()},
                         {"roof", roof.rate},
                         {"roof_is", roof.bound},
                         {"fa4", to_json(m.ours)},
                         {"torch", to_json(m.torch)},
                         {"read", to_json(m.read)}};
  if (m.ours.present()) {
    const double rate = rate_of(c, m.ours.best());
    json["share_of_roof"] = rate / roof.rate;
    if (decode) json["share_of_read"] = rate / read_gbs_of(m, roofs);
  }
  if (!m.ours_problem.empty()) json["fa4_problem"] = m.ours_problem;
  if (!m.torch_problem.empty()) json["torch_problem"] = m.torch_problem;
  return json;
}

nlohmann::json to_json(const Roofs& r) {
  return {{"threads", r.threads},
          {"target", r.target},
          {"fma_gflops", r.fma_gflops},
          {"bf16_gflops", r.bf16_gflops ? nlohmann::json(*r.bf16_gflops) : nlohmann::json(nullptr)},
          {"widened_once_gflops", r.widened_once_gflops},
          {"widened_gflops", r.widened_gflops},
          {"exp_gops", r.exp_gops},
          {"read_gbs", r.read_gbs},
          {"copy_gbs", r.copy_gbs}};
}

}  // namespace

void print_report(const BenchResult& result) {
  print_roofs(result);
  for (const Roofs& r : result.roofs) {
    std::vector<const Measured*> prefill, decode;
    for (const Measured& m : result.cells) {
      if (m.cell.threads != r.threads) continue;
      (m.cell.kind == Kind::kPrefill ? prefill : decode).push_back(&m);
    }
    print_prefill(result, prefill);
    print_decode(result, decode);
  }
  print_shares_above_one(result);
  print_groups(result);
  print_goals(result);
  if (result.interrupted) print_interrupted(result.cells.size(), result.wanted);
}

nlohmann::json to_json(const BenchResult& result) {
  nlohmann::json json = {{"version", version()},
                         {"cpu", result.cpu.model},
                         {"cores", result.cpu.usable},
                         {"last_level_cache_bytes", result.cpu.last_level_bytes()},
                         {"target", result.target},
                         {"torch", result.torch_version},
                         {"torch_problem", result.torch_problem},
                         {"interrupted", result.interrupted},
                         {"roofs", nlohmann::json::array()},
                         {"cells", nlohmann::json::array()},
                         {"groups", nlohmann::json::array()},
                         {"goals", nlohmann::json::array()}};
  for (const Roofs& r : result.roofs) json["roofs"].push_back(to_json(r));
  for (const Measured& m : result.cells) {
    json["cells"].push_back(to_json(m, result.roofs_of(m.cell.threads)));
  }
  for (const Group& g : groups_of(result)) {
    json["groups"].push_back({{"pass", pass_name(g.pass)},
                              {"dtype", short_name(g.dtype)},
                              {"threads", g.threads},
                              {"cells", g.cells},
                              {"ratio", g.ratio}});
  }
  for (const Goal& g : goals_of(result)) {
    json["goals"].push_back(
        {{"what", g.what}, {"value", g.value}, {"goal", g.goal}, {"met", g.met()}});
  }
  return json;
}

std::string json_text(const BenchResult& result) { return to_json(result).dump(2); }

}  // namespace fa4::cli
