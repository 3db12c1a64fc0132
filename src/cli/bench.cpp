// SPDX-License-Identifier: BSD-3-Clause
// fa4 bench: attention beside the machine's roofs and beside PyTorch.
#include <fa4/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/array.h"
#include "cli/bench_report.h"
#include "cli/command_line.h"
#include "cli/gpu_bench.h"
#include "cli/interruption.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

struct BenchRequest {
  GridOptions grid;
  std::vector<std::string> dtypes;
  Effort effort;
  std::string python = "python3";
  std::string json;
  bool cpu = true;
  bool no_torch = false;
  bool quick = false;
  bool list = false;
};

void add_flags(CommandLine& line, BenchRequest& r) {
  line.add("--cpu", r.cpu, "Bench the CPU (default); for a GPU see 'fa4 bench --gpu --help'");
  line.add("--filter", r.grid.filter,
           "Only cells whose name matches this regular expression; --list shows names");
  line.add("--list", r.list, "List the cells' names and stop");
  line.add("--threads", r.grid.threads, "Thread counts (default: 1 and every core)")
      .commas()
      .type("N")
      .range(1, 4096);
  line.add("--seqlen", r.grid.seqlen, "Prefill's rows (default: 2048)").range(1, 1 << 20);
  line.add("--batch", r.grid.batch, "Prefill's batch (default: 1)").range(1, 1 << 16);
  line.add("--heads", r.grid.heads, "Prefill's heads (default: 8)").range(1, 1 << 16);
  line.add("--head-dim", r.grid.dims, "Prefill's head dims (default: 64,128)")
      .commas()
      .type("N")
      .range(1, 256);
  line.add("--dtype", r.dtypes, "fp32, bf16, fp16 or fp64 (default: fp32,bf16)")
      .commas()
      .type("DTYPE");
  line.add("--seconds", r.effort.seconds, "Time for each side of a cell (default: 1)")
      .range(0.001, 3600.0);
  line.add("--repeats", r.effort.max_rounds, "At most this many runs of a cell (default: 50)")
      .range(1, 100000);
  line.add("--quick", r.quick, "Short runs of a smaller prefill: a look, not a measurement");
  line.add("--json", r.json, "Write everything to this file, for bench/plot.py").type("FILE");
  line.add("--python", r.python, "The python that has torch (default: python3)");
  line.add("--no-torch", r.no_torch, "Do not look for torch");
}

void resolve(const CommandLine& line, const CpuInfo& cpu, BenchRequest& r) {
  if (r.quick) {
    if (!line.given("--seqlen")) r.grid.seqlen = 512;
    if (!line.given("--seconds")) r.effort.seconds = 0.1;
  }
  if (r.grid.threads.empty()) {
    r.grid.threads = {1};
    if (cpu.usable > 1) r.grid.threads.push_back(cpu.usable);
  }
  std::sort(r.grid.threads.begin(), r.grid.threads.end());
  r.grid.threads.erase(std::unique(r.grid.threads.begin(), r.grid.threads.end()),
                       r.grid.threads.end());
  r.effort.min_rounds = std::min(r.effort.min_rounds, r.effort.max_rounds);
  if (!r.dtypes.empty()) r.grid.dtypes.clear();
  for (const std::string& name : r.dtypes) {
    const std::optional<DType> dtype = parse_float_dtype(name);
    if (!dtype) {
      throw UsageError(fmt::format("--dtype: {} is unknown; known: fp32 bf16 fp16 fp64", name));
    }
    r.grid.dtypes.push_back(*dtype);
  }
  // Memory for k, v, torch's k and v, and the probes' buffer has to be there.
  r.grid.decode_bytes = std::min(4 * cpu.last_level_bytes(), cpu.memory_bytes / 8);
}

void print_start(const BenchResult& result, const std::string& torch) {
  fmt::print("{}\n\n", paint(fmt::format("fa4 {} bench", version()), Style::kTitle));
  fmt::print("  CPU    {}, {} cores, last-level cache {}\n", result.cpu.model, result.cpu.usable,
             format_bytes(result.cpu.last_level_bytes()));
  fmt::print("  fa4    {}\n", result.target.empty() ? "no target" : result.target);
  fmt::print("  torch  {}\n", torch);
  std::fflush(stdout);
}

std::vector<Roofs> measure_all_roofs(const BenchRequest& request, ProgressBar& bar) {
  std::vector<Roofs> roofs;
  for (const int threads : request.grid.threads) {
    if (Interruption::came()) break;
    bool first = true;
    const auto announce = [&](const std::string& what) {
      if (!first) bar.advance();
      first = false;
      bar.show(fmt::format("{}, {} thread{}", what, threads, threads == 1 ? "" : "s"));
    };
    roofs.push_back(
        measure_roofs(threads, request.quick ? 0.25 : 0.6, request.grid.decode_bytes, announce));
    bar.advance();
  }
  return roofs;
}

void write_json(const std::string& path, const BenchResult& result) {
  std::ofstream out(path);
  out << json_text(result) << "\n";
  if (!out.flush()) throw std::runtime_error(path + ": could not be written");
  fmt::print("\n  wrote {}\n", path);
}

std::unique_ptr<TorchPeer> start_torch(const BenchRequest& request, BenchResult& result) {
  if (request.no_torch) return nullptr;
  auto torch = std::make_unique<TorchPeer>(request.python);
  result.torch_version = torch->version();
  if (!torch->available()) result.torch_problem = torch->problem();
  return torch;
}

}  // namespace

int bench_command(int argc, char** argv) {
  if (std::find(argv, argv + argc, std::string("--gpu")) != argv + argc) {
    return gpu_bench_command(argc, argv);
  }
  CommandLine line(
      "fa4 bench",
      "Measures the machine's roofs, then attention: GFLOP/s (forward 4 b h s^2 d, halved when\n"
      "causal; backward 2.5 times that), the share of the roof, and PyTorch's attention in turns\n"
      "in the same run with the same number of threads.");
  BenchRequest request;
  add_flags(line, request);
  line.examples({"bench --cpu", "bench --cpu --quick --no-torch",
                 "bench --filter 'prefill/fp32/.*/forward' --threads 1",
                 "bench --python /path/to/venv/bin/python --json bench.json"});
  if (const auto code = line.parse(argc, argv)) return *code;

  BenchResult result;
  result.cpu = cpu_info();
  resolve(line, result.cpu, request);
  const std::vector<Cell> grid = make_grid(request.grid);
  if (request.list) {
    for (const Cell& cell : grid) fmt::print("{}\n", cell.name());
    return kExitOk;
  }
  if (grid.empty())
    throw UsageError(fmt::format("--filter: no cell matches '{}'", request.grid.filter));
  result.target = active_target();
  result.quick = request.quick;
  const std::unique_ptr<TorchPeer> torch = start_torch(request, result);
  print_start(result, torch == nullptr     ? "not asked for"
                      : torch->available() ? torch->version()
                                           : "not found (" + torch->problem() + ")");

  const Interruption interruption;
  const int64_t roof_steps = kRoofSteps * static_cast<int64_t>(request.grid.threads.size());
  ProgressBar bar(roof_steps + static_cast<int64_t>(grid.size()));
  result.roofs = measure_all_roofs(request, bar);
  for (const Cell& cell : grid) {
    if (Interruption::came()) break;
    bar.show(cell.name());
    Measured measured = measure(cell, request.effort, torch.get());
    if (!Interruption::came()) result.cells.push_back(std::move(measured));
    bar.advance();
  }
  bar.clear();
  result.wanted = grid.size();
  result.interrupted = result.cells.size() < grid.size();
  print_report(result);
  if (!request.json.empty()) write_json(request.json, result);
  return result.interrupted ? Interruption::exit_code() : kExitOk;
}

}  // namespace fa4::cli
