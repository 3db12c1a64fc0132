// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_layer.h"

#include <fa4/plan.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>

#include "cli/demo_batch.h"
#include "cli/stopwatch.h"
#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

constexpr double kTimingSeconds = 0.006;

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest = std::isnan(difference) ? HUGE_VAL : std::max(largest, difference);
  }
  return largest;
}

/// A plan and the memory of its runs.
struct Runner {
  explicit Runner(const AttentionProblem& problem)
      : plan(Plan::make(problem).value()), bytes(plan.workspace_bytes()) {
    memory.reset(::operator new(std::max<size_t>(bytes, 1), kAlignment));
  }
  Workspace workspace() const { return {memory.get(), bytes}; }

  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* p) const { ::operator delete(p, kAlignment); }
  };
  Plan plan;
  size_t bytes;
  std::unique_ptr<void, Free> memory;
};

template <class F>
double best_seconds(F&& run) {
  double best = HUGE_VAL, sum = 0;
  for (int i = 0; i < 3 || (sum < kTimingSeconds && i < 100); ++i) {
    const Stopwatch watch;
    run();
    const double seconds = watch.seconds();
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

/// Runs the forward in one layout and adds what it shows to `forward`.
void measure_forward(const DemoFixture& fixture, const DemoBatch& batch,
                     const AttentionOptions& options, const DemoReferences& refs,
                     DemoForward& forward, std::vector<double>& first_out) {
  const Runner runner(AttentionProblem::forward(batch.tensors, options));
  runner.plan.run(batch.tensors, runner.workspace()).check();
  const std::vector<double> out = batch.rows(batch.tensors.out), lse = batch.lse();
  const DType dtype = batch.tensors.q.dtype;
  forward.torch.include(compare_demo(fixture, dtype, out, refs.torch_out, refs.out));
  forward.exact.include(compare_demo(fixture, dtype, out, refs.out.exact, refs.out));
  forward.lse.include(compare_demo(fixture, dtype, lse, refs.torch_lse, refs.lse));
  forward.lse.include(compare_demo(fixture, dtype, lse, refs.lse.exact, refs.lse));
  forward.padding_clean = forward.padding_clean && batch.outputs_clean();
  forward.workspace_bytes = std::max(forward.workspace_bytes, runner.bytes);
  if (first_out.empty()) first_out = out;
  forward.difference = std::max(forward.difference, largest_difference(out, first_out));
}

/// Likewise for the backward, from what the forward wrote.
void measure_backward(const DemoFixture& fixture, const DemoBatch& batch,
                      const AttentionOptions& options, const DemoReferences& refs,
                      DemoBackward& backward, std::vector<double>& first) {
  const Runner runner(AttentionProblem::backward(batch.tensors, batch.gradients, options));
  runner.plan.run(batch.tensors, batch.gradients, runner.workspace()).check();
  const std::vector<double> dq = batch.rows(batch.gradients.dq);
  const std::vector<double> dk = batch.rows(batch.gradients.dk);
  const std::vector<double> dv = batch.rows(batch.gradients.dv);
  const DType dtype = batch.tensors.q.dtype;
  backward.dq.include(compare_demo(fixture, dtype, dq, refs.dq.exact, refs.dq));
  backward.dk.include(compare_demo(fixture, dtype, dk, refs.dk.exact, refs.dk));
  backward.dv.include(compare_demo(fixture, dtype, dv, refs.dv.exact, refs.dv));
  backward.padding_clean = backward.padding_clean && batch.gradients_clean();
  backward.workspace_bytes = std::max(backward.workspace_bytes, runner.bytes);
  std::vector<double> all = dq;
  all.insert(all.end(), dk.begin(), dk.end());
  all.insert(all.end(), dv.begin(), dv.end());
  if (first.empty()) first = all;
  backward.difference = std::max(backward.difference, largest_difference(all, first));
}

void time_layout(const DemoBatch& batch, const AttentionOptions& options, DemoLayer& result) {
  const auto layout = static_cast<size_t>(batch.layout());
  const Runner forward(AttentionProblem::forward(batch.tensors, options));
  result.forward.seconds[layout] =
      best_seconds([&] { forward.plan.run(batch.tensors, forward.workspace()).check(); });
  if (!result.backward) return;
  const Runner backward(AttentionProblem::backward(batch.tensors, batch.gradients, options));
  result.backward->seconds[layout] = best_seconds(
      [&] { backward.plan.run(batch.tensors, batch.gradients, backward.workspace()).check(); });
}

}  // namespace

double DemoForward::worst_of_bound() const {
  return std::max({torch.of_bound, exact.of_bound, lse.of_bound});
}

double DemoBackward::worst_of_bound() const {
  return std::max({dq.of_bound, dk.of_bound, dv.of_bound});
}

double DemoLayer::worst_of_bound() const {
  return std::max(forward.worst_of_bound(), backward ? backward->worst_of_bound() : 0);
}

bool DemoLayer::padding_clean() const {
  return forward.padding_clean && (!backward || backward->padding_clean);
}

std::string demo_device(const DemoFixture& fixture, int threads) {
  AttentionOptions options;
  options.threads = threads;
  AttentionProblem problem;
  problem.options = options;
  problem.q = {DType::kFloat32, 3, {fixture.total(), fixture.heads, fixture.head_dim}};
  problem.k = problem.v = problem.q;
  problem.cu_seqlens_q = {DType::kInt32, 1, {static_cast<int64_t>(fixture.texts.size()) + 1}};
  problem.cu_seqlens_k = problem.cu_seqlens_q;
  std::string text = Plan::make(problem).value().describe();
  text.resize(std::min(text.size(), text.find('\n')));
  const std::string pass = " forward";  // The line names the plan's pass, the demo runs both.
  const size_t at = text.find(pass);
  return at == std::string::npos ? text : text.erase(at, pass.size());
}

DemoLayer run_demo_layer(const DemoFixture& fixture, int64_t layer, DType dtype,
                         const std::vector<float>& dout, const DemoReferences& references,
                         int threads) {
  AttentionOptions options;
  options.threads = threads;
  DemoLayer result;
  result.layer = layer;
  result.dtype = dtype;
  std::vector<double> first_out, first_gradients;
  for (const DemoLayout layout : kDemoLayouts) {
    const DemoBatch batch(fixture, layer, dtype, layout, dout);
    measure_forward(fixture, batch, options, references, result.forward, first_out);
    const Support support =
        supports(AttentionProblem::backward(batch.tensors, batch.gradients, options));
    if (!support) {
      result.no_backward = support.reason;
      continue;
    }
    if (!result.backward) result.backward.emplace();
    measure_backward(fixture, batch, options, references, *result.backward, first_gradients);
  }
  if (!result.no_backward.empty()) result.backward.reset();
  for (const DemoLayout layout : kDemoLayouts) {
    time_layout(DemoBatch(fixture, layer, dtype, layout, dout, DemoBatch::Padding::kZero), options,
                result);
  }
  return result;
}

}  // namespace fa4::cli
