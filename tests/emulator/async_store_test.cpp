// SPDX-License-Identifier: BSD-3-Clause
// st.async and red.async between the CTAs of a cluster.
#include <gtest/gtest.h>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

/// Each thread of CTA 0 sends to CTA 1, which waits and stores 128 words. `store` may use to (the
/// thread's 16 bytes there), there (an mbarrier there), t, v = 100 + t, V = 2^32 + t.
struct Sent {
  std::string error;
  std::vector<uint32_t> words;
};
Sent send(const std::string& store, uint32_t bytes, const RunOptions& options = {}) {
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(128));
  const Ran ran =
      run_body(R"(
    .reg .b64 P, V, Q;
    .reg .b32 t, v, to, there, here, rank, a, b, c, d;
    .reg .pred p, one;
    .shared .align 16 .b8 data[512];
    .shared .align 8 .b64 bar;
    ld.param.u64 P, [p0];
    mov.u32 t, %tid.x;
    mov.u32 rank, %cluster_ctarank;
    add.u32 v, t, 100;
    cvt.u64.u32 V, t;
    add.u64 V, V, 4294967296;
    shl.b32 to, t, 4;
    mul.wide.u32 Q, t, 16;
    add.u64 P, P, Q;
    mov.u32 here, data;
    add.u32 here, here, to;
    st.shared.v4.u32 [here], {7, 7, 7, 7};
    setp.eq.u32 one, t, 0;
    @one mbarrier.init.shared::cta.b64 [bar], 1;
    setp.eq.and.u32 p, rank, 1, one;
    @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                   std::to_string(bytes) + R"(;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 to, here, 1;
    mov.u32 a, bar;
    mapa.shared::cluster.u32 there, a, 1;
    setp.eq.u32 p, rank, 1;
    @p bra WAIT;
    )" + store + R"(
    bra END;
  WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], 0;
    @!p bra WAIT;
    ld.shared.v4.u32 {a, b, c, d}, [here];
    st.global.v4.u32 [P], {a, b, c, d};
  END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
  )",
               buffers, {.blocks = {2, 1, 1}, .threads = {32, 1, 1}, .cluster = {2, 1, 1}},
               options);
  return {ran.error, buffers[0]};
}

const std::string kForm = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
const std::string kReduce =
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes";

TEST(AsyncStore, BringsValuesAndBytes) {
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    const RunOptions options{.seed = 3, .timing = timing};
    const Sent one = send(kForm + ".b32 [to+4], v, [there];", 32 * 4, options);
    const Sent two = send(kForm + ".v2.u64 [to], {V, V}, [there];", 32 * 16, options);
    const Sent four = send(kForm + ".v4.b32 [to], {t, v, t, v}, [there+0];", 32 * 16, options);
    ASSERT_EQ(one.error + two.error + four.error, "");
    for (uint32_t t = 0; t < 32; ++t) {
      EXPECT_EQ(one.words[4 * t], 7u);
      EXPECT_EQ(one.words[4 * t + 1], 100 + t);
      EXPECT_EQ(two.words[4 * t], t);
      EXPECT_EQ(two.words[4 * t + 3], 1u);
      EXPECT_EQ(four.words[4 * t + 2], t);
      EXPECT_EQ(four.words[4 * t + 3], 100 + t);
    }
  }
}

/// All threads at one place, in any order.
TEST(AsyncStore, Reduces) {
  const std::string first = "mov.u32 a, data;\nmapa.shared::cluster.u32 to, a, 1;\n";
  const Sent sum = send(first + kReduce + ".add.u32 [to], v, [there];", 32 * 4);
  const Sent most = send(first + kReduce + ".max.s32 [to+8], v, [there];", 32 * 4);
  const Sent wide = send(first + kReduce + ".add.u64 [to], V, [there];", 32 * 8);
  ASSERT_EQ(sum.error + most.error + wide.error, "");
  EXPECT_EQ(sum.words[0], 7u + 32 * 100 + 31 * 16);
  EXPECT_EQ(most.words[2], 131u);
  EXPECT_EQ(wide.words[0], 7u + 31 * 16);
  EXPECT_EQ(wide.words[1], 7u + 32);
}

/// Nobody orders what the threads write to one place.
TEST(AsyncStore, MayRace) {
  const std::string error = send("mov.u32 a, data;\nmapa.shared::cluster.u32 to, a, 1;\n" + kForm +
                                     ".b32 [to], v, [there];",
                                 32 * 4)
                                .error;
  EXPECT_NE(error.find("shared-race"), std::string::npos) << error;
}

TEST(AsyncStore, RefusesWhatPtxRefuses) {
  const auto error = [](const std::string& store) { return send(store, 32 * 4).error; };
  EXPECT_NE(error(kForm + ".b32 [to+2], v, [there];").find("not a multiple of 4"),
            std::string::npos);
  EXPECT_NE(error(kForm + ".b32 [to], v, [bar];").find("with an mbarrier of CTA 0"),
            std::string::npos);
  EXPECT_NE(error("st.async.release.gpu.global.b32 [P], v;").find("only .mbarrier::complete_tx"),
            std::string::npos);
  EXPECT_NE(error(kForm + ".v4.b64 [to], {V, V, V, V}, [there];").find("no such form"),
            std::string::npos);
  EXPECT_NE(error(kReduce + ".add.f32 [to], v, [there];").find("no such form"), std::string::npos);
}

}  // namespace
}  // namespace fa4::emulator::test
