// SPDX-License-Identifier: BSD-3-Clause
// Counters of small kernels, number by number.
#include "emulator/counters/counter.h"

#include <gtest/gtest.h>

#include "emulator/kernels/tensor_gemm.h"
#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

RunOptions counted() {
  RunOptions options;
  options.counters = true;
  return options;
}

/// Two CTAs of three warps: warp 0 copies 256 bytes (produce), warps 1 and 2 read them (consume,
/// which calls helper), all set up (the kernel).
constexpr char kRoles[] = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0) {
  .reg .b64 P;
  .reg .b32 tid, warp, smem, bar, a, b;
  .reg .f32 f;
  .reg .pred one, first, done;
  .shared .align 16 .b8 data[256];
  .shared .align 8 .b64 barrier;
  .loc 1 10 1
  ld.param.u64 P, [p0];
  mov.u32 tid, %tid.x;
  shr.u32 warp, tid, 5;
  mov.u32 smem, data;
  mov.u32 bar, barrier;
  setp.eq.u32 one, tid, 0;
  setp.eq.u32 first, warp, 0;
  @one mbarrier.init.shared::cta.b64 [bar], 1;
  @one fence.mbarrier_init.release.cluster;
  bar.sync 0;
  .loc 1 20 3
  @!first bra CONSUME;
  .loc 1 30 1, function_name $name0, inlined_at 1 20 3
  @one mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  @one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [P], 256, [bar];
  bra END;
  .loc 1 21 3
CONSUME:
  .loc 1 40 1, function_name $name1, inlined_at 1 21 3
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
  @!done bra WAIT;
  shl.b32 a, tid, 2;
  .loc 1 50 1, function_name $name2, inlined_at 1 40 1
  and.b32 a, a, 252;
  add.u32 a, a, smem;
  ld.shared.u32 b, [a];
  cvt.rn.f32.u32 f, b;
  fma.rn.f32 f, f, f, f;
  ex2.approx.ftz.f32 f, f;
  .loc 1 60 1
END:
  ret;
}
)";

const RoleCounts* find(const std::vector<RoleCounts>& roles, const std::string& name) {
  for (const RoleCounts& r : roles) {
    if (r.name == name) return &r;
  }
  ADD_FAILURE() << "no role " << name;
  return nullptr;
}

uint64_t of(const Counts& c, Class kind) { return c.classes[static_cast<size_t>(kind)]; }

class CounterOfRoles : public testing::TestWithParam<Timing> {
 protected:
  void SetUp() override {
    std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(64, 1)};
    RunOptions options = counted();
    options.timing = GetParam();
    options.spurious_wakes = 0;
    const Ran ran = run_module(std::string(kRoles) + kFunctionNames, "k", buffers,
                               {.blocks = {2, 1, 1}, .threads = {96, 1, 1}}, options);
    ASSERT_EQ(ran.error, "");
    roles_ = ran.tally.roles;
    all_ = ran.tally.instructions;
  }
  std::vector<RoleCounts> roles_;
  uint64_t all_ = 0;
};

TEST_P(CounterOfRoles, NumberByNumber) {
  ASSERT_EQ(roles_.size(), 3u);
  const RoleCounts *kernel = find(roles_, "k"), *produce = find(roles_, "produce"),
                   *consume = find(roles_, "consume");
  ASSERT_TRUE(kernel != nullptr && produce != nullptr && consume != nullptr);
  EXPECT_EQ(kernel->warps, 7u);
  EXPECT_EQ(produce->warps, 1u);
  EXPECT_EQ(consume->warps, 6u);

  // Per CTA: seven instructions, a barrier and the end of three warps, two more of one thread, and
  // the branch of two warps.
  const Counts& k = kernel->counts;
  EXPECT_EQ(k.instructions, 2u * (3 * 9 + 2 + 2));
  EXPECT_EQ(of(k, Class::kParam), 2u * 3);
  EXPECT_EQ(k.thread_instructions, 2u * (3 * 9 * 32 + 2 + 2 * 32));
  EXPECT_EQ(k.waits, 2u * 3);

  const Counts& p = produce->counts;
  EXPECT_EQ(p.instructions, 2u * 3);
  EXPECT_EQ(p.thread_instructions, 2u * (1 + 1 + 32));
  EXPECT_EQ(p.copied_bytes, 2u * 256);
  EXPECT_EQ(p.async_shared_written, 2u * 256);
  EXPECT_EQ(p.waits, 0u);

  const Counts& c = consume->counts;
  EXPECT_EQ(c.instructions, 2u * 2 * 8);
  EXPECT_EQ(c.fma, 2u * 2);
  EXPECT_EQ(of(c, Class::kFloat), 2u * 2);
  EXPECT_EQ(of(c, Class::kSpecial), 2u * 2);
  EXPECT_EQ(c.special, 2u * 2 * 32);
  EXPECT_EQ(of(c, Class::kShared), 2u * 2);
  EXPECT_EQ(c.shared_read, 2u * 2 * 32 * 4);
  EXPECT_EQ(c.shared_written, 0u);
  EXPECT_EQ(c.waits, 2u * 2);
  EXPECT_LE(c.blocked, c.waits);
  EXPECT_EQ(c.matrix_flops, 0u);
  EXPECT_EQ(k.instructions + p.instructions + c.instructions, all_);
}
INSTANTIATE_TEST_SUITE_P(Timings, CounterOfRoles,
                         testing::Values(Timing::kEarliest, Timing::kRandom, Timing::kLatest));

TEST(Counter, FunctionsOfTheSameWarpsAreOneRole) {
  std::string text = std::string(kRoles) + kFunctionNames;
  const auto add = [&](const std::string& more) {
    std::string changed = text;
    changed.insert(
        changed.find("  bra END;"),
        "  .loc 1 22 3\n  .loc 1 70 1, function_name $name2, inlined_at 1 22 3\n" + more);
    std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(64, 1)};
    const Ran ran =
        run_module(changed, "k", buffers, {.blocks = {2, 1, 1}, .threads = {96, 1, 1}}, counted());
    EXPECT_EQ(ran.error, "");
    return ran.tally.roles;
  };
  // Two instructions are produce's, three the other function's.
  const auto even = add("  mov.u32 a, 1;\n  add.u32 a, a, 1;\n");
  ASSERT_EQ(even.size(), 3u);
  EXPECT_EQ(even[1].name, "warp 0");
  EXPECT_EQ(even[1].counts.instructions, 2u * 5);
  EXPECT_EQ(even[2].name, "consume");
  std::string many = "  mov.u32 a, 1;\n";
  for (int i = 0; i < 16; ++i) many += "  add.u32 a, a, 1;\n";
  EXPECT_EQ(add(many)[1].name, "helper");
}

TEST(Counter, WithoutLinesRolesAreRangesOfWarps) {
  std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(1024)};
  const std::string body = R"(
    .reg .b64 P, T;
    .reg .b32 tid, a;
    .reg .pred p;
    ld.param.u64 P, [p0];
    mov.u32 tid, %tid.x;
    setp.lt.u32 p, tid, 64;
    @p bra FEW;
    mul.wide.u32 T, tid, 4;
    add.u64 P, P, T;
    mov.u32 a, 1;
    add.u32 a, a, 1;
    add.u32 a, a, 1;
    add.u32 a, a, 1;
    st.global.u32 [P], a;
FEW:
)";
  const Ran ran = run_body(body, buffers, {.threads = {128, 1, 1}}, counted());
  ASSERT_EQ(ran.error, "");
  ASSERT_EQ(ran.tally.roles.size(), 2u);
  EXPECT_EQ(ran.tally.roles[0].name, "warps 0 to 1");
  EXPECT_EQ(ran.tally.roles[1].name, "warps 2 to 3");
  EXPECT_EQ(ran.tally.roles[0].counts.instructions, 2u * 5);
  EXPECT_EQ(ran.tally.roles[1].counts.instructions, 2u * 11);
  EXPECT_EQ(ran.tally.roles[1].counts.global_written, 64u * 4);
}

TEST(Counter, TensorMemoryAndProducts) {
  const Gemm gemm;
  const GemmRun run = run_gemm(gemm, counted());
  ASSERT_EQ(run.error, "");
  Counts all;
  for (const RoleCounts& role : run.tally.roles) all.add(role.counts);
  EXPECT_EQ(all.matrix_flops, run.tally.matrix_flops);
  EXPECT_EQ(all.matrix_flops, uint64_t{2} * gemm.m * gemm.n * 16 * gemm.steps);
  // 320 columns of 128 lanes are filled and dumped; four products write D, all but the first read
  // it.
  const uint64_t columns = uint64_t{128} * 320 * 4, d = uint64_t{gemm.m} * gemm.n * 4;
  EXPECT_EQ(all.tensor_written, columns + gemm.steps * d);
  EXPECT_EQ(all.tensor_read, columns + (gemm.steps - 1) * d);
}

/// Instructions of pairs do two things; what an instruction is taken apart into counts once.
TEST(Counter, PairsCountTwice) {
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(32));
  const Ran ran = run_body(R"(
    .reg .b64 D;
    .reg .b32 d;
    .reg .b16 h;
    mov.b64 D, 0;
    mov.b32 d, 0;
    mov.b16 h, 0;
    fma.rn.f32x2 D, D, D, D;
    fma.rn.f32 d, d, d, d;
    fma.rn.f32.bf16 d, h, h, d;
    ex2.approx.ftz.bf16x2 d, d;
    ex2.approx.ftz.f32 d, d;
  )",
                           buffers, {.threads = {32, 1, 1}}, counted());
  ASSERT_EQ(ran.error, "");
  Counts all;
  for (const RoleCounts& role : ran.tally.roles) all.add(role.counts);
  EXPECT_EQ(all.fma, 2u + 1 + 1);
  EXPECT_EQ(all.special, 32u * (2 + 1));
}

TEST(Counter, NotTogetherWithChecks) {
  std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(1)};
  RunOptions options = counted();
  options.checks = Checks::kErrors;
  const Ran ran = run_body("", buffers, {.threads = {32, 1, 1}}, options);
  EXPECT_NE(ran.error.find("counters and checks; allowed: one of them"), std::string::npos);
}

}  // namespace
}  // namespace fa4::emulator::test
