// SPDX-License-Identifier: BSD-3-Clause
// fa4_emulator_speed [ROUNDS] [OFF|ON] [ROW]: warp-instructions a second of a core, without checks
// and with all of them. CPU time, the best of the rounds, both in turn. With OFF or ON only one of
// them, for a profiler.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "emulator/kernels/tensor_chain.h"
#include "emulator/kernels/tensor_gemm.h"
#include "emulator/ptx_kernel.h"
#include "gpu/emulator_settings.h"
#include "gpu/jit/nvrtc.h"
#include "support/gpu_case.h"

namespace fa4::emulator {
namespace {

struct Row {
  std::string name;
  std::function<Tally(const RunOptions&)> run;
};

void want(const std::string& error) {
  if (error.empty()) return;
  std::fprintf(stderr, "%s\n", error.c_str());
  std::exit(1);
}

Row forward(const char* name, const fa4::test::Shape& shape, Causal causal) {
  fa4::test::Case c = fa4::test::ref64(shape, DType::kBFloat16);
  c.options.causal = causal;
  c.device = Device::emulator("sm_90a");
  return {name, [c](const RunOptions& options) mutable {
            Tally tally;
            gpu::EmulatorSettings settings;
            settings.run = options;
            settings.tally = &tally;
            const gpu::ThreadEmulatorSettings here(settings);
            want(c.forward().message());
            return tally;
          }};
}

Row chain() {
  const auto compiled =
      gpu::jit::compile({test::chain_source(), "sm_100a", {}}, gpu::CodeFormat::kPtx);
  want(compiled.status().message());
  return {"tcgen05 chain", [ptx = compiled->ptx](const RunOptions& options) {
            const test::ChainRun run = test::run_chain(ptx, options);
            want(run.error);
            return run.tally;
          }};
}

Row pair() {
  test::Gemm gemm;
  gemm.group = 2;
  gemm.m = 256;
  return {"tcgen05 pair", [gemm](const RunOptions& options) {
            const test::GemmRun run = test::run_gemm(gemm, options);
            want(run.error);
            return run.tally;
          }};
}

/// Those whose name has the text in it.
std::vector<Row> rows(const std::string& text) {
  std::vector<Row> all;
  const auto wanted = [&](const char* name) {
    return std::string(name).find(text) != std::string::npos;
  };
  const char *narrow = "forward, d 64, causal", *wide = "forward, d 128";
  if (wanted(narrow)) {
    all.push_back(
        forward(narrow, {.s_q = 1024, .s_k = 1024, .heads_q = 2, .d = 64}, Causal::kBottomRight));
  }
  if (wanted(wide)) {
    all.push_back(forward(wide, {.s_q = 1024, .s_k = 1024, .heads_q = 1, .d = 128}, Causal::kNone));
  }
  if (wanted("tcgen05 chain")) all.push_back(chain());
  if (wanted("tcgen05 pair")) all.push_back(pair());
  return all;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const std::string only = argc > 2 ? argv[2] : "";
  const test::Unjudged unjudged;  // options are taken as they are
  std::printf("millions of warp-instructions a second    off     on\n");
  for (const Row& row : rows(argc > 3 ? argv[3] : "")) {
    double best[2] = {0, 0};
    for (int round = 0; round < rounds; ++round) {
      for (const int on : {0, 1}) {
        if (only == (on != 0 ? "OFF" : "ON")) continue;
        RunOptions options;
        options.seed = 1;
        options.checks = on != 0 ? Checks::kWarnings : Checks::kOff;
        const Tally tally = row.run(options);
        const double rate = static_cast<double>(tally.instructions) / tally.cpu_seconds / 1e6;
        best[on] = std::max(best[on], rate);
      }
    }
    std::printf("%-38s %6.2f %6.2f\n", row.name.c_str(), best[0], best[1]);
  }
  return 0;
}

}  // namespace
}  // namespace fa4::emulator

int main(int argc, char** argv) { return fa4::emulator::main(argc, argv); }
