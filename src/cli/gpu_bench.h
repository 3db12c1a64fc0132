// SPDX-License-Identifier: BSD-3-Clause
// fa4 bench --gpu: ours and the peers that the machine has, in turns under sustained load.
#pragma once

#include <fa4/plan.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/device_memory.h"
#include "cli/script_process.h"
#include "gpu/runtime.h"

namespace fa4::cli {

extern const char* const kTorchGpuPeerScript;

/// A problem of the grid: 32,768 tokens, standard normal inputs.
struct GpuCell {
  DType dtype = DType::kBFloat16;
  int64_t batch = 1, seqlen = 1, heads_q = 1, heads_k = 1, dim_qk = 64, dim_v = 64;
  bool causal = false;
  std::string variant;  ///< Changes to our kernel, as gpu::sm90::vary() takes them; empty: none.

  /// "d64/causal/s512", "d128/g4/full/s8192", "d192x128/full/s1024": what --filter sees. A variant
  /// follows.
  std::string name() const;
  /// 2 b h s^2 (d_qk + d_v), halved when causal.
  double flops() const;
  /// The ratio to cuDNN that the project aims at.
  double goal() const;
};
std::vector<GpuCell> gpu_grid(const std::string& filter);

inline constexpr const char* kOurs = "fa4";
inline constexpr const char* kYardstick = "cudnn";
inline constexpr const char* kGemm = "gemm";
inline constexpr double kGemmFlops = 2.0 * 8192 * 8192 * 8192;

/// One provider's turns at a cell.
struct GpuTurns {
  std::vector<double> seconds;  ///< Of one call, turn by turn.
  double megahertz = 0;         ///< Of the last turn, near its end; 0: not known.
  double watts = 0;

  double median() const;
};

struct GpuMeasured {
  GpuCell cell;
  std::map<std::string, GpuTurns> turns;
  std::map<std::string, std::string> problems;  ///< Why a provider has no turns.

  double tflops(const std::string& provider) const;
  /// The yardstick's time over the provider's, turn by turn; the median.
  std::optional<double> ratio(const std::string& provider) const;
  /// The best peer's ratio; the product is none.
  std::optional<double> best_peer() const;
  /// Whether ours reaches the goal, or 0.97 of the product where that is less.
  bool reached() const;
};

/// What calls cost the host, and kernels at their first call.
struct HostCost {
  struct Call {
    std::string what;
    double run_us = 0;        ///< plan.run()
    double attention_us = 0;  ///< attention() of a shape that it has seen
  };
  std::vector<Call> calls;
  std::vector<double> load_ms;  ///< From the store on disk to a loaded kernel, kernel by kernel.
};

struct GpuBenchResult {
  std::string device;
  nlohmann::json peers;      ///< The peer process's first line; null if there is none.
  std::string peer_problem;  ///< Why.
  double seconds = 0.3;
  int rounds = 3;
  std::optional<HostCost> host;
  std::vector<GpuMeasured> cells;
  size_t wanted = 0;         ///< Cells that were asked for.
  bool interrupted = false;  ///< Before all of them were measured.

  /// Ours, then the peers, in the order of the tables.
  std::vector<std::string> providers() const;
};

/// How cells are measured.
struct GpuEffort {
  double seconds = 0.3;  ///< Of one turn.
  int rounds = 3;
  std::vector<std::string> peers;  ///< Of those that are there.
};

/// Compiles every cell's kernel, ours and the peers', before anything is timed.
void warm_up(const gpu::Runtime& runtime, const std::vector<GpuCell>& cells,
             const GpuEffort& effort, ScriptProcess* peers);
/// Cells that are one but for their variant: all of them and the peers take turns, round by round,
/// after a round that does not count. `peers` may be null. An Interruption ends it sooner: then the
/// cells are not finished.
std::vector<GpuMeasured> measure(const gpu::Runtime& runtime, std::span<const GpuCell> cells,
                                 const GpuEffort& effort, ScriptProcess* peers);
HostCost measure_host_cost(const gpu::Runtime& runtime);

void print_gpu_report(const GpuBenchResult& result);
nlohmann::json to_json(const GpuBenchResult& result);

/// The command; bench_command() hands over to it at --gpu.
int gpu_bench_command(int argc, char** argv);

}  // namespace fa4::cli
