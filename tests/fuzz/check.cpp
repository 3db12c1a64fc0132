// SPDX-License-Identifier: BSD-3-Clause
#include "fuzz/check.h"

#include <fa4/plan.h>

#include <array>
#include <vector>

#include "fuzz/kernel_problems.h"
#include "gpu/emulator_settings.h"
#include "support/gpu_case.h"

namespace fa4::fuzz {
namespace {

using test::Case;
using test::HostTensor;
using test::Verdict;
using Bytes = std::vector<std::byte>;

Device problems_device{};
int adversaries = 0, judged_adversaries = 0;

/// The adversary of a problem's run.
gpu::EmulatorSettings adversary(const Problem& problem, int run) {
  using emulator::Timing;
  constexpr Timing kTimings[] = {Timing::kRandom, Timing::kLatest, Timing::kEarliest};
  gpu::EmulatorSettings s;
  s.pair_keys = pair_keys;
  s.run.seed = static_cast<uint64_t>(problem.seed + run);
  s.run.timing = kTimings[run % 3];
  s.run.schedule = run % 2 == 0 ? emulator::Schedule::kRandom : emulator::Schedule::kPriority;
  s.run.checks = run < judged_adversaries ? emulator::Checks::kErrors : emulator::Checks::kOff;
  return s;
}

std::vector<Bytes> bytes_of(std::initializer_list<const HostTensor*> tensors) {
  std::vector<Bytes> all;
  for (const HostTensor* tensor : tensors) all.push_back(tensor->bytes());
  return all;
}

std::vector<Bytes> inputs_of(const Case& c) {
  return bytes_of({&c.q, &c.k, &c.v, &c.bias, &c.mask, &c.alibi_slopes, &c.sink, &c.cu_seqlens_q,
                   &c.cu_seqlens_k, &c.seqused_q, &c.seqused_k, &c.start_q, &c.start_k, &c.dout,
                   &c.dlse});
}
std::vector<Bytes> outputs_of(const Case& c) { return bytes_of({&c.out, &c.lse}); }
std::vector<Bytes> gradients_of(const Case& c) {
  return bytes_of({&c.dq, &c.dk, &c.dv, &c.dbias, &c.dsink});
}

Verdict failed(const std::string& message) { return {Verdict::Kind::kFailed, message}; }

Verdict check_again(Case& c, bool backward) {
  const std::vector<Bytes> outputs = outputs_of(c), gradients = gradients_of(c);
  Status status = c.forward();
  if (!status.ok()) return failed("second forward: " + status.message());
  if (outputs_of(c) != outputs) return failed("a second forward gives other bits");
  if (!backward || !c.options.deterministic) return {};
  status = c.backward();
  if (!status.ok()) return failed("second backward: " + status.message());
  if (gradients_of(c) != gradients) return failed("a second backward gives other bits");
  return {};
}

Verdict check_adversaries(const Problem& problem, Case& c) {
  const std::vector<Bytes> outputs = outputs_of(c);
  for (int run = 1; run < adversaries; ++run) {
    const gpu::ThreadEmulatorSettings settings(adversary(problem, run));
    const std::string name = "adversary " + std::to_string(run) + ": ";
    const Status status = c.forward();
    if (!status.ok()) return failed(name + status.message());
    if (outputs_of(c) != outputs) return failed(name + "gives other bits than adversary 0");
  }
  return {};
}

/// A GPU must run the kernel that a problem was drawn for, or what ran is misreported.
Verdict check_kernel(const Problem& problem, const Case& c) {
  const auto kernel = kernel_of(problem);
  if (c.device.type == DeviceType::kCpu || !kernel) return {};
  const auto plan = Plan::make(AttentionProblem::forward(c.tensors(), c.options), c.device);
  if (!plan.ok()) return {};  // the run says why
  const std::string name = gpu::sm90::to_string(*kernel);
  if (plan->describe().find(" " + name + "\n") != std::string::npos) return {};
  return failed("does not run the kernel " + name + " but\n" + plan->describe());
}

Verdict check_twice(const Problem& problem, Case& c, bool backward) {
  const Verdict kernel = check_kernel(problem, c);
  if (kernel.kind != Verdict::Kind::kPassed) return kernel;
  if (adversaries == 0) {
    const Verdict verdict = backward ? check_forward_and_backward(c) : check_forward(c);
    return verdict.kind == Verdict::Kind::kPassed ? check_again(c, backward) : verdict;
  }
  Verdict verdict;
  {
    const gpu::ThreadEmulatorSettings settings(adversary(problem, 0));
    verdict = check_forward(c);
  }
  return verdict.kind == Verdict::Kind::kPassed ? check_adversaries(problem, c) : verdict;
}

}  // namespace

void set_device(Device device) {
  problems_device = device;
  if (device.type != DeviceType::kEmulator) return;
  // The first to ask makes the device for all: with pairs of CTAs for the problems drawn for them.
  auto settings = gpu::emulator_settings();
  if (!settings.ok()) return;  // the first run says so
  settings->pair_keys = pair_keys;
  const gpu::ThreadEmulatorSettings here(*settings);
  (void)gpu::runtime_of(device);
}
void set_adversaries(int runs, int judged) {
  adversaries = runs;
  judged_adversaries = judged;
}

Verdict check(const Problem& problem, bool backward) {
  Case c = build(problem);
  c.device = problems_device;
  if (c.device.type != DeviceType::kCpu) make_strides_legal_on_gpu(c);
  const std::vector<Bytes> inputs = inputs_of(c);
  Verdict verdict = check_twice(problem, c, backward);
  if (verdict.kind == Verdict::Kind::kPassed && inputs_of(c) != inputs) {
    verdict = failed("an input was written");
  }
  return verdict;
}

Problem shrink(const Problem& problem, bool backward, int budget) {
  Problem best = problem;
  for (bool progress = true; progress;) {
    progress = false;
    for (const Problem& candidate : simpler(best)) {
      if (budget-- <= 0) return best;
      if (check(candidate, backward).kind != Verdict::Kind::kFailed) continue;
      best = candidate;
      progress = true;
      break;
    }
  }
  return best;
}

}  // namespace fa4::fuzz
