// SPDX-License-Identifier: BSD-3-Clause
#include "cli/gpu_bench.h"

#include <fa4/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "cli/command_line.h"
#include "cli/interruption.h"
#include "cli/name_filter.h"
#include "cli/terminal.h"
#include "gpu/variant.h"

namespace fa4::cli {
namespace {

struct GpuBenchRequest {
  std::string filter, json;
  std::vector<std::string> variants;
  std::string python = "python3";
  GpuEffort effort;
  bool gpu = true;
  bool no_torch = false;
  bool host = false;
  bool list = false;
  bool quick = false;
};

void add_flags(CommandLine& line, GpuBenchRequest& r) {
  line.add("--gpu", r.gpu, "Bench the GPU");
  line.add("--filter", r.filter,
           "Only cells whose name matches this regular expression; --list shows names");
  line.add("--list", r.list, "List the cells' names and stop");
  line.add("--peers", r.effort.peers,
           "Peers, of cudnn, fa2, fa3, fa4-py, flex, gemm (default: all that are there)")
      .commas();
  line.add("--variant", r.variants,
           "Each cell also with our kernel changed, such as tile_keys=96,stages=2");
  line.add("--seconds", r.effort.seconds,
           "Load in one turn that counts, after as much that does not (default: 0.3)")
      .range(0.001, 60.0);
  line.add("--rounds", r.effort.rounds, "Turns of each (default: 3)").range(1, 1000);
  line.add("--quick", r.quick, "One short round: a look, not a measurement");
  line.add("--host", r.host, "Only what calls and kernel loads cost the host");
  line.add("--json", r.json, "Write everything to this file, for bench/plot.py").type("FILE");
  line.add("--python", r.python, "The python that has torch (default: python3)");
  line.add("--no-torch", r.no_torch, "Do not look for peers");
}

/// Keeps of the wanted peers those that are there.
void choose_peers(const nlohmann::json& hello, std::vector<std::string>& wanted) {
  const auto there = hello["providers"].get<std::vector<std::string>>();
  if (wanted.empty()) wanted = there;
  std::erase_if(wanted, [&](const std::string& name) {
    return std::find(there.begin(), there.end(), name) == there.end();
  });
}

/// Each cell, then its variants; what vary() would refuse is a usage error.
std::vector<GpuCell> with_variants(const std::vector<GpuCell>& cells,
                                   const std::vector<std::string>& variants) {
  for (const std::string& variant : variants) {
    const Status status = gpu::Variant::check(variant);
    if (!status.ok()) throw UsageError("--" + status.message());
  }
  std::vector<GpuCell> all;
  for (const GpuCell& cell : cells) {
    all.push_back(cell);
    for (const std::string& variant : variants) {
      all.push_back(cell);
      all.back().variant = variant;
    }
  }
  return all;
}

std::string peers_text(const GpuBenchResult& result) {
  if (result.peers.is_null()) return result.peer_problem;
  std::string text = fmt::format("torch {}, cuDNN {}", result.peers.value("torch", "?"),
                                 result.peers.value("cudnn", 0));
  for (const auto& [name, why] : result.peers["missing"].items()) {
    text += fmt::format("\n         no {}: {}", name, why.get<std::string>());
  }
  return text;
}

void measure_cells(const gpu::Runtime& runtime, const std::vector<GpuCell>& cells,
                   GpuBenchRequest& request, GpuBenchResult& result) {
  std::optional<ScriptProcess> process;
  if (request.no_torch) {
    result.peer_problem = "not asked for";
  } else {
    process.emplace(request.python, kTorchGpuPeerScript);
    result.peers = process->hello();
    result.peer_problem = process->problem();
    if (!process->available()) process.reset();
  }
  if (process) choose_peers(result.peers, request.effort.peers);
  fmt::print("  peers  {}\n", peers_text(result));
  std::fflush(stdout);
  ScriptProcess* peers = process ? &*process : nullptr;
  ProgressBar bar(static_cast<int64_t>(cells.size()) + 1);
  bar.show("compiling");
  warm_up(runtime, cells, request.effort, peers);
  bar.advance();
  const size_t together = 1 + request.variants.size();
  for (size_t first = 0; first < cells.size(); first += together) {
    if (Interruption::came()) break;
    bar.show(cells[first].name());
    auto measured =
        measure(runtime, std::span(cells).subspan(first, together), request.effort, peers);
    if (Interruption::came()) break;
    for (GpuMeasured& m : measured) {
      result.cells.push_back(std::move(m));
      bar.advance();
    }
  }
}

}  // namespace

std::string GpuCell::name() const {
  std::string text = fmt::format("d{}", dim_qk);
  if (dim_v != dim_qk) text += fmt::format("x{}", dim_v);
  if (heads_q != heads_k) text += fmt::format("/g{}", heads_q / heads_k);
  text += fmt::format("/{}/s{}", causal ? "causal" : "full", seqlen);
  return variant.empty() ? text : text + " " + variant;
}

double GpuCell::flops() const {
  const double pairs = static_cast<double>(seqlen) * static_cast<double>(seqlen);
  return 2.0 * static_cast<double>(batch * heads_q * (dim_qk + dim_v)) * pairs * (causal ? 0.5 : 1);
}

double GpuCell::goal() const {
  if (dim_qk <= 64) return 1.30;
  if (dim_qk > 192) return 1.15;
  return causal ? 1.25 : 1.20;
}

std::vector<GpuCell> gpu_grid(const std::string& filter) {
  struct Heads {
    int64_t heads_q, heads_k, dim_qk, dim_v;
  };
  constexpr Heads kHeads[] = {{32, 32, 64, 64},
                              {16, 16, 128, 128},
                              {32, 8, 128, 128},
                              {16, 16, 192, 128},
                              {8, 8, 256, 256}};
  const NameFilter wanted = name_filter("--filter", filter);
  std::vector<GpuCell> cells;
  for (const Heads& h : kHeads) {
    for (const bool causal : {false, true}) {
      for (int64_t seqlen = 512; seqlen <= 32768; seqlen *= 2) {
        const GpuCell cell{DType::kBFloat16, 32768 / seqlen, seqlen, h.heads_q, h.heads_k,
                           h.dim_qk,         h.dim_v,        causal, {}};
        if (wanted(cell.name())) cells.push_back(cell);
      }
    }
  }
  return cells;
}

int gpu_bench_command(int argc, char** argv) {
  CommandLine line(
      "fa4 bench --gpu",
      "Times attention on the GPU, ours and every peer that the machine has, in turns in one run\n"
      "under sustained load: TFLOP/s (2 b h s^2 (d_qk + d_v), halved when causal), ratios to\n"
      "cuDNN, and the share of a cuBLAS product of 8192^3 in the same run.");
  GpuBenchRequest request;
  add_flags(line, request);
  line.examples({"bench --gpu", "bench --gpu --host", "bench --gpu --quick --peers cudnn",
                 "bench --gpu --filter 'd128/causal' --json gpu.json"});
  if (const auto code = line.parse(argc, argv)) return *code;
  if (request.quick) {
    if (!line.given("--seconds")) request.effort.seconds = 0.05;
    if (!line.given("--rounds")) request.effort.rounds = 1;
  }
  const std::vector<GpuCell> cells = with_variants(gpu_grid(request.filter), request.variants);
  if (request.list) {
    for (const GpuCell& cell : cells) fmt::print("{}\n", cell.name());
    return kExitOk;
  }
  if (cells.empty())
    throw UsageError(fmt::format("--filter: no cell matches '{}'", request.filter));
  const gpu::Runtime& runtime = *gpu::cuda_runtime(0).value();

  GpuBenchResult result;
  result.device = runtime.properties().name;
  result.seconds = request.effort.seconds;
  result.rounds = request.effort.rounds;
  fmt::print("{}\n\n", paint(fmt::format("fa4 {} bench", version()), Style::kTitle));
  fmt::print("  GPU    {}\n", result.device);
  // What the host pays has nothing to do with a cell; it compiles every kernel.
  const Interruption interruption;
  if (request.host || request.filter.empty()) result.host = measure_host_cost(runtime);
  if (!request.host) {
    measure_cells(runtime, cells, request, result);
    result.wanted = cells.size();
    result.interrupted = result.cells.size() < cells.size();
  }
  print_gpu_report(result);
  if (!request.json.empty()) {
    std::ofstream out(request.json);
    out << to_json(result).dump(2) << "\n";
    if (!out.flush()) throw std::runtime_error(request.json + ": could not be written");
    fmt::print("\n  wrote {}\n", request.json);
  }
  return result.interrupted ? Interruption::exit_code() : kExitOk;
}

}  // namespace fa4::cli
