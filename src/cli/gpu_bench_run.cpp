// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "cli/gpu_bench.h"
#include "cli/interruption.h"
#include "cli/nvml.h"
#include "gpu/jit/kernels.h"
#include "gpu/variant.h"

namespace fa4::cli {
namespace {

// Counter-based: the same seed gives the same numbers, whatever the launch. The uniforms come from
// Steele and Vigna's mixing function (splitmix64), the normals from Box and Muller.
constexpr char kFillSource[] = R"(
struct Params { void* data; unsigned long long count, seed; int half; };
__device__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15; x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb; return x ^ (x >> 31);
}
extern "C" __global__ void fill_normal(const __grid_constant__ Params p) {
  const unsigned long long step = 1ull * gridDim.x * blockDim.x;
  for (unsigned long long i = 1ull * blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    const unsigned long long bits = mix(p.seed ^ mix(i));
    const float u = ((bits >> 40) + 1) * 0x1p-24f, angle = (bits & 0xffffff) * (6.2831853f * 0x1p-24f);
    const float x = sqrtf(-2.0f * __logf(u)) * __cosf(angle);
    unsigned short out;
    if (p.half) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
    else asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(x));
    static_cast<unsigned short*>(p.data)[i] = out;
  }
}
)";

struct FillParams {
  void* data;
  uint64_t count, seed;
  int half;
};

void fill_normal(const gpu::Runtime& runtime, void* data, int64_t count, DType dtype,
                 uint64_t seed) {
  const auto& p = runtime.properties();
  const gpu::jit::Program program{kFillSource, fmt::format("sm_{}{}", p.major, p.minor), {}};
  const auto kernel = gpu::jit::load_kernel(runtime, program, "fill_normal", 0).value();
  const FillParams params{data, static_cast<uint64_t>(count), seed, dtype == DType::kFloat16};
  gpu::Launch launch;
  launch.blocks = static_cast<unsigned>(8 * p.multiprocessors);
  launch.threads = 256;
  runtime.launch(*kernel, launch, std::as_bytes(std::span(&params, 1)), {}).check();
}

AttentionTensors shapes_of(const GpuCell& c) {
  const Device device = Device::cuda(0);
  AttentionTensors t;
  t.q = Tensor::contiguous(nullptr, c.dtype, {c.batch, c.seqlen, c.heads_q, c.dim_qk}, device);
  t.k = Tensor::contiguous(nullptr, c.dtype, {c.batch, c.seqlen, c.heads_k, c.dim_qk}, device);
  t.v = Tensor::contiguous(nullptr, c.dtype, {c.batch, c.seqlen, c.heads_k, c.dim_v}, device);
  t.out = Tensor::contiguous(nullptr, c.dtype, {c.batch, c.seqlen, c.heads_q, c.dim_v}, device);
  t.lse = Tensor::contiguous(nullptr, DType::kFloat32, {c.batch, c.heads_q, c.seqlen}, device);
  return t;
}

AttentionOptions options_of(const GpuCell& cell) {
  AttentionOptions options;
  if (cell.causal) options.causal = Causal::kBottomRight;
  return options;
}

/// Something of ours to time: the plan that a user gets, or a variant of its kernel.
struct Candidate {
  size_t workspace_bytes = 0;
  std::function<Status(const AttentionTensors&, Workspace)> run;
};

Result<Candidate> candidate_of(const gpu::Runtime& runtime, const GpuCell& cell) {
  const auto spec = AttentionProblem::forward(shapes_of(cell), options_of(cell));
  if (!cell.variant.empty()) {
    auto made = gpu::Variant::make(runtime, spec, cell.variant);
    if (!made.ok()) return made.status();
    const auto variant = std::make_shared<gpu::Variant>(*std::move(made));
    return Candidate{variant->workspace_bytes(), [variant](const AttentionTensors& t, Workspace w) {
                       return variant->run(t, w.data, {});
                     }};
  }
  auto made = Plan::make(spec, Device::cuda(0));
  if (!made.ok()) return made.status();
  const auto plan = std::make_shared<Plan>(*std::move(made));
  return Candidate{plan->workspace_bytes(),
                   [plan](const AttentionTensors& t, Workspace w) { return plan->run(t, w); }};
}

int64_t elements_of(const Tensor& t) {
  int64_t count = 1;
  for (int i = 0; i < t.rank; ++i) count *= t.dims[static_cast<size_t>(i)];
  return count;
}

/// Ours, ready to run.
class Ours {
 public:
  Ours(const gpu::Runtime& runtime, const GpuCell& cell, Candidate candidate)
      : runtime_(runtime),
        tensors_(shapes_of(cell)),
        candidate_(std::move(candidate)),
        begin_(runtime.make_event().value()),
        end_(runtime.make_event().value()) {
    uint64_t seed = std::hash<std::string>()(cell.name());
    for (Tensor* t : {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.out, &tensors_.lse}) {
      const int64_t count = elements_of(*t);
      buffers_.push_back(
          std::make_unique<DeviceBuffer>(runtime, static_cast<size_t>(count * size_of(t->dtype))));
      t->data = buffers_.back()->data();
      if (t->dtype != DType::kFloat32) fill_normal(runtime, t->data, count, t->dtype, ++seed);
    }
    workspace_.bytes = candidate_.workspace_bytes;
    buffers_.push_back(
        std::make_unique<DeviceBuffer>(runtime, std::max<size_t>(256, workspace_.bytes)));
    workspace_.data = buffers_.back()->data();
    (void)time(1, false);
    once_ = time(5, false);
  }
  ~Ours() {
    (void)runtime_.release(begin_);
    (void)runtime_.release(end_);
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  /// Seconds of one call, after as long a run that does not count.
  double turn(double seconds) {
    once_ = time(std::max(3, static_cast<int>(std::lround(seconds / once_))), true);
    return once_;
  }
  const Nvml::Sample& sample() const { return sample_; }

 private:
  /// Seconds of one of `runs` calls. Under load as many run before, and clock and power are looked
  /// at near the end.
  double time(int runs, bool load) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; load && i < runs; ++i) candidate_.run(tensors_, workspace_).check();
    runtime_.record(begin_, {}).check();
    for (int i = 0; i < runs; ++i) candidate_.run(tensors_, workspace_).check();
    runtime_.record(end_, {}).check();
    if (load) {
      const double expected = 1.85 * runs * once_;
      std::this_thread::sleep_until(start + std::chrono::duration<double>(expected));
      sample_ = Nvml::instance().sample(0);
    }
    return runtime_.seconds_between(begin_, end_).value() / runs;
  }

  const gpu::Runtime& runtime_;
  AttentionTensors tensors_;
  Candidate candidate_;
  gpu::Event begin_, end_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  Workspace workspace_;
  double once_ = 1;
  Nvml::Sample sample_;
};

nlohmann::json request_for(const GpuCell& cell, const std::vector<std::string>& peers) {
  return {{"op", "cell"},
          {"batch", cell.batch},
          {"seqlen", cell.seqlen},
          {"heads_q", cell.heads_q},
          {"heads_k", cell.heads_k},
          {"dim_qk", cell.dim_qk},
          {"dim_v", cell.dim_v},
          {"causal", cell.causal},
          {"dtype", to_string(cell.dtype)},
          {"providers", peers}};
}

/// What takes turns at a cell: our kernel, its variants, the peers.
class Field {
 public:
  Field(const gpu::Runtime& runtime, std::span<const GpuCell> cells, const GpuEffort& effort,
        ScriptProcess* peers)
      : effort_(effort), peers_(peers) {
    for (const GpuCell& cell : cells)
      measured_.push_back({.cell = cell, .turns = {}, .problems = {}});
    start_ours(runtime);
    if (peers != nullptr && !effort.peers.empty()) start_peers();
  }

  /// One turn of everyone. The card's power limiter looks back for a while: a candidate runs up to
  /// a tenth faster after one that needs less power. So a turn is half lead-in, and the order is
  /// another one each round, forwards and backwards.
  void round(int number, bool record) {
    const int count = static_cast<int>(takers_.size());
    for (int i = 0; i < count && !Interruption::came(); ++i) {
      const int place = (number / 2 + i) % count;
      Taker& taker = takers_[static_cast<size_t>(number % 2 == 0 ? place : count - 1 - place)];
      const auto turn = taker.failed ? std::nullopt : taker.turn(effort_.seconds);
      if (!turn) taker.failed = true;
      if (turn && record) add(taker, *turn);
    }
  }

  std::vector<GpuMeasured> finish() {
    for (const Taker& taker : takers_) {
      if (!taker.failed) continue;
      for (GpuMeasured& m : measured_) {
        m.turns.erase(taker.name);
        m.problems[taker.name] = peers_->problem();
      }
    }
    if (peers_ != nullptr) (void)peers_->ask({{"op", "free"}});
    return std::move(measured_);
  }

 private:
  struct Turn {
    double seconds;
    Nvml::Sample sample;
  };
  struct Taker {
    std::string name;
    GpuMeasured*
        only;  ///< Whose turns these are; null: everyone's, since variants share the peers.
    std::function<std::optional<Turn>(double seconds)> turn;
    bool failed = false;
  };

  void start_ours(const gpu::Runtime& runtime) {
    for (GpuMeasured& m : measured_) {
      auto candidate = candidate_of(runtime, m.cell);
      if (!candidate.ok()) {
        m.problems[kOurs] = candidate.status().message();
        continue;
      }
      const auto ours = std::make_shared<Ours>(runtime, m.cell, *std::move(candidate));
      takers_.push_back({kOurs, &m, [ours](double seconds) {
                           const double once = ours->turn(seconds);
                           return std::optional(Turn{once, ours->sample()});
                         }});
    }
  }

  void start_peers() {
    const auto answer = peers_->ask(request_for(measured_.front().cell, effort_.peers));
    for (GpuMeasured& m : measured_) {
      if (answer) {
        m.problems.merge((*answer)["problems"].get<std::map<std::string, std::string>>());
      } else {
        m.problems["peers"] = peers_->problem();
      }
    }
    if (!answer) return;
    for (const std::string& name : (*answer)["ready"].get<std::vector<std::string>>()) {
      takers_.push_back(
          {name, nullptr, [this, name](double seconds) { return peer_turn(name, seconds); }});
    }
  }

  std::optional<Turn> peer_turn(const std::string& name, double seconds) {
    if (!peers_->send({{"op", "run"}, {"provider", name}, {"seconds", seconds}})) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(1.85 * seconds));
    const Nvml::Sample sample = Nvml::instance().sample(0);
    const auto answer = peers_->receive();
    if (!answer) return {};
    return Turn{(*answer)["seconds"].get<double>(), sample};
  }

  void add(const Taker& taker, const Turn& turn) {
    for (GpuMeasured& m : measured_) {
      if (taker.only != nullptr && taker.only != &m) continue;
      GpuTurns& turns = m.turns[taker.name];
      turns.seconds.push_back(turn.seconds);
      turns.megahertz = turn.sample.megahertz;
      turns.watts = turn.sample.watts;
    }
  }

  const GpuEffort& effort_;
  ScriptProcess* peers_;
  std::vector<GpuMeasured> measured_;
  std::vector<Taker> takers_;
};

}  // namespace

void warm_up(const gpu::Runtime& runtime, const std::vector<GpuCell>& cells,
             const GpuEffort& effort, ScriptProcess* peers) {
  for (const GpuCell& cell : cells) {
    if (Interruption::came()) return;
    (void)candidate_of(runtime, cell);
  }
  // torch's libraries choose and build their kernels at a shape's first call; only FlexAttention
  // takes long enough for that to matter before the cell's own start.
  const bool flex = std::count(effort.peers.begin(), effort.peers.end(), "flex") != 0;
  if (peers == nullptr || !flex) return;
  for (const GpuCell& cell : cells) (void)peers->ask(request_for(cell, {"flex"}));
  (void)peers->ask({{"op", "free"}});
}

std::vector<GpuMeasured> measure(const gpu::Runtime& runtime, std::span<const GpuCell> cells,
                                 const GpuEffort& effort, ScriptProcess* peers) {
  Field field(runtime, cells, effort, peers);
  field.round(0, false);  // the card has cooled down while the cell was prepared
  for (int round = 0; round < effort.rounds && !Interruption::came(); ++round) {
    field.round(round, true);
  }
  return field.finish();
}

}  // namespace fa4::cli
