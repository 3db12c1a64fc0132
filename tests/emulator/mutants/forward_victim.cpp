// SPDX-License-Identifier: BSD-3-Clause
// The sm_90a forward as a victim: its source with the includes written out, so that one can be
// changed, and the library's own host code over a runtime that loads what it is told to.
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>

#include "core/problem.h"
#include "emulator/mutants/victim.h"
#include "gpu/device_sources.h"
#include "gpu/runtime.h"
#include "gpu/sm90_forward.h"
#include "support/case.h"

namespace fa4::emulator::mutants {
namespace {

using fa4::test::Case;
using fa4::test::HostTensor;

constexpr int kMultiprocessors = 2;    ///< Few, so that blocks take several tiles.
constexpr int64_t kFewPairKeys = 100;  ///< For the victim that is to run as pairs of CTAs.

// ---- source -------------------------------------------------------------------------------------

/// The text of a file below device/; `patch` applies if it names the file.
Result<std::string> device_file(const std::string& name, const Patch* patch) {
  for (const gpu::jit::SourceFile& file : gpu::device_sources()) {
    if (name != file.name) continue;
    std::string text = file.text;
    const Status status = patch != nullptr && patch->file == name ? apply(*patch, text) : Status();
    if (!status.ok()) return status;
    return text;
  }
  return invalid_argument("patch: its file is " + name + "; allowed: one below device/");
}

/// Writes out `#include "..."`, each file once.
Result<std::string> flatten(const std::string& text, const Patch* patch,
                            std::set<std::string>& seen) {
  constexpr std::string_view kInclude = "#include \"";
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("#pragma once")) continue;
    if (!line.starts_with(kInclude)) {
      out += line + "\n";
      continue;
    }
    const std::string name =
        line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size());
    if (!seen.insert(name).second) continue;
    const auto file = device_file(name, patch);
    if (!file.ok()) return file.status();
    const auto inner = flatten(*file, patch, seen);
    if (!inner.ok()) return inner.status();
    out += *inner;
  }
  return out;
}

// ---- runtime ------------------------------------------------------------------------------------

class LoadedKernel final : public gpu::Kernel {
 public:
  std::shared_ptr<const emulator::Kernel> kernel;
};

/// Runs the host code's launches with options and memory of its own.
class VictimRuntime final : public gpu::Runtime {
 public:
  VictimRuntime(std::string ptx, int64_t pair_keys) : ptx_(std::move(ptx)) {
    properties_.pair_keys = pair_keys;
    properties_.major = 9;
    properties_.multiprocessors = kMultiprocessors;
    properties_.shared_bytes = 227 * 1024;
  }
  const gpu::Properties& properties() const override { return properties_; }
  gpu::CodeFormat code_format() const override { return gpu::CodeFormat::kPtx; }

  Result<std::shared_ptr<const gpu::Kernel>> load(std::span<const std::byte> code,
                                                  const std::string& entry,
                                                  unsigned) const override {
    const std::string original(reinterpret_cast<const char*>(code.data()), code.size());
    const auto program = emulator::load(entry == "fa4_forward" ? ptx_ : original);
    if (!program.ok()) return program.status();
    auto loaded = std::make_shared<LoadedKernel>();
    loaded->kernel = (*program)->find(entry);
    if (loaded->kernel == nullptr) return invalid_argument("PTX: has no entry " + entry);
    return std::shared_ptr<const gpu::Kernel>(std::move(loaded));
  }

  /// What launches by this thread are given.
  struct Scope {
    const MemoryMap* memory;
    RunOptions options;
  };
  static thread_local Scope scope;

  Status launch(const gpu::Kernel& kernel, const gpu::Launch& launch,
                std::span<const std::byte> params, Stream) const override {
    LaunchConfig config;
    config.blocks = {launch.blocks, 1, 1};
    config.threads = {launch.threads, 1, 1};
    config.cluster = {launch.cluster, 1, 1};
    config.dynamic_shared = launch.shared_bytes;
    const auto tally = emulator::run(static_cast<const LoadedKernel&>(kernel).kernel, config,
                                     params, *scope.memory, scope.options);
    if (!tally.ok() || tally->warnings.empty()) return tally.status();
    return {StatusCode::kRuntimeError, first_warning(*tally)};
  }
  Status encode(const gpu::TensorMapSpec& spec, gpu::TensorMap& map) const override {
    const auto runtime = gpu::runtime_of(Device::emulator("sm_90a"));
    return runtime.ok() ? (*runtime)->encode(spec, map) : runtime.status();
  }
  Status fill(void* data, uint32_t word, size_t count, Stream) const override {
    std::fill_n(static_cast<uint32_t*>(data), count, word);
    return {};
  }

  Result<void*> allocate(size_t) const override { return none(); }
  Status release(void*) const override { return none(); }
  Status copy_in(void*, const void*, size_t) const override { return none(); }
  Status copy_out(void*, const void*, size_t) const override { return none(); }
  Result<Stream> make_stream() const override { return none(); }
  Status release(Stream) const override { return none(); }
  Status synchronize(Stream) const override { return {}; }
  Result<gpu::Event> make_event() const override { return none(); }
  Status release(gpu::Event) const override { return none(); }
  Status record(gpu::Event, Stream) const override { return none(); }
  Status wait(Stream, gpu::Event) const override { return none(); }
  Result<double> seconds_between(gpu::Event, gpu::Event) const override { return none(); }

 private:
  static Status none() { return unsupported("a victim's runtime has only launches"); }

  std::string ptx_;
  gpu::Properties properties_;
};
thread_local VictimRuntime::Scope VictimRuntime::scope{};

/// Kernels are remembered by the runtime's address, so none may come twice.
const VictimRuntime* keep(std::unique_ptr<const VictimRuntime> runtime) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const VictimRuntime>> all;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(runtime));
  return all.back().get();
}

// ---- problems -----------------------------------------------------------------------------------

/// Four warpgroups, 64 keys a tile, five stages, O beside Q, tiles by a counter.
Case causal_case() {
  Case c = fa4::test::ref64({.s_q = 600, .s_k = 470, .heads_q = 2, .d = 64}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  return c;
}

/// Three warpgroups in turns, three panels a row of Q and K, two of V.
Case ordered_case() {
  return fa4::test::ref64({.s_q = 300, .s_k = 333, .heads_q = 2, .d = 192, .d_v = 128},
                          DType::kFloat16);
}

/// Of three heads two tiles of a pair, and half tiles of two heads and of one.
Case pair_case() {
  return fa4::test::ref64({.s_q = 450, .s_k = 150, .heads_q = 3, .d = 128}, DType::kBFloat16);
}

/// The softmax under the product before, in a window. One head's scores rise on the way, from the
/// last key to the first, so that tiles are done again, the last one too.
Case overlap_case() {
  Case c = fa4::test::ref64({.s_q = 300, .s_k = 400, .heads_q = 2, .d = 128}, DType::kBFloat16);
  c.options.window.left = 330;
  c.options.window.right = 0;
  for (int64_t key = 0; key < 400; ++key) {
    const double size = std::exp2(8.0 - static_cast<double>(key) / 40);
    for (int64_t i = 0; i < 128; ++i)
      c.k.set({0, key, 0, i}, static_cast<double>(i % 3 - 1) * size);
  }
  return c;
}

/// Sequences of many lengths, a window, two stages, NaN behind the used keys: enough of them that
/// each stage of V is cleaned more than once.
Case lengths_case() {
  const std::vector<int64_t> lengths = {300, 50, 200, 410, 100, 150};
  const std::vector<int64_t> used = {260, 20, 190, 333, 80, 120};
  Case c = fa4::test::ref64({.heads_q = 2,
                             .heads_k = 1,
                             .d = 96,
                             .lengths_q = {150, 0, 77, 200, 90, 120},
                             .lengths_k = lengths},
                            DType::kBFloat16);
  c.options.window.left = 250;
  c.options.window.right = 20;
  c.seqused_k = fa4::test::indices(used);
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); first += lengths[i++]) {
    for (int64_t row = first + used[i]; row < first + lengths[i]; ++row) {
      for (int64_t column = 0; column < 96; ++column) c.v.set({row, 0, column}, std::nan(""));
    }
  }
  return c;
}

/// Used lengths of a batch, d 64: O beside Q, partial tiles stored row by row.
Case used_case() {
  Case c = fa4::test::ref64({.batch = 3, .s_q = 300, .s_k = 200, .heads_q = 1, .d = 64},
                            DType::kBFloat16);
  c.seqused_q = fa4::test::indices({290, 40, 300});
  c.seqused_k = fa4::test::indices({200, 130, 70});
  return c;
}

class ForwardVictim final : public Victim {
 public:
  ForwardVictim(const char* name, Case c, int64_t pair_keys = gpu::kPairKeys)
      : Victim(name), case_(std::move(c)), pair_keys_(pair_keys) {
    const Tensor q = case_.q.view(), v = case_.v.view();
    fa4::test::Dims out(q.dims.begin(), q.dims.begin() + q.rank), lse;
    out.back() = v.dims[v.rank - 1];
    lse = q.rank == 4 ? fa4::test::Dims{q.dims[0], q.dims[2], q.dims[1]}
                      : fa4::test::Dims{q.dims[1], q.dims[0]};
    case_.out = HostTensor(q.dtype, out);
    case_.lse = HostTensor(DType::kFloat32, lse);
    problem_ = core::validate(AttentionProblem::forward(case_.tensors(), case_.options)).value();
  }

  Result<std::string> ptx(const Patch* patch) const override {
    gpu::jit::Program program =
        gpu::sm90::forward_kernel(gpu::sm90::choose_forward(problem_, pair_keys_)).program;
    std::set<std::string> seen;
    const auto source = flatten(program.source, patch, seen);
    if (!source.ok()) return source.status();
    program.source = *source;
    auto compiled = gpu::jit::compile(program, gpu::CodeFormat::kPtx);
    if (!compiled.ok()) return compiled.status();
    return std::move(compiled->ptx);
  }

  Result<RunKernel> load(const std::string& ptx) const override {
    const VictimRuntime* runtime = keep(std::make_unique<VictimRuntime>(ptx, pair_keys_));
    auto forward = gpu::sm90::Forward::make(*runtime, problem_);
    if (!forward.ok()) return forward.status();
    return RunKernel([this, forward = *std::move(forward)](const RunOptions& options) {
      return run(forward, options);
    });
  }

 private:
  Outcome run(const gpu::sm90::Forward& forward, const RunOptions& options) const {
    Case c = case_;
    std::vector<std::byte> workspace(forward.workspace_bytes() + 256, std::byte{0xff});
    MemoryMap memory;
    const AttentionTensors t = c.tensors();
    for (const Tensor* tensor : {&t.q, &t.k, &t.v, &t.seqused_q, &t.seqused_k, &t.cu_seqlens_q,
                                 &t.cu_seqlens_k, &t.out, &t.lse}) {
      if (!tensor->present()) continue;
      int64_t size = 1;
      for (int i = 0; i < tensor->rank; ++i) size *= tensor->dims[i];
      memory.add(tensor->data, static_cast<size_t>(size * size_of(tensor->dtype)),
                 tensor == &t.out || tensor == &t.lse);
    }
    void* aligned = workspace.data();
    size_t space = workspace.size();
    std::align(256, forward.workspace_bytes(), aligned, space);
    memory.add(aligned, std::max<size_t>(forward.workspace_bytes(), 1));
    VictimRuntime::scope = {&memory, options};
    // Of a pair's arrivals at the other CTA the judge warns:
    // ptx::mbarrier_arrive_remote_after_reads.
    const bool pair = pair_keys_ != gpu::kPairKeys;
    if (pair && options.checks == Checks::kWarnings) {
      VictimRuntime::scope.options.checks = Checks::kErrors;
    }
    const Status status = forward.run(problem_, t, aligned, Stream{});
    if (!status.ok()) return {notice_of(status.message()), status.message()};
    return judge(c);
  }

  /// The oracle is asked once for each result that there is.
  Outcome judge(const Case& c) const {
    std::string bits;
    for (const HostTensor* tensor : {&c.out, &c.lse}) {
      const std::vector<std::byte> bytes = tensor->bytes();
      bits.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    {
      const std::lock_guard lock(mutex_);
      if (right_.contains(bits)) return {};
    }
    std::string wrong = c.judge_forward() + c.out.damage() + c.lse.damage();
    if (!wrong.empty()) return {Notice::kWrong, std::move(wrong)};
    const std::lock_guard lock(mutex_);
    right_.insert(std::move(bits));
    return {};
  }

  Case case_;
  int64_t pair_keys_;
  core::Problem problem_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> right_;
};

}  // namespace

std::unique_ptr<Victim> forward_victim(int which) {
  if (which == 0) return std::make_unique<ForwardVictim>("forward_causal", causal_case());
  if (which == 1) return std::make_unique<ForwardVictim>("forward_ordered", ordered_case());
  if (which == 2) return std::make_unique<ForwardVictim>("forward_lengths", lengths_case());
  if (which == 3) return std::make_unique<ForwardVictim>("forward_used", used_case());
  if (which == 4) return std::make_unique<ForwardVictim>("forward_overlap", overlap_case());
  return std::make_unique<ForwardVictim>("forward_pair", pair_case(), kFewPairKeys);
}

}  // namespace fa4::emulator::mutants
