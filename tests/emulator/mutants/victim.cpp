// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mutants/victim.h"

#include "emulator/kernels/tensor_chain.h"
#include "emulator/kernels/tensor_gemm.h"
#include "emulator/ptx_kernel.h"
#include "gpu/jit/nvrtc.h"

namespace fa4::emulator::mutants {
namespace {

using test::Element;
using test::Gemm;

Outcome outcome_of(const std::string& error, bool right, const std::string& what,
                   const Tally& tally) {
  if (!error.empty()) return {notice_of(error), error};
  if (!right) return {Notice::kWrong, what};
  if (!tally.warnings.empty()) return {Notice::kCheck, first_warning(tally)};
  return {};
}

class GemmVictim final : public Victim {
 public:
  GemmVictim(std::string name, Gemm gemm) : Victim(std::move(name)), gemm_(std::move(gemm)) {}

  Result<std::string> ptx(const Patch* patch) const override {
    std::string text = test::gemm_kernel(gemm_);
    const Status status = patch == nullptr ? Status() : apply(*patch, text);
    if (!status.ok()) return status;
    return text;
  }
  Result<RunKernel> load(const std::string& ptx) const override {
    return RunKernel([gemm = gemm_, ptx](const RunOptions& options) {
      const test::GemmRun run = test::run_gemm(gemm, ptx, options);
      return outcome_of(run.error, run.wrong + run.touched == 0, run.first, run.tally);
    });
  }

 private:
  Gemm gemm_;
};

class ChainVictim final : public Victim {
 public:
  ChainVictim() : Victim("chain") {}

  Result<std::string> ptx(const Patch* patch) const override {
    std::string source = test::chain_source();
    const Status status = patch == nullptr ? Status() : apply(*patch, source);
    if (!status.ok()) return status;
    auto compiled = gpu::jit::compile({source, "sm_100a", {}}, gpu::CodeFormat::kPtx);
    if (!compiled.ok()) return compiled.status();
    return std::move(compiled->ptx);
  }
  Result<RunKernel> load(const std::string& ptx) const override {
    return RunKernel([ptx](const RunOptions& options) {
      const test::ChainRun run = test::run_chain(ptx, options);
      return outcome_of(run.error, run.right, "another O", run.tally);
    });
  }
};

std::vector<std::unique_ptr<Victim>> make_victims() {
  std::vector<std::unique_ptr<Victim>> all;
  for (int i = 0; i < 6; ++i) all.push_back(forward_victim(i));
  for (auto& victim : tensor_victims()) all.push_back(std::move(victim));
  return all;
}

}  // namespace

const char* name_of(Notice notice) {
  constexpr const char* kNames[] = {"survived", "rejected", "wrong", "deadlock",
                                    "loop",     "fault",    "check"};
  return kNames[static_cast<int>(notice)];
}

std::string first_warning(const Tally& tally) {
  return tally.warnings.empty() ? "" : "warning: " + tally.warnings.front().text;
}

Notice notice_of(const std::string& error) {
  const auto has = [&](const char* what) { return error.find(what) != std::string::npos; };
  if (has("deadlock")) return Notice::kDeadlock;
  if (has(": no end after ")) return Notice::kLoop;
  return Notice::kFault;
}

Status apply(const Patch& patch, std::string& text) {
  const size_t at = text.find(patch.find);
  if (at == std::string::npos || text.find(patch.find, at + 1) != std::string::npos) {
    return invalid_argument("patch of '" + patch.file + "': \"" + patch.find + "\" stands there " +
                            (at == std::string::npos ? "nowhere" : "more than once") +
                            "; allowed: once");
  }
  text.replace(at, patch.find.size(), patch.replace);
  return {};
}

std::vector<std::unique_ptr<Victim>> tensor_victims() {
  std::vector<std::unique_ptr<Victim>> all;
  Gemm plain;
  plain.a_mn_major = true;
  plain.n = 96;
  all.push_back(std::make_unique<GemmVictim>("gemm", plain));
  Gemm pair;
  pair.a = pair.b = Element::kF16;
  pair.group = 2;
  pair.m = 256;
  pair.accumulate = true;
  pair.b_swizzle = test::Swizzle::k64B;
  all.push_back(std::make_unique<GemmVictim>("gemm_pair", pair));
  Gemm tensor;
  tensor.a = tensor.b = Element::kE4M3;
  tensor.a_in_tensor = true;
  tensor.m = 64;
  all.push_back(std::make_unique<GemmVictim>("gemm_tensor", tensor));
  all.push_back(std::make_unique<ChainVictim>());
  return all;
}

const std::vector<std::unique_ptr<Victim>>& victims() {
  static const std::vector<std::unique_ptr<Victim>> all = make_victims();
  return all;
}

}  // namespace fa4::emulator::mutants
