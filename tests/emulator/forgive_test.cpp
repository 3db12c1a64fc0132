// SPDX-License-Identifier: BSD-3-Clause
// Rules that a run forgives: it goes on, and what was found is counted.
#include <gtest/gtest.h>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

RunOptions forgiving(const char* rules, Checks checks) {
  RunOptions options;
  EXPECT_TRUE(set_option(options, "forgive", rules)) << rules;
  options.checks = checks;
  return options;
}

/// A copy to global memory reads what a thread wrote, with no fence.proxy.async.
constexpr char kNoFence[] = R"(
    .shared .align 16 .b8 data[16];
    .reg .b64 OUT;
    .reg .b32 smem;
    ld.param.u64 OUT, [p0];
    mov.u32 smem, data;
    st.shared.v4.u32 [smem], {1, 2, 3, 4};
    cp.async.bulk.global.shared::cta.bulk_group [OUT], [smem], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
)";

TEST(Forgive, AnErrorOfTheJudgeBecomesAWarning) {
  const LaunchConfig one{.threads = {1, 1, 1}};
  Buffers buffers(1, std::vector<uint32_t>(4));
  Ran ran = run_body(kNoFence, buffers, one, forgiving("shared-race", Checks::kErrors));
  EXPECT_NE(ran.error.find("proxy-fence: "), std::string::npos) << ran.error;

  ran = run_body(kNoFence, buffers, one, forgiving("proxy-fence+shared-race", Checks::kWarnings));
  EXPECT_EQ(ran.error, "");
  ASSERT_EQ(ran.tally.warnings.size(), 1u);
  EXPECT_EQ(ran.tally.warnings[0].rule, Rule::kProxyFence);
  EXPECT_EQ(buffers[0][3], 4u);

  ran = run_body(kNoFence, buffers, one, forgiving("proxy-fence", Checks::kErrors));
  EXPECT_EQ(ran.error, "");
  EXPECT_TRUE(ran.tally.warnings.empty());
}

/// Warp 0 frees all columns, then a warp reads one.
TEST(Forgive, FreedColumnsKeepTheirValues) {
  const Unjudged unjudged;
  const std::string body = R"(
    .reg .b64 OUT;
    .reg .b32 tid, base, own, v, r;
    .reg .pred other;
    .shared .align 4 .b32 slot;
    ld.param.u64 OUT, [p0];
    mov.u32 tid, %tid.x;
    setp.ge.u32 other, tid, 32;
    @other bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
ALLOCATED:
    bar.sync 0;
    ld.shared.u32 base, [slot];
    shr.u32 own, tid, 5;
    shl.b32 own, own, 21;
    add.u32 own, own, base;
    mov.u32 v, 7;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    @other bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 base, 64;
FREED:
    bar.sync 0;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {r}, [own];
    tcgen05.wait::ld.sync.aligned;
    st.global.u32 [OUT], r;
)";
  const LaunchConfig config{.threads = {64, 1, 1}};
  Buffers buffers(1, std::vector<uint32_t>(1));
  const std::string error = run_body(body, buffers, config).error;
  EXPECT_NE(error.find("tensor-unallocated: "), std::string::npos) << error;
  EXPECT_EQ(run_body(body, buffers, config, forgiving("tensor-unallocated", Checks::kOff)).error,
            "");
  EXPECT_EQ(buffers[0][0], 7u);
}

}  // namespace
}  // namespace fa4::emulator::test
