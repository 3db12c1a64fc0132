// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/emulator.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/counters/counter.h"
#include "emulator/decode/decoder.h"
#include "emulator/judge/judge.h"
#include "emulator/ptx/lexer.h"

namespace fa4::emulator {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxClusterCtas = 16;
constexpr uint32_t kMaxShared = 228 * 1024;
constexpr uint64_t kMaxResidentBytes = uint64_t{4} << 30;

/// Memory of the clusters that are resident at a time.
uint64_t resident_bytes(const Kernel& kernel, const Grid& grid) {
  const uint64_t warp = kernel.register_bytes + uint64_t{kernel.local_bytes} * kLanes;
  const uint64_t cta = grid.shared_bytes() + grid.block_warps() * warp;
  const uint64_t at_a_time =
      uint64_t{grid.options.workers} * std::max(1u, grid.options.resident_clusters);
  return std::min(at_a_time, grid.clusters) * grid.cluster_ctas() * cta;
}

/// A dimension of the grid or of a block: what is wrong with it; empty if nothing is.
std::string wrong_extent(const char* what, size_t dimension, uint32_t extent, uint32_t most) {
  if (extent > 0 && extent <= most) return {};
  return std::string(what) + " in dimension " + std::to_string(dimension) + " are " +
         std::to_string(extent) + "; allowed: 1 to " + std::to_string(most);
}

/// "8, 8, 4".
std::string sizes_of(const std::vector<Kernel::Param>& params) {
  std::string text;
  for (const Kernel::Param& p : params)
    text += (text.empty() ? "" : ", ") + std::to_string(p.bytes);
  return text;
}

std::string sizes_of(const std::array<uint32_t, 3>& x) {
  return std::to_string(x[0]) + ", " + std::to_string(x[1]) + ", " + std::to_string(x[2]);
}

/// What the kernel itself requires (.reqntid, .reqnctapercluster).
std::string wrong_requirement(const Kernel& kernel, const Grid& grid) {
  if (kernel.need_threads[0] != 0 && grid.threads != kernel.need_threads) {
    return "threads are " + sizes_of(grid.threads) + "; allowed: " + sizes_of(kernel.need_threads) +
           ", which the kernel requires";
  }
  if (kernel.cluster[0] != 0 && grid.cluster != kernel.cluster) {
    return "the cluster is " + sizes_of(grid.cluster) + "; allowed: " + sizes_of(kernel.cluster) +
           ", which the kernel requires";
  }
  return {};
}

Status check_launch(const Kernel& kernel, const Grid& grid, size_t param_bytes) {
  constexpr std::array<uint32_t, 3> kMostBlocks = {0x7fffffff, 65535, 65535};
  constexpr std::array<uint32_t, 3> kMostThreads = {kMaxThreads, kMaxThreads, 64};
  const auto wrong = [&](const std::string& what) {
    return invalid_argument("launch of " + kernel.name + ": " + what);
  };
  uint64_t threads = 1, ctas = 1, blocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    for (const std::string& text : {wrong_extent("blocks", i, grid.blocks[i], kMostBlocks[i]),
                                    wrong_extent("threads", i, grid.threads[i], kMostThreads[i])}) {
      if (!text.empty()) return wrong(text);
    }
    threads *= std::min(grid.threads[i], kMaxThreads + 1);
    ctas *= std::min(grid.cluster[i], kMaxClusterCtas + 1);
    blocks = std::min(blocks * grid.blocks[i], uint64_t{1} << 62);
    if (grid.blocks[i] % grid.cluster[i] != 0) {
      return wrong("grid dimension " + std::to_string(i) + " is " + std::to_string(grid.blocks[i]) +
                   "; allowed: a multiple of the cluster's " + std::to_string(grid.cluster[i]));
    }
  }
  if (const std::string text = wrong_requirement(kernel, grid); !text.empty()) return wrong(text);
  const uint32_t most = kernel.max_threads != 0 ? kernel.max_threads : kMaxThreads;
  if (threads > most) {
    return wrong(std::to_string(threads) + " threads; allowed: " + std::to_string(most));
  }
  if (ctas > kMaxClusterCtas) {
    return wrong(std::to_string(ctas) +
                 " CTAs in a cluster; allowed: " + std::to_string(kMaxClusterCtas));
  }
  if (grid.dynamic_shared > kMaxShared || grid.shared_bytes() > kMaxShared) {
    return wrong(std::to_string(grid.dynamic_shared) + " bytes of dynamic shared memory and " +
                 std::to_string(kernel.static_shared_end - kSharedStart) +
                 " static ones; allowed: " + std::to_string(kMaxShared - kSharedStart) +
                 " together");
  }
  if (param_bytes != kernel.param_bytes) {
    return wrong("parameters are " + std::to_string(param_bytes) +
                 " bytes; allowed: " + std::to_string(kernel.param_bytes) +
                 (kernel.params.empty() ? "" : " (" + sizes_of(kernel.params) + ")"));
  }
  return {};
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Runs the workers; the first fault of any.
std::string run_workers(Grid& grid, Tally& tally) {
  std::mutex mutex;
  std::string fault;
  const auto work = [&](uint32_t number) {
    const double start = thread_seconds();
    std::string message;
    Tally mine;
    try {
      std::unique_ptr<judge::Judge> judge;
      std::unique_ptr<Counter> counter;
      const Checks checks = grid.options.checks;
      if (checks != Checks::kOff) {
        judge = std::make_unique<judge::Judge>(grid, checks == Checks::kWarnings);
      } else if (grid.options.counters) {
        counter = std::make_unique<Counter>(grid);
      }
      Monitor* monitor = judge != nullptr ? static_cast<Monitor*>(judge.get()) : counter.get();
      Worker worker(grid, grid.options.seed * 0x9e3779b97f4a7c15u + number, monitor);
      worker.run();
      mine = worker.tally();
      if (judge != nullptr) mine.warnings = judge->warnings();
      if (counter != nullptr) mine.roles = counter->roles();
    } catch (const std::exception& e) {
      grid.stop = true;
      message = e.what();
    }
    mine.cpu_seconds = thread_seconds() - start;
    const std::lock_guard lock(mutex);
    if (fault.empty()) fault = message;
    tally.add(mine);
  };
  std::vector<std::thread> threads;
  const auto wanted =
      static_cast<uint32_t>(std::min<uint64_t>(grid.options.workers, grid.clusters));
  grid.vote.start(wanted);
  try {
    for (uint32_t i = 1; i < wanted; ++i) threads.emplace_back(work, i);
  } catch (const std::system_error&) {
    // Fewer threads than asked for do the same work.
    for (size_t i = threads.size() + 1; i < wanted; ++i) grid.vote.leave();
  }
  work(0);
  for (std::thread& t : threads) t.join();
  return fault;
}

Result<Tally> launch(const std::shared_ptr<const Kernel>& kernel, const LaunchConfig& config,
                     std::span<const std::byte> params, const MemoryMap& memory,
                     const RunOptions& options) {
  Grid grid;
  grid.kernel = kernel;
  grid.blocks = config.blocks;
  grid.threads = config.threads;
  for (size_t i = 0; i < 3; ++i) {
    grid.cluster[i] = std::max(1u, config.cluster[i] != 0 ? config.cluster[i] : kernel->cluster[i]);
  }
  grid.dynamic_shared = config.dynamic_shared;
  if (options.counters && options.checks != Checks::kOff) {
    return invalid_argument("launch of " + kernel->name +
                            ": counters and checks; allowed: one of them");
  }
  const Status status = check_launch(*kernel, grid, params.size());
  if (!status.ok()) return status;
  grid.params.assign(params.begin(), params.end());
  grid.memory = memory;
  for (const ModuleData::Variable& v : kernel->data->variables) {
    grid.memory.add(v.data, v.bytes, !v.constant);
  }
  grid.memory.sort();
  grid.options = options;
  for (size_t i = 0; i < 3; ++i) grid.clusters *= grid.blocks[i] / grid.cluster[i];
  if (const uint64_t bytes = resident_bytes(*kernel, grid); bytes > kMaxResidentBytes) {
    return Status(StatusCode::kOutOfMemory,
                  "launch of " + kernel->name +
                      ": registers, local and shared memory of the clusters "
                      "that run at a time are " +
                      std::to_string(bytes) + " bytes; allowed: " +
                      std::to_string(kMaxResidentBytes) + " (fewer resident clusters need less)");
  }

  Tally tally;
  const std::string fault = run_workers(grid, tally);
  if (fault.empty()) return tally;
  return Status(StatusCode::kRuntimeError, "emulator: " + kernel->name + ", seed " +
                                               std::to_string(options.seed) + ": " + fault);
}

}  // namespace

Result<std::shared_ptr<const Program>> load(std::string ptx) {
  try {
    return decode::decode(std::make_shared<const std::string>(std::move(ptx)));
  } catch (const ptx::SourceError& e) {
    return invalid_argument(std::string("PTX ") + e.what());
  } catch (const std::exception& e) {
    return Status(StatusCode::kOutOfMemory,
                  std::string("PTX: not enough memory to decode it: ") + e.what());
  }
}

Result<Tally> run(const std::shared_ptr<const Kernel>& kernel, const LaunchConfig& config,
                  std::span<const std::byte> params, const MemoryMap& memory,
                  const RunOptions& options) {
  try {
    return launch(kernel, config, params, memory, options);
  } catch (const std::exception& e) {
    return Status(StatusCode::kOutOfMemory,
                  "launch of " + kernel->name + ": not enough memory: " + e.what());
  }
}

}  // namespace fa4::emulator
