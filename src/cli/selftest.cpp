// SPDX-License-Identifier: BSD-3-Clause
// fa4 selftest: twenty problems on every backend, forward and backward, against the oracle.
#include <fa4/plan.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/attend_tensors.h"
#include "cli/check.h"
#include "cli/command_line.h"
#include "cli/cpu_info.h"
#include "cli/device_call.h"
#include "cli/stopwatch.h"
#include "cli/terminal.h"
#include "gpu/runtime.h"

namespace fa4::cli {
namespace {

using Random = std::mt19937_64;

/// A problem with its data.
struct Problem {
  AttendArrays arrays;
  AttentionOptions options;
};

/// Sizes of a test and what it adds to plain attention.
struct Test {
  const char* name;
  DType dtype;
  int64_t batch, s_q, s_k, heads_q, heads_k, d, d_v;
  void (*extend)(Problem&, Random&);
};

Array normal(DType dtype, std::vector<int64_t> dims, Random& random, double deviation = 1) {
  Array array(dtype, std::move(dims));
  std::normal_distribution<double> draw(0, deviation);
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; ++i) set(array, i, draw(random));
  return array;
}

Array integers(std::vector<int64_t> values) {
  Array array(DType::kInt32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    set(array, static_cast<int64_t>(i), static_cast<double>(values[i]));
  }
  return array;
}

void plain(Problem&, Random&) {}
void causal(Problem& p, Random&) { p.options.causal = Causal::kBottomRight; }
void top_left(Problem& p, Random&) { p.options.causal = Causal::kTopLeft; }
void window(Problem& p, Random&) { p.options.window = {16, 4}; }
void sliding(Problem& p, Random&) {
  p.options.causal = Causal::kBottomRight;
  p.options.window.left = 31;
}
void softcap(Problem& p, Random&) { p.options.softcap = 2.5; }

void dropout(Problem& p, Random& random) {
  p.options.dropout_p = 0.2;
  p.options.dropout_seed = random();
}

void sink(Problem& p, Random& random) {
  p.options.causal = Causal::kBottomRight;
  p.arrays.sink = normal(DType::kFloat32, {p.arrays.q.dims()[2]}, random, 2);
}

void mask(Problem& p, Random& random) {
  const auto& q = p.arrays.q.dims();
  const auto& k = p.arrays.k.dims();
  p.arrays.mask = Array(DType::kBool, {q[0], 1, q[1], k[1]});
  for (int64_t i = 0; i < p.arrays.mask.elements(); ++i) {
    set(p.arrays.mask, i, random() % 3 == 0 ? 0 : 1);
  }
  p.arrays.seqused_k = integers({k[1] / 2, k[1] - 3});
}

void bias(Problem& p, Random& random) {
  const auto& q = p.arrays.q.dims();
  const auto& k = p.arrays.k.dims();
  p.arrays.bias = normal(DType::kFloat32, {1, q[2], q[1], k[1]}, random);
  p.arrays.dbias = Array(DType::kFloat32, p.arrays.bias.dims());
}

void alibi(Problem& p, Random&) {
  const int64_t heads = p.arrays.q.dims()[2];
  p.options.causal = Causal::kBottomRight;
  p.arrays.alibi_slopes = Array(DType::kFloat32, {heads});
  for (int64_t h = 0; h < heads; ++h) {
    set(p.arrays.alibi_slopes, h, 1 / static_cast<double>(int64_t{2} << h));
  }
}

/// Four packed sequences, one of them empty, and padding on the left of the keys.
void packed(Problem& p, Random& random) {
  const auto q = p.arrays.q.dims();
  const auto k = p.arrays.k.dims();
  const DType dtype = p.arrays.q.dtype();
  p.arrays.q = normal(dtype, {q[1], q[2], q[3]}, random);
  p.arrays.k = normal(dtype, {k[1], k[2], k[3]}, random);
  p.arrays.v = normal(dtype, {k[1], k[2], p.arrays.v.dims()[3]}, random);
  p.arrays.dout = normal(dtype, {q[1], q[2], p.arrays.v.dims()[2]}, random);
  p.arrays.cu_seqlens_q = integers({0, q[1] / 4, q[1] / 4, q[1] / 2, q[1]});
  p.arrays.cu_seqlens_k = integers({0, k[1] / 8, k[1] / 4, k[1] / 2, k[1] - 1});
  p.arrays.start_k = integers({0, 1, 5, 2});
  p.options.causal = Causal::kBottomRight;
}

constexpr DType k32 = DType::kFloat32, k64 = DType::kFloat64, kB16 = DType::kBFloat16,
                kF16 = DType::kFloat16;

constexpr Test kTests[] = {
    {"plain", k32, 2, 129, 129, 2, 2, 64, 64, plain},
    {"more keys than queries, causal", k32, 1, 64, 200, 2, 2, 128, 128, causal},
    {"more queries than keys, causal top-left", k32, 1, 200, 64, 2, 2, 80, 80, top_left},
    {"rows that see no key", k32, 1, 150, 70, 2, 2, 64, 64, causal},
    {"bfloat16, causal", kB16, 1, 160, 160, 2, 2, 128, 128, causal},
    {"float16", kF16, 1, 96, 96, 2, 2, 64, 64, plain},
    {"float64", k64, 1, 65, 65, 2, 2, 32, 32, causal},
    {"d_qk 192, d_v 128", kB16, 1, 96, 96, 2, 2, 192, 128, causal},
    {"head dim 1", k32, 1, 33, 50, 2, 2, 1, 1, plain},
    {"head dim 256", k32, 1, 64, 96, 1, 1, 256, 256, plain},
    {"grouped query heads, 8 on 2", kB16, 1, 64, 96, 8, 2, 64, 64, causal},
    {"one key head, dropout", k32, 1, 64, 96, 6, 1, 64, 64, dropout},
    {"window", k32, 1, 128, 128, 2, 2, 64, 64, window},
    {"sliding window, causal", kB16, 1, 192, 192, 2, 2, 64, 64, sliding},
    {"softcap", k32, 1, 96, 96, 2, 2, 64, 64, softcap},
    {"sink with gradient", k32, 2, 64, 64, 4, 4, 64, 64, sink},
    {"mask and used lengths", k32, 2, 64, 80, 2, 2, 64, 64, mask},
    {"bias with gradient, ALiBi", k32, 2, 64, 80, 4, 4, 64, 64,
     [](Problem& p, Random& random) {
       bias(p, random);
       alibi(p, random);
     }},
    {"packed, an empty sequence, offsets", k32, 1, 160, 200, 4, 2, 64, 64, packed},
    {"one query, 4096 keys, 8 heads on 1", kB16, 1, 1, 4096, 8, 1, 128, 128, causal},
};

Problem make_problem(const Test& test, uint64_t seed) {
  Random random(seed);
  Problem p;
  AttendArrays& a = p.arrays;
  a.q = normal(test.dtype, {test.batch, test.s_q, test.heads_q, test.d}, random);
  a.k = normal(test.dtype, {test.batch, test.s_k, test.heads_k, test.d}, random);
  a.v = normal(test.dtype, {test.batch, test.s_k, test.heads_k, test.d_v}, random);
  a.dout = normal(test.dtype, {test.batch, test.s_q, test.heads_q, test.d_v}, random);
  test.extend(p, random);
  make_forward_outputs(a);
  a.dq = Array(test.dtype, a.q.dims());
  a.dk = Array(test.dtype, a.k.dims());
  a.dv = Array(test.dtype, a.v.dims());
  if (a.sink.present()) a.dsink = Array(a.sink.dtype(), a.sink.dims());
  for (Array* output : {&a.dq, &a.dk, &a.dv, &a.dbias, &a.dsink}) {
    if (output->present()) std::memset(output->data(), 0xFF, output->bytes());
  }
  return p;
}

struct Verdict {
  enum class Kind { kPassed, kFailed, kSkipped } kind = Kind::kPassed;
  std::string reason;
  double worst = 0;  ///< Largest error, as a share of what is allowed.
  double milliseconds = 0;
};

Verdict judge(const std::vector<Check>& checks) {
  Verdict verdict;
  for (const Check& c : checks) {
    if (!c.passed && verdict.reason.empty()) {
      verdict.kind = Verdict::Kind::kFailed;
      verdict.reason = c.fault;
    }
    if (c.allowed > 0) verdict.worst = std::max(verdict.worst, c.error / c.allowed);
  }
  return verdict;
}

Verdict from_status(const Status& status) {
  const bool skip = status.code() == StatusCode::kUnsupported;
  return {skip ? Verdict::Kind::kSkipped : Verdict::Kind::kFailed, status.message()};
}

/// Runs `call` and has `check` judge what it wrote.
template <class Call, class Check>
Verdict run(const Call& call, const Check& check) {
  const Stopwatch watch;
  const Status status = call();
  const double milliseconds = 1e3 * watch.seconds();
  if (!status.ok()) return from_status(status);
  Verdict verdict = judge(check());
  verdict.milliseconds = milliseconds;
  return verdict;
}

/// A place that runs problems: the CPU under one SIMD target, or a GPU.
struct Backend {
  std::string name;  ///< "cpu AVX2", "cuda:0"
  Device device;
  std::string target;  ///< The CPU's; empty: whichever FA4_CPU_TARGET or the library chooses.
};

std::vector<Backend> backends(bool emulator) {
  std::vector<Backend> all;
  const char* forced = std::getenv("FA4_CPU_TARGET");
  if (forced != nullptr && *forced != '\0') {
    all.push_back({fmt::format("cpu {}", active_target()), Device::cpu(), ""});
  } else {
    for (const std::string& target : library_targets()) {
      all.push_back({fmt::format("cpu {}", target), Device::cpu(), target});
    }
  }
  for (int i = 0; gpu::cuda_runtime(i).ok(); ++i) {
    all.push_back({to_string(Device::cuda(i)), Device::cuda(i), ""});
  }
  if (emulator) all.push_back({"emulator", Device::emulator("sm_90a"), ""});
  return all;
}

/// The backward needs a right forward; else it is skipped.
std::pair<Verdict, Verdict> run(const Backend& backend, const Problem& p,
                                const ForwardReference& forward_right,
                                const BackwardReference& backward_right) {
  if (!backend.target.empty()) setenv("FA4_CPU_TARGET", backend.target.c_str(), 1);
  const AttentionTensors tensors = p.arrays.tensors(Device::cpu());
  const AttentionGradients gradients = p.arrays.gradients(Device::cpu());
  const auto on_backend = [&](const auto& call) {
    return [&] { return call_on(backend.device, p.arrays, call); };
  };
  const auto call_forward = [&](const AttentionTensors& t, const AttentionGradients&) {
    return attention(t, p.options);
  };
  const auto call_backward = [&](const AttentionTensors& t, const AttentionGradients& g) {
    return attention_backward(t, g, p.options);
  };
  Verdict forward = run(on_backend(call_forward),
                        [&] { return check_forward(tensors, p.options, forward_right); });
  Verdict backward{Verdict::Kind::kSkipped, "the forward did not pass"};
  if (forward.kind == Verdict::Kind::kPassed) {
    backward = run(on_backend(call_backward),
                   [&] { return check_backward(tensors, gradients, p.options, backward_right); });
  }
  if (!backend.target.empty()) unsetenv("FA4_CPU_TARGET");
  return {std::move(forward), std::move(backward)};
}

std::string shape_of(const Test& t) {
  std::string text =
      fmt::format("{} b {} s {}x{} h {}", short_name(t.dtype), t.batch, t.s_q, t.s_k, t.heads_q);
  if (t.heads_k != t.heads_q) text += fmt::format("/{}", t.heads_k);
  text += fmt::format(" d {}", t.d);
  if (t.d_v != t.d) text += fmt::format("/{}", t.d_v);
  return text;
}

std::string word_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kPassed:
      return paint("pass", Style::kGood);
    case Verdict::Kind::kSkipped:
      return paint("skip", Style::kWarn);
    default:
      return paint("FAIL", Style::kBad);
  }
}

struct Totals {
  int passed = 0, failed = 0, skipped = 0;
  void count(Verdict::Kind kind) {
    (kind == Verdict::Kind::kPassed ? passed : kind == Verdict::Kind::kFailed ? failed : skipped)++;
  }
};

std::string cell_of(const Verdict& v, Notes& reasons) {
  if (v.kind != Verdict::Kind::kPassed) {
    return fmt::format("{} {:<17}", word_of(v.kind), reasons.mark(v.reason));
  }
  return fmt::format("{} {:8.2f} ms {:4.0f}% ", word_of(v.kind), v.milliseconds, v.worst * 100);
}

void print_line(const Backend& backend, const Test& test, const Verdict& forward,
                const Verdict& backward, Notes& reasons) {
  fmt::print("  {:<11} {:<40} {:<30}  {}  {}\n", backend.name, test.name, shape_of(test),
             cell_of(forward, reasons), cell_of(backward, reasons));
  std::fflush(stdout);
}

nlohmann::json to_json(const Verdict& v) {
  const char* word = v.kind == Verdict::Kind::kPassed    ? "passed"
                     : v.kind == Verdict::Kind::kSkipped ? "skipped"
                                                         : "failed";
  return {{"verdict", word},
          {"reason", v.reason},
          {"error_share_of_allowed", v.worst},
          {"milliseconds", v.milliseconds}};
}

void print_summary(const Totals& totals, double seconds, bool good) {
  fmt::print("\n  {}\n", paint(fmt::format("{} passed, {} failed, {} skipped in {:.1f} s",
                                           totals.passed, totals.failed, totals.skipped, seconds),
                               good ? Style::kGood : Style::kBad));
}

}  // namespace

int selftest_command(int argc, char** argv) {
  CommandLine line(
      "fa4 selftest",
      "Runs twenty problems, forward and backward, on every backend that this machine has (each\n"
      "SIMD target of the CPU, each GPU), and compares each result with dense float64 attention.\n"
      "Exit code 1 if one is wrong.");
  uint64_t seed = std::random_device{}();
  bool json = false, emulator = false;
  line.add("--seed", seed, "Seed of the inputs (default: a new one each time)");
  line.add("--emulator", emulator,
           "Also the Hopper kernels on the emulator (device\nemulator:sm_90a; needs NVRTC)");
  line.add("--json", json, "Print JSON");
  line.examples({"selftest", "selftest --seed 42", "selftest --emulator"});
  if (const auto code = line.parse(argc, argv)) return *code;

  Totals totals;
  Notes reasons;
  nlohmann::json results = nlohmann::json::array();
  const Stopwatch watch;
  if (!json) {
    fmt::print("{}, seed {}\n\n", paint("fa4 selftest", Style::kBold), seed);
    fmt::print("  {}\n", paint(fmt::format("{:<84}{:<24}{}", "backend     problem",
                                           "forward, error/allowed", "backward, error/allowed"),
                               Style::kDim));
  }
  const std::vector<Backend> all = backends(emulator);
  for (const Test& test : kTests) {
    const Problem p = make_problem(test, seed);
    const AttentionTensors tensors = p.arrays.tensors(Device::cpu());
    const AttentionGradients gradients = p.arrays.gradients(Device::cpu());
    const ForwardReference forward_right = forward_reference(tensors, p.options);
    const BackwardReference backward_right = backward_reference(tensors, gradients, p.options);
    for (const Backend& backend : all) {
      const auto [forward, backward] = run(backend, p, forward_right, backward_right);
      totals.count(forward.kind);
      totals.count(backward.kind);
      if (json) {
        results.push_back({{"backend", backend.name},
                           {"name", test.name},
                           {"shape", shape_of(test)},
                           {"forward", to_json(forward)},
                           {"backward", to_json(backward)}});
      } else {
        print_line(backend, test, forward, backward, reasons);
      }
    }
  }
  const bool good = totals.failed == 0 && totals.passed > 0;
  const double seconds = watch.seconds();
  if (json) {
    fmt::print("{}\n",
               nlohmann::json{{"seed", seed}, {"passed", good}, {"tests", results}}.dump(2));
  } else {
    reasons.print();
    print_summary(totals, seconds, good);
  }
  return good ? kExitOk : kExitFailure;
}

}  // namespace fa4::cli
