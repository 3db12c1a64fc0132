// SPDX-License-Identifier: BSD-3-Clause
// fa4 info: what this machine has and what fa4 can do on it.
#include <fa4/plan.h>
#include <fa4/version.h>
#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/cpu_info.h"
#include "cli/terminal.h"
#include "gpu/runtime.h"

namespace fa4::cli {
namespace {

/// A problem to ask the library about.
struct Question {
  const char* what;
  AttentionProblem problem;
};

AttentionProblem problem_of(Pass pass, DType dtype, int64_t d, int64_t d_v, int64_t heads_q = 4,
                            int64_t heads_k = 4) {
  AttentionProblem p;
  p.pass = pass;
  p.q = {dtype, 4, {1, 128, heads_q, d}};
  p.k = {dtype, 4, {1, 128, heads_k, d}};
  p.v = {dtype, 4, {1, 128, heads_k, d_v}};
  return p;
}

template <class Change>
AttentionProblem with(AttentionProblem problem, const Change& change) {
  change(problem);
  return problem;
}

/// Features of the contract beside dtypes and head dims.
std::vector<Question> feature_questions(DType dtype) {
  const AttentionProblem forward = problem_of(Pass::kForward, dtype, 64, 64);
  const AttentionProblem backward = problem_of(Pass::kBackward, dtype, 64, 64);
  using P = AttentionProblem;
  return {
      {"grouped heads, 8 on 2", problem_of(Pass::kForward, dtype, 64, 64, 8, 2)},
      {"d_qk 192, d_v 128", problem_of(Pass::kForward, dtype, 192, 128)},
      {"causal", with(forward, [=](P& p) { p.options.causal = Causal::kBottomRight; })},
      {"window", with(forward,
                      [=](P& p) {
                        p.options.window = {64, 0};
                      })},
      {"softcap", with(forward, [=](P& p) { p.options.softcap = 30; })},
      {"dropout", with(forward, [=](P& p) { p.options.dropout_p = 0.1; })},
      {"boolean mask", with(forward,
                            [=](P& p) {
                              p.mask = {DType::kBool, 4, {1, 1, 128, 128}};
                            })},
      {"bias with gradient", with(backward,
                                  [=](P& p) {
                                    p.bias = {dtype, 4, {1, 4, 128, 128}};
                                    p.has_dbias = true;
                                  })},
      {"ALiBi", with(forward,
                     [=](P& p) {
                       p.alibi_slopes = {DType::kFloat32, 1, {4}};
                     })},
      {"sink with gradient", with(backward,
                                  [=](P& p) {
                                    p.sink = {dtype, 1, {4}};
                                    p.has_dsink = true;
                                  })},
      {"packed sequences", with(forward,
                                [=](P& p) {
                                  p.q = p.k = p.v = {dtype, 3, {128, 4, 64}};
                                  p.cu_seqlens_q = p.cu_seqlens_k = {DType::kInt32, 1, {3}};
                                })},
      {"gradient of the LSE", with(backward, [=](P& p) { p.has_dlse = true; })},
      {"deterministic backward", with(backward, [=](P& p) { p.options.deterministic = true; })},
      {"batch-invariant", with(forward, [=](P& p) { p.options.batch_invariant = true; })},
  };
}

std::string answer(const AttentionProblem& problem, Device device, Notes& reasons) {
  const Support support = supports(problem, device);
  if (support) return paint("yes", Style::kGood);
  return fmt::format("{} {}", paint("no", Style::kBad), reasons.mark(support.reason));
}

/// What the library says that it would run, for one problem. "" if it would not.
std::string plan_text(const AttentionProblem& problem) {
  const Result<Plan> plan = Plan::make(problem);
  return plan.ok() ? plan->describe() : "";
}

/// The GPUs that the driver shows, by name.
std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (int i = 0;; ++i) {
    const auto runtime = gpu::cuda_runtime(i);
    if (!runtime.ok()) return names;
    const gpu::Properties& p = (*runtime)->properties();
    names.push_back(fmt::format("{}, compute capability {}.{}, {} multiprocessors", p.name, p.major,
                                p.minor, p.multiprocessors));
  }
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void print_heading(const std::string& text) { fmt::print("\n{}\n", paint(text, Style::kBold)); }

void print_cpu(const CpuInfo& cpu, const std::vector<std::string>& targets) {
  print_heading("CPU");
  fmt::print("  model     {}\n", cpu.model);
  fmt::print("  cores     {} online, {} usable by this process\n", cpu.logical, cpu.usable);
  for (const Cache& cache : cpu.caches) {
    std::string text = format_bytes(cache.bytes);
    if (cache.type == "Data") text += ", data";
    if (cache.type == "Instruction") text += ", instructions";
    if (cache.sharers > 1) text += fmt::format(", shared by {}", cache.sharers);
    fmt::print("  L{}        {}\n", cache.level, text);
  }
  fmt::print("  memory    {}\n", format_bytes(cpu.memory_bytes));
  fmt::print("  has       {}\n", join(cpu.flags, " "));
  fmt::print("  targets   {}\n", targets.empty() ? "none" : join(targets, " "));
  const char* forced = std::getenv("FA4_CPU_TARGET");
  if (forced != nullptr && *forced != '\0') {
    fmt::print("            FA4_CPU_TARGET={} is set\n", forced);
  } else if (!targets.empty()) {
    fmt::print("            {} is used; FA4_CPU_TARGET=NAME chooses another\n", targets.front());
  }
}

void print_support(Device device, std::initializer_list<DType> dtypes, const std::string& heading) {
  print_heading(heading);
  Notes reasons;
  Table table({{"", Align::kLeft}, {"forward", Align::kLeft}, {"backward", Align::kLeft}});
  const auto add = [&](const std::string& what, AttentionProblem forward,
                       const AttentionProblem& backward) {
    forward.pass = Pass::kForward;
    forward.has_dlse = forward.has_dbias = forward.has_dsink = false;
    table.add_row({what, answer(forward, device, reasons), answer(backward, device, reasons)});
  };
  const DType main = *dtypes.begin();
  for (const DType dtype : dtypes) {
    const AttentionProblem problem = problem_of(Pass::kBackward, dtype, 64, 64);
    add(fmt::format("{}, head dim 64", to_string(dtype)), problem, problem);
  }
  for (const int64_t d : {1, 256, 512}) {
    const AttentionProblem problem = problem_of(Pass::kBackward, main, d, d);
    add(fmt::format("{}, head dim {}", to_string(main), d), problem, problem);
  }
  for (const Question& question : feature_questions(main)) {
    AttentionProblem backward = question.problem;
    backward.pass = Pass::kBackward;
    add(question.what, question.problem, backward);
  }
  table.print();
  reasons.print();
}

void print_gpus() {
  print_heading("GPUs");
  const std::vector<std::string> names = gpu_names();
  const AttentionProblem plain = problem_of(Pass::kForward, DType::kBFloat16, 128, 128);
  for (size_t i = 0; i < names.size(); ++i) {
    const Device device = Device::cuda(static_cast<int>(i));
    fmt::print("  {}    {}\n", to_string(device), names[i]);
    const Support support = supports(plain, device);
    if (!support)
      fmt::print("            {}: {}\n", paint("not usable", Style::kBad), support.reason);
  }
  if (names.empty()) fmt::print("  none: {}\n", supports(plain, Device::cuda(0)).reason);
}

/// The emulated GPU that kernels exist for, and whether it can be used.
struct EmulatedGpu {
  Device device = Device::emulator("sm_90a");
  Support support = supports(problem_of(Pass::kForward, DType::kBFloat16, 128, 128), device);
};

void print_emulator() {
  print_heading("Emulator of GPUs");
  const auto [device, support] = EmulatedGpu();
  if (support) {
    fmt::print("  {}    the GPU's kernels on this CPU, slowly: fa4 attend --device {}\n",
               to_string(device), to_string(device));
  } else {
    fmt::print("  {}    {}: {}\n", to_string(device), paint("not usable", Style::kBad),
               support.reason);
  }
  fmt::print("  any PTX            fa4 emulate FILE\n");
}

/// One table for the CPU, and one for the first GPU that can be used.
void print_supports(size_t gpus) {
  print_support(Device::cpu(),
                {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64},
                "Supported on the CPU");
  for (size_t i = 0; i < gpus; ++i) {
    const Device device = Device::cuda(static_cast<int>(i));
    if (!supports(problem_of(Pass::kForward, DType::kBFloat16, 128, 128), device)) continue;
    print_support(device, {DType::kBFloat16, DType::kFloat16, DType::kFloat32},
                  fmt::format("Supported on {}", to_string(device)));
    return;
  }
}

void print_plans() {
  const std::string forward = plan_text(problem_of(Pass::kForward, DType::kFloat32, 64, 64));
  if (forward.empty()) return;
  print_heading("What runs for float32 [1, 128, 4, 64]");
  fmt::print("{}\n", forward);
}

nlohmann::json to_json(const CpuInfo& cpu, const std::vector<std::string>& targets) {
  nlohmann::json caches = nlohmann::json::array();
  for (const Cache& cache : cpu.caches) {
    caches.push_back({{"level", cache.level},
                      {"type", cache.type},
                      {"bytes", cache.bytes},
                      {"sharers", cache.sharers}});
  }
  nlohmann::json features;
  for (const Question& question : feature_questions(DType::kFloat32)) {
    const Support support = supports(question.problem, Device::cpu());
    features[question.what] = {{"supported", support.supported}, {"reason", support.reason}};
  }
  const EmulatedGpu emulated;
  return {{"version", version()},
          {"cpu",
           {{"model", cpu.model},
            {"online", cpu.logical},
            {"usable", cpu.usable},
            {"caches", caches},
            {"memory_bytes", cpu.memory_bytes},
            {"flags", cpu.flags},
            {"targets", targets}}},
          {"gpus", gpu_names()},
          {"emulator",
           {{"device", to_string(emulated.device)},
            {"supported", emulated.support.supported},
            {"reason", emulated.support.reason}}},
          {"features_on_cpu", features}};
}

}  // namespace

int info_command(int argc, char** argv) {
  CommandLine line("fa4 info", "Says what this machine has and what fa4 can do on it.");
  bool json = false;
  line.add("--json", json, "Print JSON");
  line.examples({"info", "info --json"});
  if (const auto code = line.parse(argc, argv)) return *code;

  const CpuInfo cpu = cpu_info();
  const std::vector<std::string> targets = library_targets();
  if (json) {
    fmt::print("{}\n", to_json(cpu, targets).dump(2));
    return kExitOk;
  }
  fmt::print("{}\n", paint(fmt::format("fa4 {}", version()), Style::kTitle));
  print_cpu(cpu, targets);
  print_gpus();
  print_emulator();
  print_supports(gpu_names().size());
  print_plans();
  return kExitOk;
}

}  // namespace fa4::cli
