// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/rule_case.h"

#include <sstream>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

/// Names that bodies use: tid, lane, warp, one (thread 0), first (warp 0), data (4 KiB of shared
/// memory, its address in smem), bar (an mbarrier's address), OUT (of 16 KiB), IN (of 16 KiB).
constexpr char kPrelude[] = R"(
    .reg .b64 OUT, IN, T, U, V, DA, DB;
    .reg .b32 tid, lane, warp, rank, smem, bar, a, b, c, d, e, base, own, far;
    .reg .f32 f<8>;
    .reg .pred one, first, even, done, p, q;
    .shared .align 1024 .b8 data[4096];
    .shared .align 8 .b64 barrier, barrier2;
    .shared .align 4 .b32 slot;
    ld.param.u64 OUT, [p0];
    ld.param.u64 IN, [p1];
    mov.u32 tid, %tid.x;
    and.b32 lane, tid, 31;
    shr.u32 warp, tid, 5;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 smem, data;
    mov.u32 bar, barrier;
    setp.eq.u32 one, tid, 0;
    setp.eq.u32 first, warp, 0;
    setp.eq.u32 even, rank, 0;
    mul.wide.u32 T, tid, 4;
    add.u64 U, OUT, T;
    shl.b32 a, tid, 2;
    add.u32 a, a, smem;
)";

std::string variant(const std::string& body, bool twin) {
  std::istringstream in(body);
  std::string line, text;
  while (std::getline(in, line)) {
    const char mark = line.empty() ? ' ' : line[0];
    if (mark == (twin ? '-' : '+')) continue;
    if (mark == '-' || mark == '+') line[0] = ' ';
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string verdict(const RuleCase& c, bool twin, const RunOptions& options) {
  std::vector<std::vector<uint32_t>> buffers(2, std::vector<uint32_t>(4096, 1));
  LaunchConfig config;
  config.blocks = {c.cluster, 1, 1};
  config.cluster = {c.cluster, 1, 1};
  config.threads = {c.threads, 1, 1};
  RunOptions judged = options;
  judged.checks = Checks::kWarnings;
  const Ran ran = run_body(kPrelude + variant(c.body, twin), buffers, config, judged);
  if (!ran.error.empty()) return ran.error;
  return ran.tally.warnings.empty() ? std::string() : ran.tally.warnings.front().text;
}

void check_rule(const RuleCase& c) {
  const std::string name(text_of(c.rule).name);
  bool found = false;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RunOptions options;
    options.seed = seed;
    if (seed > 0) options.timing = static_cast<Timing>(seed % 3);
    if (seed > 4) options.schedule = Schedule::kPriority;
    const std::string bad = verdict(c, false, options);
    found |= bad.find(name + ": ") != std::string::npos;
    EXPECT_TRUE(!c.always || !bad.empty()) << c.name << ", seed " << seed;
    EXPECT_EQ(verdict(c, true, options), "") << c.name << ", seed " << seed;
    if (seed == 7) {
      EXPECT_TRUE(found) << c.name << ": " << bad;
    }
  }
}

}  // namespace fa4::emulator::test
