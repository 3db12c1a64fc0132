// SPDX-License-Identifier: BSD-3-Clause
#include <fa4/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/gpu_bench.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string ratio_text(const GpuMeasured& m) {
  const auto ratio = m.ratio(kOurs);
  if (!ratio) return "-";
  const double best = m.best_peer().value_or(1);
  const Style style = m.reached() ? Style::kGood : *ratio >= best ? Style::kWarn : Style::kBad;
  return paint(fmt::format("{:.2f}", *ratio), style);
}

void print_cells(const GpuBenchResult& result) {
  const std::vector<std::string> providers = result.providers();
  std::vector<Table::Column> columns = {{"TFLOP/s", Align::kLeft}};
  for (const std::string& name : providers) columns.push_back({name});
  for (const char* title : {"fa4/cudnn", "best peer", "goal", "of gemm", "MHz", "W"}) {
    columns.push_back({title});
  }
  Table table(columns);
  for (const GpuMeasured& m : result.cells) {
    std::vector<std::string> row = {m.cell.name()};
    for (const std::string& name : providers) {
      row.push_back(m.turns.contains(name) ? fmt::format("{:.0f}", m.tflops(name)) : "-");
    }
    row.push_back(ratio_text(m));
    const auto best = m.best_peer();
    row.push_back(best ? fmt::format("{:.2f}", *best) : "-");
    row.push_back(fmt::format("{:.2f}{}", m.cell.goal(), m.reached() ? " *" : "  "));
    const bool both = m.turns.contains(kOurs) && m.turns.contains(kGemm);
    row.push_back(both ? fmt::format("{:.0f}%", 100 * m.tflops(kOurs) / m.tflops(kGemm)) : "-");
    const auto ours = m.turns.find(kOurs);
    const bool known = ours != m.turns.end() && ours->second.megahertz > 0;
    row.push_back(known ? fmt::format("{:.0f}", ours->second.megahertz) : "-");
    row.push_back(known ? fmt::format("{:.0f}", ours->second.watts) : "-");
    table.add_row(row);
  }
  table.print();
}

void print_summary(const GpuBenchResult& result) {
  int with_ratio = 0, reached = 0, ahead = 0;
  double logs = 0;
  for (const GpuMeasured& m : result.cells) {
    const auto ratio = m.ratio(kOurs);
    if (!ratio) continue;
    ++with_ratio;
    reached += m.reached();
    ahead += *ratio >= m.best_peer().value_or(1);
    logs += std::log(*ratio);
  }
  if (with_ratio == 0) return;
  fmt::print(
      "\n  {} of {} rows reach the goal, or 0.97 of the product (*); {} are at or above the "
      "best peer; geometric mean of fa4/cudnn {:.2f}\n",
      reached, with_ratio, ahead, std::exp(logs / with_ratio));
}

void print_problems(const GpuBenchResult& result) {
  std::map<std::string, std::string> seen;
  for (const GpuMeasured& m : result.cells) {
    for (const auto& [name, problem] : m.problems) {
      seen.emplace(name, fmt::format("{} ({})", problem, m.cell.name()));
    }
  }
  for (const auto& [name, problem] : seen) fmt::print("  {}: {}\n", name, problem);
}

void print_host_cost(const HostCost& host) {
  fmt::print("\n{}\n\n", paint("Cost on the host", Style::kBold));
  Table table({{"d 128, s 128", Align::kLeft}, {"plan.run us"}, {"attention() us"}});
  for (const HostCost::Call& call : host.calls) {
    table.add_row(
        {call.what, fmt::format("{:.2f}", call.run_us), fmt::format("{:.2f}", call.attention_us)});
  }
  table.print();
  fmt::print("  goals: 5 us and 10 us\n");
  if (host.load_ms.empty()) return;
  fmt::print(
      "\n  a kernel from the store on disk: median {:.2f} ms, most {:.2f} ms of {}; goal "
      "5 ms\n",
      median_of(host.load_ms), host.load_ms.back(), host.load_ms.size());
}

}  // namespace

double GpuTurns::median() const { return median_of(seconds); }

double GpuMeasured::tflops(const std::string& provider) const {
  const double flops = provider == kGemm ? kGemmFlops : cell.flops();
  return flops / turns.at(provider).median() * 1e-12;
}

std::optional<double> GpuMeasured::ratio(const std::string& provider) const {
  const auto yardstick = turns.find(kYardstick), other = turns.find(provider);
  if (yardstick == turns.end() || other == turns.end()) return std::nullopt;
  const size_t rounds = std::min(yardstick->second.seconds.size(), other->second.seconds.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds; ++i) {
    ratios.push_back(yardstick->second.seconds[i] / other->second.seconds[i]);
  }
  return median_of(ratios);
}

std::optional<double> GpuMeasured::best_peer() const {
  std::optional<double> best;
  for (const auto& [name, unused] : turns) {
    if (name == kOurs || name == kGemm) continue;
    const auto r = ratio(name);
    if (r) best = std::max(*r, best.value_or(0));
  }
  return best;
}

bool GpuMeasured::reached() const {
  const auto ours = ratio(kOurs);
  if (!ours) return false;
  const bool near_gemm = turns.contains(kGemm) && tflops(kOurs) >= 0.97 * tflops(kGemm);
  return *ours >= cell.goal() || near_gemm;
}

std::vector<std::string> GpuBenchResult::providers() const {
  std::vector<std::string> names = {kOurs};
  for (const char* name : {"cudnn", "fa2", "fa3", "fa4-py", "flex", "gemm"}) {
    const bool any = std::any_of(cells.begin(), cells.end(),
                                 [&](const GpuMeasured& m) { return m.turns.contains(name); });
    if (any) names.emplace_back(name);
  }
  return names;
}

void print_gpu_report(const GpuBenchResult& result) {
  if (!result.cells.empty()) {
    fmt::print("\n{}\n\n", paint("Forward, 32,768 tokens", Style::kBold));
    print_cells(result);
    print_summary(result);
    print_problems(result);
  }
  if (result.host) print_host_cost(*result.host);
  if (result.interrupted) print_interrupted(result.cells.size(), result.wanted);
}

nlohmann::json to_json(const GpuBenchResult& result) {
  nlohmann::json json = {{"kind", "gpu"},
                         {"version", version()},
                         {"device", result.device},
                         {"peers", result.peers},
                         {"seconds", result.seconds},
                         {"rounds", result.rounds},
                         {"providers", result.providers()},
                         {"interrupted", result.interrupted},
                         {"cells", nlohmann::json::array()}};
  for (const GpuMeasured& m : result.cells) {
    const GpuCell& c = m.cell;
    nlohmann::json cell = {{"name", c.name()},       {"dtype", to_string(c.dtype)},
                           {"batch", c.batch},       {"seqlen", c.seqlen},
                           {"heads_q", c.heads_q},   {"heads_k", c.heads_k},
                           {"dim_qk", c.dim_qk},     {"dim_v", c.dim_v},
                           {"causal", c.causal},     {"flops", c.flops()},
                           {"goal", c.goal()},       {"reached", m.reached()},
                           {"problems", m.problems}, {"turns", nlohmann::json::object()}};
    for (const auto& [name, turns] : m.turns) {
      cell["turns"][name] = {{"seconds", turns.seconds},
                             {"tflops", m.tflops(name)},
                             {"megahertz", turns.megahertz},
                             {"watts", turns.watts}};
      if (const auto ratio = m.ratio(name)) cell["turns"][name]["ratio"] = *ratio;
    }
    json["cells"].push_back(cell);
  }
  if (result.host) {
    for (const auto& call : result.host->calls) {
      json["host"]["calls"].push_back(
          {{"what", call.what}, {"run_us", call.run_us}, {"attention_us", call.attention_us}});
    }
    json["host"]["load_ms"] = result.host->load_ms;
  }
  return json;
}

}  // namespace fa4::cli
