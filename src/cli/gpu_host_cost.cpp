// SPDX-License-Identifier: BSD-3-Clause
// What a call costs the host, and what a kernel costs at its first call.
#include <algorithm>
#include <memory>

#include "cli/gpu_bench.h"
#include "cli/stopwatch.h"
#include "gpu/configs.h"
#include "gpu/jit/kernels.h"
#include "gpu/jit/store.h"

namespace fa4::cli {
namespace {

/// Host seconds of one call: the median of batches that fit the launch queue.
template <class Call>
double host_seconds(const gpu::Runtime& runtime, const Call& call) {
  constexpr int kBatch = 100, kBatches = 41;
  std::vector<double> times;
  for (int batch = 0; batch < kBatches; ++batch) {
    runtime.synchronize({}).check();
    const Stopwatch watch;
    for (int i = 0; i < kBatch; ++i) call();
    times.push_back(watch.seconds() / kBatch);
  }
  runtime.synchronize({}).check();
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

HostCost::Call call_cost(const gpu::Runtime& runtime, const std::string& what, Causal causal) {
  // Small, so that the device keeps up with the host.
  const Device device = Device::cuda(0);
  const DeviceBuffer memory(runtime, size_t{1} << 20);
  auto* at = static_cast<std::byte*>(memory.data());
  const auto take = [&](DType dtype, std::initializer_list<int64_t> dims) {
    const Tensor t = Tensor::contiguous(at, dtype, dims, device);
    at += 128 << 10;
    return t;
  };
  AttentionTensors t;
  t.q = take(DType::kBFloat16, {1, 128, 2, 128});
  t.k = take(DType::kBFloat16, {1, 128, 2, 128});
  t.v = take(DType::kBFloat16, {1, 128, 2, 128});
  t.out = take(DType::kBFloat16, {1, 128, 2, 128});
  t.lse = take(DType::kFloat32, {1, 2, 128});
  AttentionOptions options;
  options.causal = causal;
  const Plan plan = Plan::make(AttentionProblem::forward(t, options), device).value();
  const Workspace workspace{at, 128 << 10};
  HostCost::Call cost{what, 0, 0};
  cost.run_us = 1e6 * host_seconds(runtime, [&] { plan.run(t, workspace).check(); });
  cost.attention_us = 1e6 * host_seconds(runtime, [&] { attention(t, options).check(); });
  return cost;
}

/// Milliseconds from the store on disk to a loaded kernel, as a new process has them: of every
/// eighth kernel, since what is not in the store has to be compiled first.
std::vector<double> load_costs(const gpu::Runtime& runtime) {
  constexpr size_t kStep = 8;
  const auto& p = runtime.properties();
  std::vector<double> costs;
  const auto kernels = gpu::all_kernels();
  for (size_t i = 0; i < kernels.size(); i += kStep) {
    const auto& kernel = kernels[i];
    if (kernel.program.target != "sm_" + std::to_string(10 * p.major + p.minor) + "a") continue;
    if (!gpu::jit::obtain(kernel.program, runtime.code_format()).value().kept) continue;
    const Stopwatch watch;
    const auto code = gpu::jit::obtain(kernel.program, runtime.code_format());
    const auto loaded = runtime.load(code.value().bytes, kernel.entry, kernel.shared_bytes);
    loaded.status().check();
    costs.push_back(1e3 * watch.seconds());
  }
  std::sort(costs.begin(), costs.end());
  return costs;
}

}  // namespace

HostCost measure_host_cost(const gpu::Runtime& runtime) {
  HostCost cost;
  cost.calls.push_back(call_cost(runtime, "full", Causal::kNone));
  cost.calls.push_back(call_cost(runtime, "causal", Causal::kBottomRight));
  cost.load_ms = load_costs(runtime);
  return cost;
}

}  // namespace fa4::cli
