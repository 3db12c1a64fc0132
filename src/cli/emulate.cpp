// SPDX-License-Identifier: BSD-3-Clause
// fa4 emulate: runs a kernel from a file of PTX on the CPU.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/emulate_arguments.h"
#include "cli/emulate_counters.h"
#include "cli/terminal.h"
#include "emulator/emulator.h"

namespace fa4::cli {
namespace {

struct EmulateRequest {
  std::string file, entry, target;
  std::vector<int64_t> grid{1}, block{1}, cluster;
  int64_t shared = 0;
  std::vector<std::string> arguments;
  emulator::RunOptions run;
  std::string timing = "random", schedule = "random", checks = "errors", forgive;
  std::string late_loads = "on", late_stores = "on", sums = "quick";
  int workers = 1, resident = 2, runs = 1;
  double max_instructions = 1e12, tiles = 1;
  bool list = false, json = false;
};

void add_launch_flags(CommandLine& line, EmulateRequest& r) {
  const char* group = "Launch";
  line.add("--entry", r.entry, "The kernel (default: the only one)").group(group);
  line.add("--grid", r.grid, "Blocks: x or x,y or x,y,z (default: 1)").commas().group(group);
  line.add("--block", r.block, "Threads of a block: x or x,y or x,y,z (default: 1)")
      .commas()
      .group(group);
  line.add("--cluster", r.cluster, "Blocks of a cluster (default: as the kernel says, or 1)")
      .commas()
      .group(group);
  line.add("--shared", r.shared, "Bytes of dynamic shared memory (default: 0)")
      .range(0, 233472)
      .group(group);
  line.add("--args", r.arguments,
           "The kernel's arguments, in order:\n"
           "TYPE:VALUE              a number: u8 to u64, s8 to s64, f16, bf16, f32, f64\n"
           "in:FILE.npy             an array that is read (in:FILE.npy:bf16: of bfloat16)\n"
           "io:FILE.npy:FILE.npy    one that is read, written, and goes to the second file\n"
           "out:FILE.npy:TYPE:DIMS  a new one that goes to the file, such as out:o.npy:f32:4,8\n"
           "zeros:TYPE:DIMS         a new one of zeros\n"
           "map:N:BOX[:SWIZZLE]     a tensor map of argument N, such as map:0:64,8:128\n"
           "bytes:FILE              a struct")
      .type("ARG")
      .group(group);
}

/// Says what is wrong with a value of one of RunOptions' words.
std::function<std::string(const std::string&)> checker_of(std::string_view option) {
  return [option](const std::string& text) {
    emulator::RunOptions ignored;
    if (set_option(ignored, option, text)) return std::string();
    return fmt::format("is {}; allowed: {}", text, emulator::words_of(option));
  };
}

/// A flag for one of RunOptions' words.
struct WordFlag {
  const char* option;  ///< As set_option() knows it.
  const char* flag;
  std::string EmulateRequest::*value;
  const char* help;
  const char* type = nullptr;  ///< The word for its value, if it is not the usual one.
};
constexpr WordFlag kWordFlags[] = {
    {"timing", "--timing", &EmulateRequest::timing,
     "When asynchronous operations complete: earliest, random\nor latest (default: random)"},
    {"schedule", "--schedule", &EmulateRequest::schedule,
     "In what order warps run: random or priority (default: random)"},
    {"checks", "--checks", &EmulateRequest::checks,
     "What is looked for beside results (races, undefined\nvalues, missing fences and waits): off, "
     "errors or\nwarnings (default: errors)"},
    {"forgive", "--forgive", &EmulateRequest::forgive,
     "Rules, with + between, that end no run when they are broken;\ndocs/emulator.md lists them",
     "RULES"},
    {"late_loads", "--late-loads", &EmulateRequest::late_loads,
     "on or off: whether tcgen05.ld reads as late as the timing\nsays, or at once (default: on)"},
    {"late_stores", "--late-stores", &EmulateRequest::late_stores,
     "The same of tcgen05.st (default: on)"},
    {"sums", "--sums", &EmulateRequest::sums,
     "How mma.sync and wgmma add: quick, or hopper, as an H200\ndoes (default: quick)"},
};

void add_run_flags(CommandLine& line, EmulateRequest& r) {
  const char* group = "Running";
  line.add("--target", r.target, "Refuse PTX that is for another target, such as sm_90a")
      .group(group);
  line.add("--seed", r.run.seed, "What the order of things is drawn from (default: 0)")
      .group(group);
  line.add("--runs", r.runs, "Runs, each with the next seed; they must agree (default: 1)")
      .range(1, 1000000)
      .group(group);
  for (const WordFlag& f : kWordFlags) {
    const Flag flag = line.add(f.flag, r.*f.value, f.help).check(checker_of(f.option)).group(group);
    if (f.type != nullptr) flag.type(f.type);
  }
  line.add("--workers", r.workers, "Host threads; only one replays a seed (default: 1)")
      .range(1, 1024)
      .group(group);
  line.add("--resident", r.resident, "Clusters at a time, of each worker (default: 2)")
      .range(1, 1024)
      .group(group);
  line.add("--max-instructions", r.max_instructions, "Warp-instructions, then it is an error")
      .range(1, 1e15)
      .group(group);
  line.add("--counters", r.run.counters,
           "Count what each role of the warps does: instructions by class, bytes of shared and\n"
           "tensor memory, products, waits. Roles are functions of the source, if the PTX has\n"
           "line information (-lineinfo). Without checks")
      .group(group);
  line.add("--tiles", r.tiles, "Divide what is counted by this number of tiles (default: 1)")
      .range(1, 1e15)
      .group(group);
  line.add("--list", r.list, "List the kernels in the file and stop").group(group);
  line.add("--json", r.json, "Print JSON").group(group);
}

std::array<uint32_t, 3> triple(const char* flag, const std::vector<int64_t>& values,
                               uint32_t missing) {
  constexpr int64_t kMost = 0x7fffffff;
  std::array<uint32_t, 3> out = {missing, missing, missing};
  if (values.size() > 3) {
    throw UsageError(fmt::format("{}: has {} numbers; allowed: 1 to 3", flag, values.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 1 || values[i] > kMost) {
      throw UsageError(fmt::format("{}: has {}; allowed: 1 to {}", flag, values[i], kMost));
    }
    out[i] = static_cast<uint32_t>(values[i]);
  }
  if (!values.empty()) std::replace(out.begin(), out.end(), 0u, 1u);
  return out;
}

void resolve(EmulateRequest& r) {
  for (const WordFlag& f : kWordFlags) set_option(r.run, f.option, r.*f.value);
  r.run.workers = static_cast<uint32_t>(r.workers);
  r.run.resident_clusters = static_cast<uint32_t>(r.resident);
  r.run.print = [to = r.json ? stderr : stdout](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), to);
  };
  r.run.max_instructions = static_cast<uint64_t>(r.max_instructions);
}

std::shared_ptr<const emulator::Program> load(const EmulateRequest& r) {
  std::ifstream file(r.file, std::ios::binary);
  if (!file || std::filesystem::is_directory(r.file))
    throw std::runtime_error(r.file + ": cannot be read");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto program = emulator::load(std::move(text));
  if (!program.ok()) throw std::runtime_error(r.file + ": " + program.status().message());
  return *std::move(program);
}

std::string names(const emulator::Program& program) {
  std::string list;
  for (const auto& kernel : program.kernels) list += (list.empty() ? "" : ", ") + kernel->name;
  return list.empty() ? "no kernel" : list;
}

std::shared_ptr<const emulator::Kernel> choose(const EmulateRequest& r,
                                               const emulator::Program& program) {
  std::shared_ptr<const emulator::Kernel> kernel;
  if (!r.entry.empty()) {
    kernel = program.find(r.entry);
  } else if (program.kernels.size() == 1) {
    kernel = program.kernels.front();
  }
  if (kernel == nullptr) {
    throw UsageError(fmt::format("--entry: is {}; {} has {}",
                                 r.entry.empty() ? "not given" : r.entry, r.file, names(program)));
  }
  if (!r.target.empty() && kernel->target != r.target) {
    throw std::runtime_error(fmt::format("{}: .target is {}; allowed by --target: {}", r.file,
                                         kernel->target, r.target));
  }
  return kernel;
}

void print_kernels(const emulator::Program& program) {
  Table table({{"kernel", Align::kLeft},
               {"target", Align::kLeft},
               {"instructions"},
               {"parameter bytes"},
               {"shared bytes"}});
  for (const auto& kernel : program.kernels) {
    table.add_row({kernel->name, kernel->target, fmt::format("{}", kernel->code.size()),
                   fmt::format("{}", kernel->param_bytes),
                   fmt::format("{}", kernel->static_shared_end - emulator::kSharedStart)});
  }
  table.print();
}

/// What the runs did, all of them together.
struct Ran {
  emulator::Tally tally;
  double seconds = 0;
  std::vector<std::string> written;
};

Ran run_all(const EmulateRequest& r, const std::shared_ptr<const emulator::Kernel>& kernel) {
  emulator::LaunchConfig launch;
  launch.blocks = triple("--grid", r.grid, 1);
  launch.threads = triple("--block", r.block, 1);
  launch.cluster = triple("--cluster", r.cluster, 0);
  launch.dynamic_shared = static_cast<uint32_t>(r.shared);
  Ran ran;
  std::string first;
  for (int i = 0; i < r.runs; ++i) {
    const EmulateArguments arguments(r.arguments);
    emulator::RunOptions options = r.run;
    options.seed += static_cast<uint64_t>(i);
    const auto start = std::chrono::steady_clock::now();
    const auto tally =
        emulator::run(kernel, launch, arguments.parameters(), arguments.memory(), options);
    ran.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tally.status().check();
    ran.tally.add(*tally);
    if (i == 0) {
      first = arguments.results();
      ran.written = arguments.write();
    } else if (arguments.results() != first) {
      throw std::runtime_error(
          fmt::format("seed {} gives other results than seed {}: they depend on the order in which "
                      "things happen",
                      options.seed, r.run.seed));
    }
  }
  return ran;
}

void print_classes(const emulator::Tally& tally) {
  Table table({{"instructions of warps", Align::kLeft}, {"number"}, {"share"}});
  const auto total = static_cast<double>(std::max<uint64_t>(tally.instructions, 1));
  for (int i = 0; i < emulator::kClasses; ++i) {
    const uint64_t n = tally.classes[static_cast<size_t>(i)];
    if (n == 0) continue;
    table.add_row({name_of(static_cast<emulator::Class>(i)), fmt::format("{}", n),
                   fmt::format("{:.1f}%", 100 * static_cast<double>(n) / total)});
  }
  table.add_rule();
  table.add_row({"all", fmt::format("{}", tally.instructions), ""});
  table.print();
  fmt::print("\n");
}

void print_ran(const EmulateRequest& r, const Ran& ran) {
  if (r.run.counters) {
    print_counters(ran.tally.roles, r.tiles);
    fmt::print("\n");
  } else {
    print_classes(ran.tally);
  }
  if (ran.tally.matrix_flops > 0) {
    fmt::print("  {:.6g} floating-point operations in matrix products\n",
               static_cast<double>(ran.tally.matrix_flops));
  }
  if (ran.tally.copied_bytes > 0) {
    fmt::print("  {} bytes by bulk and tensor copies\n", ran.tally.copied_bytes);
  }
  fmt::print("  {:.3f} s, {:.2f} million warp-instructions a second\n", ran.seconds,
             static_cast<double>(ran.tally.instructions) / ran.seconds / 1e6);
  if (r.runs > 1) {
    fmt::print("  {} runs, seeds {} to {}, equal results\n", r.runs, r.run.seed,
               r.run.seed + static_cast<uint64_t>(r.runs) - 1);
  }
  for (const std::string& line : ran.written) fmt::print("  {}\n", line);
  for (const emulator::Report& report : ran.tally.warnings) {
    fmt::print("  {} ({} times): {}\n", paint("warning", Style::kWarn), report.count, report.text);
  }
}

void print_json(const EmulateRequest& r, const emulator::Kernel& kernel, const Ran& ran) {
  nlohmann::json classes;
  for (int i = 0; i < emulator::kClasses; ++i) {
    classes[name_of(static_cast<emulator::Class>(i))] = ran.tally.classes[static_cast<size_t>(i)];
  }
  nlohmann::json warnings = nlohmann::json::array();
  for (const emulator::Report& report : ran.tally.warnings) {
    warnings.push_back({{"text", report.text}, {"count", report.count}});
  }
  nlohmann::json json = {{"kernel", kernel.name},
                         {"target", kernel.target},
                         {"seed", r.run.seed},
                         {"runs", r.runs},
                         {"warnings", warnings},
                         {"seconds", ran.seconds},
                         {"instructions", ran.tally.instructions},
                         {"classes", classes},
                         {"matrix_flops", ran.tally.matrix_flops},
                         {"copied_bytes", ran.tally.copied_bytes}};
  if (r.run.counters) json["roles"] = counters_json(ran.tally.roles, r.tiles);
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

int emulate_command(int argc, char** argv) {
  CommandLine line(
      "fa4 emulate",
      "Runs a kernel from a file of PTX on the CPU, instruction by instruction, in an order\n"
      "drawn from a seed. Reports deadlocks, accesses outside of memory and misused\n"
      "barriers with the line of the PTX. No GPU is needed.");
  EmulateRequest request;
  line.add("ptx", request.file,
           "PTX as text, from nvcc -ptx, fa4 compile --ptx or another compiler")
      .type("FILE")
      .required();
  add_launch_flags(line, request);
  add_run_flags(line, request);
  line.examples(
      {"emulate kernel.ptx --list",
       "emulate add.ptx --grid 4 --block 256 --args in:a.npy in:b.npy out:c.npy:f32:1024 u32:1024",
       "emulate tile.ptx --block 128 --args in:x.npy map:0:64,8:128 out:y.npy:f32:8,64",
       "emulate kernel.ptx --entry main --runs 20 --timing latest --schedule priority"});
  if (const auto code = line.parse(argc, argv)) return *code;
  if (request.run.counters && !line.given("--checks")) request.checks = "off";
  resolve(request);
  if (request.run.counters && request.run.checks != emulator::Checks::kOff) {
    throw UsageError("--counters: stands with --checks " + request.checks + "; allowed: off");
  }
  const auto program = load(request);
  if (request.list) {
    print_kernels(*program);
    return kExitOk;
  }
  const auto kernel = choose(request, *program);
  const Ran ran = run_all(request, kernel);
  if (request.json) {
    print_json(request, *kernel, ran);
  } else {
    print_ran(request, ran);
  }
  return kExitOk;
}

}  // namespace fa4::cli
