// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/array.h"
#include "cli/bench_report.h"

namespace fa4::cli {
namespace {

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

bool prefill(const Measured& m) { return m.cell.kind == Kind::kPrefill; }

/// The cell that differs from `like` only as `change` makes it; null if it was not measured.
template <class Change>
const Measured* partner(const BenchResult& result, const Cell& like, const Change& change) {
  Cell wanted = like;
  change(wanted);
  const std::string name = wanted.name();
  for (const Measured& m : result.cells) {
    if (m.ours.present() && m.cell.name() == name) return &m;
  }
  return nullptr;
}

double our_rate(const Measured& m) { return rate_of(m.cell, m.ours.best()); }

/// bfloat16 beside AMX is a later version's goal.
bool has_goal(const BenchResult& result, DType dtype) {
  const auto& flags = result.cpu.flags;
  return dtype != DType::kBFloat16 ||
         std::find(flags.begin(), flags.end(), "amx_bf16") == flags.end();
}

void add_ratio_goals(const BenchResult& result, std::vector<Goal>& goals) {
  for (const Group& g : groups_of(result)) {
    if (!has_goal(result, g.dtype)) continue;
    goals.push_back(
        {fmt::format("{} {}, {}: times torch, geometric mean of {} cells", short_name(g.dtype),
                     g.pass == Pass::kForward ? "forward" : "backward", threads_text(g.threads),
                     g.cells),
         g.ratio, 1.2});
  }
  const Measured* slowest = nullptr;
  for (const Measured& m : result.cells) {
    if (!prefill(m) || !m.ratio() || !has_goal(result, m.cell.dtype)) continue;
    if (slowest == nullptr || *m.ratio() < *slowest->ratio()) slowest = &m;
  }
  if (slowest != nullptr) {
    goals.push_back({fmt::format("slowest cell beside torch, {}", slowest->cell.name()),
                     *slowest->ratio(), 1.0});
  }
}

/// The worst of `value(cell)` over the cells for which it is there.
template <class Value>
void add_worst(const BenchResult& result, const std::string& what, double goal, const Value& value,
               std::vector<Goal>& goals) {
  double worst = std::numeric_limits<double>::infinity();
  std::string name;
  for (const Measured& m : result.cells) {
    if (!m.ours.present()) continue;
    const std::optional<double> x = value(m);
    if (!x || *x >= worst) continue;
    worst = *x;
    name = m.cell.name();
  }
  if (!name.empty()) goals.push_back({fmt::format("{}, {}", what, name), worst, goal, true});
}

std::optional<double> share_of_peak(const BenchResult& result, const Measured& m) {
  const Cell& c = m.cell;
  if (c.kind != Kind::kPrefill || c.dtype != DType::kFloat32 || c.d != 128 || c.causal ||
      c.pass != Pass::kForward) {
    return std::nullopt;
  }
  return our_rate(m) / result.roofs_of(c.threads).fma_gflops;
}

std::optional<double> causal_over_full(const BenchResult& result, const Measured& m) {
  if (!prefill(m) || !m.cell.causal) return std::nullopt;
  const Measured* full = partner(result, m.cell, [](Cell& c) { c.causal = false; });
  if (full == nullptr) return std::nullopt;
  return our_rate(m) / our_rate(*full);
}

/// What all threads gain over one, as a share of what the FMA probe gains.
std::optional<double> scaling(const BenchResult& result, const Measured& m) {
  if (!prefill(m) || m.cell.threads == 1) return std::nullopt;
  const Measured* one = partner(result, m.cell, [](Cell& c) { c.threads = 1; });
  if (one == nullptr) return std::nullopt;
  const double probe = result.roofs_of(m.cell.threads).fma_gflops / result.roofs_of(1).fma_gflops;
  return our_rate(m) / our_rate(*one) / probe;
}

void add_scaling(const BenchResult& result, std::vector<Goal>& goals) {
  std::vector<double> gains;
  for (const Measured& m : result.cells) {
    if (!m.ours.present()) continue;
    if (const auto gain = scaling(result, m)) gains.push_back(*gain);
  }
  if (gains.empty()) return;
  goals.push_back({fmt::format("gain from all threads, share of the FMA probe's gain, geometric "
                               "mean of {} cells",
                               gains.size()),
                   geometric_mean(gains), 0.9, true});
}

/// Of the read bandwidth where a key head has one query head; of what binds elsewhere.
void add_decode_goals(const BenchResult& result, std::vector<Goal>& goals) {
  const auto is_decode = [](const Cell& c) { return c.kind == Kind::kDecode; };
  add_worst(
      result, "decode's least share of the read bandwidth, one query head a key head", 0.75,
      [&](const Measured& m) -> std::optional<double> {
        if (!is_decode(m.cell) || m.cell.heads_q != m.cell.heads_k) return std::nullopt;
        return our_rate(m) / read_gbs_of(m, result.roofs_of(m.cell.threads));
      },
      goals);
  add_worst(
      result, "decode's least share of its roof, several query heads a key head", 0.75,
      [&](const Measured& m) -> std::optional<double> {
        if (!is_decode(m.cell) || m.cell.heads_q == m.cell.heads_k) return std::nullopt;
        return our_rate(m) / roof_of(m, result.roofs_of(m.cell.threads)).rate;
      },
      goals);
}

}  // namespace

std::string threads_text(int threads) {
  return threads == 1 ? "1 thread" : fmt::format("{} threads", threads);
}

double rate_of(const Cell& cell, double seconds) {
  return 1e-9 * (cell.kind == Kind::kDecode ? cell.kv_bytes() : cell.flops()) / seconds;
}

double read_gbs_of(const Measured& m, const Roofs& roofs) {
  if (!m.read.present()) return roofs.read_gbs;
  return std::max(roofs.read_gbs, 1e-9 * m.cell.kv_bytes() / m.read.best());
}

Roof roof_of(const Measured& m, const Roofs& roofs) {
  const Cell& cell = m.cell;
  const bool bf16 = cell.dtype == DType::kBFloat16, dot = bf16 && roofs.bf16_gflops;
  if (cell.kind == Kind::kPrefill) return {roofs.product_gflops(bf16), dot ? "bf16 dot" : "FMA"};
  // Many query heads may need more multiply-adds than a byte's share of the read bandwidth leaves
  // time for.
  const double product = roofs.streamed_gflops(bf16, cell.heads_q / cell.heads_k);
  const double bytes = product * cell.kv_bytes() / cell.flops();
  const double read = read_gbs_of(m, roofs);
  if (read <= bytes) return {read, "read"};
  return {bytes, dot ? "bf16 dot" : bf16 ? "widened FMA" : "FMA"};
}

const Roofs& BenchResult::roofs_of(int threads) const {
  for (const Roofs& r : roofs) {
    if (r.threads == threads) return r;
  }
  throw std::logic_error("roofs were not measured for this number of threads");
}

std::vector<Group> groups_of(const BenchResult& result) {
  std::vector<Group> groups;
  std::vector<std::vector<double>> ratios;
  for (const Measured& m : result.cells) {
    if (!prefill(m) || !m.ratio()) continue;
    size_t i = 0;
    while (i < groups.size() &&
           !(groups[i].pass == m.cell.pass && groups[i].dtype == m.cell.dtype &&
             groups[i].threads == m.cell.threads)) {
      ++i;
    }
    if (i == groups.size()) {
      groups.push_back({m.cell.pass, m.cell.dtype, m.cell.threads});
      ratios.emplace_back();
    }
    ratios[i].push_back(*m.ratio());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].cells = static_cast<int>(ratios[i].size());
    groups[i].ratio = geometric_mean(ratios[i]);
  }
  return groups;
}

std::vector<Goal> goals_of(const BenchResult& result) {
  std::vector<Goal> goals;
  add_ratio_goals(result, goals);
  add_worst(
      result, "least share of the FMA peak", 0.65,
      [&](const Measured& m) { return share_of_peak(result, m); }, goals);
  add_worst(
      result, "causal's least rate, of full's", 0.85,
      [&](const Measured& m) { return causal_over_full(result, m); }, goals);
  add_scaling(result, goals);
  add_decode_goals(result, goals);
  return goals;
}

}  // namespace fa4::cli
