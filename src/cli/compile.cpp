// SPDX-License-Identifier: BSD-3-Clause
// fa4 compile: the GPU kernels through NVRTC, for a GPU that need not be there.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/kernel_choice.h"
#include "cli/terminal.h"

namespace fa4::cli {
namespace {

using gpu::KernelConfig;
using gpu::jit::Compiled;

struct CompileRequest {
  KernelChoice choice;
  std::vector<std::string> options;
  std::string ptx, cubin, json;
  int repeats = 1;
  bool list = false;
  bool log = false;
};

struct CompiledKernel {
  KernelConfig kernel;
  Compiled compiled;
  std::string error;  ///< The compiler's, if it failed.

  /// What is wrong with the kernel; empty if nothing is.
  std::string complaint() const {
    if (!error.empty()) return "does not compile";
    if (compiled.spill_bytes != 0) return fmt::format("spills {} bytes", compiled.spill_bytes);
    if (compiled.serialized) return "matrix products are serialized";
    if (compiled.registers != kernel.registers) {
      return fmt::format("expected {} registers", kernel.registers);
    }
    if (compiled.cpu_seconds > 2 * kernel.budget_seconds) return "over twice its budget";
    return "";
  }
};

void write_file(const std::string& folder, std::string name, const std::string& ending,
                std::span<const std::byte> bytes) {
  if (folder.empty()) return;
  std::replace(name.begin(), name.end(), '/', '-');
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/" + name + ending;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error(path + ": could not be written");
}

/// Compiles `repeats` times and keeps the quickest.
CompiledKernel compile(const KernelConfig& kernel, const CompileRequest& request) {
  CompiledKernel row{kernel, {}, {}};
  gpu::jit::Program program = kernel.program;
  program.options.insert(program.options.end(), request.options.begin(), request.options.end());
  for (int i = 0; i < request.repeats; ++i) {
    auto compiled = gpu::jit::compile(program);
    if (!compiled.ok()) {
      row.error = compiled.status().message();
      return row;
    }
    if (i == 0 || compiled->cpu_seconds < row.compiled.cpu_seconds) {
      row.compiled = *std::move(compiled);
    }
  }
  write_file(request.cubin, kernel.name, ".cubin", row.compiled.code);
  write_file(request.ptx, kernel.name, ".ptx", std::as_bytes(std::span(row.compiled.ptx)));
  return row;
}

void print_table(const std::vector<CompiledKernel>& rows) {
  Table table({{"kernel", Align::kLeft},
               {"CPU s"},
               {"registers"},
               {"spills"},
               {"shared KiB"},
               {"code KiB"},
               {"", Align::kLeft}});
  for (const CompiledKernel& row : rows) {
    const Compiled& c = row.compiled;
    const std::string complaint = row.complaint();
    table.add_row({row.kernel.name, fmt::format("{:.2f}", c.cpu_seconds),
                   fmt::format("{}", c.registers), fmt::format("{}", c.spill_bytes),
                   fmt::format("{:.1f}", row.kernel.shared_bytes / 1024.0),
                   fmt::format("{:.1f}", static_cast<double>(c.code.size()) / 1024.0),
                   complaint.empty() ? "" : paint(complaint, Style::kBad)});
  }
  table.print();
}

void print_summary(const std::vector<CompiledKernel>& rows) {
  std::vector<double> seconds;
  double sum = 0, least = rows.front().kernel.budget_seconds, most = least;
  for (const CompiledKernel& row : rows) {
    seconds.push_back(row.compiled.cpu_seconds);
    sum += row.compiled.cpu_seconds;
    least = std::min(least, row.kernel.budget_seconds);
    most = std::max(most, row.kernel.budget_seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  const auto within = std::count_if(rows.begin(), rows.end(), [](const CompiledKernel& row) {
    return row.compiled.cpu_seconds <= row.kernel.budget_seconds;
  });
  const auto bad = std::count_if(
      rows.begin(), rows.end(), [](const CompiledKernel& row) { return !row.complaint().empty(); });
  const std::string budgets = least < most
                                  ? fmt::format("their budgets of {:.1f} to {:.1f}", least, most)
                                  : fmt::format("the budget of {:.1f}", most);
  fmt::print(
      "\n  {} kernels in {:.1f} s of CPU time: median {:.2f} s, most {:.2f} s; {} within {} s; {} "
      "with "
      "a complaint\n",
      rows.size(), sum, seconds[seconds.size() / 2], seconds.back(), within, budgets, bad);
}

void write_json(const std::string& path, const std::vector<CompiledKernel>& rows) {
  nlohmann::json json;
  json["nvrtc"] = *gpu::jit::nvrtc_version();
  for (const CompiledKernel& row : rows) {
    const Compiled& c = row.compiled;
    json["kernels"].push_back({{"name", row.kernel.name},
                               {"cpu_seconds", c.cpu_seconds},
                               {"budget_seconds", row.kernel.budget_seconds},
                               {"registers", c.registers},
                               {"spill_bytes", c.spill_bytes},
                               {"shared_bytes", row.kernel.shared_bytes},
                               {"code_bytes", c.code.size()},
                               {"ptx_bytes", c.ptx.size()},
                               {"complaint", row.complaint()}});
  }
  std::ofstream out(path);
  out << json.dump(2) << "\n";
  if (!out.flush()) throw std::runtime_error(path + ": could not be written");
}

void add_flags(CommandLine& line, CompileRequest& r) {
  add_choice(line, r.choice);
  line.add("--list", r.list, "List the names and stop");
  line.add("--ptx", r.ptx, "Write each kernel's PTX into this folder").type("FOLDER");
  line.add("--cubin", r.cubin, "Write each kernel's cubin into this folder").type("FOLDER");
  line.add("--json", r.json, "Write the figures to this file").type("FILE");
  line.add("--log", r.log, "Print what ptxas says about each kernel");
  line.add("--option", r.options, "One more option for NVRTC; may be given many times")
      .type("OPTION");
  line.add("--repeats", r.repeats, "Compile each so often and keep the quickest (default: 1)")
      .range(1, 1000);
}

}  // namespace

int compile_command(int argc, char** argv) {
  CommandLine line(
      "fa4 compile",
      "Compiles GPU kernels with NVRTC and tells what each costs: CPU time of the compile,\n"
      "registers, spilled bytes, shared memory, code. Needs NVRTC, and no GPU. Exit code 1 if a\n"
      "kernel does not compile, spills, or takes twice its budget.");
  CompileRequest request;
  add_flags(line, request);
  line.examples({"compile --all", "compile 'forward/bf16/d128' --ptx out --cubin out",
                 "compile --list", "compile d64/causal --repeats 5 --log"});
  if (const auto code = line.parse(argc, argv)) return *code;
  if (request.list && request.choice.filters.empty()) request.choice.all = true;
  const std::vector<KernelConfig> kernels = chosen_kernels(request.choice);
  if (request.list) {
    for (const KernelConfig& kernel : kernels) fmt::print("{}\n", kernel.name);
    return kExitOk;
  }
  const std::string version = gpu::jit::nvrtc_version().value();
  fmt::print("  NVRTC {}, {}\n\n", version, gpu::jit::nvrtc_path());

  std::vector<CompiledKernel> rows;
  ProgressBar bar(static_cast<int64_t>(kernels.size()));
  for (const KernelConfig& kernel : kernels) {
    bar.show(kernel.name);
    rows.push_back(compile(kernel, request));
    bar.advance();
    if (request.log || !rows.back().error.empty()) {
      bar.clear();
      const CompiledKernel& row = rows.back();
      fmt::print("{}\n{}\n", row.kernel.name, row.error.empty() ? row.compiled.log : row.error);
    }
  }
  bar.clear();
  print_table(rows);
  print_summary(rows);
  if (!request.json.empty()) write_json(request.json, rows);
  const bool good = std::all_of(rows.begin(), rows.end(),
                                [](const CompiledKernel& row) { return row.complaint().empty(); });
  return good ? kExitOk : kExitFailure;
}

}  // namespace fa4::cli
