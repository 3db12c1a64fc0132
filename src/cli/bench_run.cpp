// SPDX-License-Identifier: BSD-3-Clause
#include "cli/bench_run.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "cli/array.h"
#include "cli/interruption.h"
#include "cli/roofs.h"
#include "cli/stopwatch.h"

namespace fa4::cli {
namespace {

Array random_array(DType dtype, std::vector<int64_t> dims, std::mt19937& random) {
  Array array(dtype, std::move(dims));
  std::normal_distribution<float> draw;
  // A long cache repeats a block of numbers: drawing each would take longer than the bench.
  constexpr int64_t kBlock = 1 << 16;
  std::vector<float> block(kBlock);
  for (float& x : block) x = draw(random);
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; ++i) {
    set(array, i, static_cast<double>(block[static_cast<size_t>(i % kBlock)]));
  }
  return array;
}

/// A cell's tensors and plan.
class OurSide {
 public:
  explicit OurSide(const Cell& cell) : cell_(cell) {
    std::mt19937 random(42);
    q_ = random_array(cell.dtype, {cell.batch, cell.s_q, cell.heads_q, cell.d}, random);
    k_ = random_array(cell.dtype, {cell.batch, cell.s_k, cell.heads_k, cell.d}, random);
    v_ = random_array(cell.dtype, {cell.batch, cell.s_k, cell.heads_k, cell.d}, random);
    out_ = Array(cell.dtype, q_.dims());
    lse_ = Array(DType::kFloat32, {cell.batch, cell.heads_q, cell.s_q});
    tensors_.q = q_.view();
    tensors_.k = k_.view();
    tensors_.v = v_.view();
    tensors_.out = out_.view();
    tensors_.lse = lse_.view();
    options_.causal = cell.causal ? Causal::kBottomRight : Causal::kNone;
    options_.threads = cell.threads;
    if (cell.pass == Pass::kBackward) make_gradients(random);
  }

  /// Plans, and runs once.
  Status prepare() {
    const bool backward = cell_.pass == Pass::kBackward;
    if (backward) {
      const Status forward = attention(tensors_, options_);
      if (!forward.ok()) return forward;
    }
    Result<Plan> plan =
        Plan::make(backward ? AttentionProblem::backward(tensors_, gradients_, options_)
                            : AttentionProblem::forward(tensors_, options_));
    if (!plan.ok()) return plan.status();
    plan_ = *std::move(plan);
    workspace_ = Array(DType::kBool, {static_cast<int64_t>(plan_->workspace_bytes())});
    return run();
  }

  Status run() {
    const Workspace workspace{workspace_.data(), workspace_.bytes()};
    return cell_.pass == Pass::kBackward ? plan_->run(tensors_, gradients_, workspace)
                                         : plan_->run(tensors_, workspace);
  }

  /// Seconds of reading k and v alone.
  double read_cache() const {
    return time_read(cell_.threads, k_.data(), k_.bytes()) +
           time_read(cell_.threads, v_.data(), v_.bytes());
  }

 private:
  void make_gradients(std::mt19937& random) {
    dout_ = random_array(cell_.dtype, out_.dims(), random);
    dq_ = Array(cell_.dtype, q_.dims());
    dk_ = Array(cell_.dtype, k_.dims());
    dv_ = Array(cell_.dtype, v_.dims());
    gradients_.dout = dout_.view();
    gradients_.dq = dq_.view();
    gradients_.dk = dk_.view();
    gradients_.dv = dv_.view();
  }

  Cell cell_;
  Array q_, k_, v_, out_, lse_, dout_, dq_, dk_, dv_, workspace_;
  AttentionTensors tensors_;
  AttentionGradients gradients_;
  AttentionOptions options_;
  std::optional<Plan> plan_;
};

/// Threads of the side that ran last may still spin for work; the other should not pay for it.
void let_threads_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

double sum(const Times& times) {
  double total = 0;
  for (const double seconds : times.seconds) total += seconds;
  return total;
}

bool enough(const Times& times, const Effort& effort) {
  const int rounds = static_cast<int>(times.seconds.size());
  if (rounds >= effort.max_rounds) return true;
  return rounds >= effort.min_rounds && sum(times) >= effort.seconds;
}

}  // namespace

double Times::best() const { return *std::min_element(seconds.begin(), seconds.end()); }

double Times::median() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

std::optional<double> Measured::ratio(bool median) const {
  if (!ours.present() || !torch.present()) return std::nullopt;
  return median ? torch.median() / ours.median() : torch.best() / ours.best();
}

Measured measure(const Cell& cell, const Effort& effort, TorchPeer* torch) {
  Measured result{cell, {}, {}, {}, {}, {}};
  OurSide ours(cell);
  const Status status = ours.prepare();
  if (!status.ok()) result.ours_problem = status.message();
  const bool has_torch = torch != nullptr && torch->available();
  bool torch_runs = has_torch && torch->prepare(cell);
  if (has_torch && !torch_runs) result.torch_problem = torch->problem();
  bool ours_runs = status.ok();
  while (!Interruption::came() && ((ours_runs && !enough(result.ours, effort)) ||
                                   (torch_runs && !enough(result.torch, effort)))) {
    if (ours_runs) {
      let_threads_sleep();
      const Stopwatch watch;
      ours.run().check();
      result.ours.seconds.push_back(watch.seconds());
      if (cell.kind == Kind::kDecode) result.read.seconds.push_back(ours.read_cache());
    }
    if (torch_runs) {
      let_threads_sleep();
      const std::optional<double> seconds = torch->run();
      if (seconds) result.torch.seconds.push_back(*seconds);
      torch_runs = seconds.has_value();
    }
  }
  return result;
}

}  // namespace fa4::cli
