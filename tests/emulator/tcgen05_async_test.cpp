// SPDX-License-Identifier: BSD-3-Clause
// tcgen05.cp, shift and commit, the order of operations, and what products refuse.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emulator/kernels/tensor_operand.h"
#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

constexpr uint32_t kColumns = 64;

/// Four warps with 64 columns, which hold (tid << 9 | column). `body` runs in one thread and may
/// use base, smem (the address of 16 KiB, a copy of p0) and bar; then everybody waits for bar and
/// all cells go to p1.
std::string kernel(const std::string& body) {
  return R"(
    .reg .b64 IN, OUT, T, U, DA, DB;
    .reg .b32 tid, warp, base, own, a, v, i, x, smem, bar;
    .reg .pred first, leader, more, done, p;
    .shared .align 1024 .b8 data[16384];
    .shared .align 8 .b64 barrier;
    .shared .align 4 .b32 slot;
    ld.param.u64 IN, [p0];
    ld.param.u64 OUT, [p1];
    mov.u32 tid, %tid.x;
    shr.u32 warp, tid, 5;
    mov.u32 smem, data;
    mov.u32 bar, barrier;
    setp.eq.u32 first, warp, 0;
    setp.eq.u32 leader, tid, 0;
    @!first bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
    @leader mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
ALLOCATED:
    shl.b32 i, tid, 2;
COPY:
    cvt.u64.u32 T, i;
    add.u64 U, IN, T;
    ld.global.u32 v, [U];
    add.u32 a, smem, i;
    st.shared.u32 [a], v;
    add.u32 i, i, 512;
    setp.lt.u32 more, i, 16384;
    @more bra COPY;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 base, [slot];
    shl.b32 own, warp, 21;
    add.u32 own, own, base;
    mov.u32 i, 0;
FILL:
    shl.b32 v, tid, 9;
    or.b32 v, v, i;
    add.u32 a, own, i;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [a], {v};
    add.u32 i, i, 1;
    setp.lt.u32 more, i, 64;
    @more bra FILL;
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
)" + body +
         R"(
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
    @!done bra WAIT;
    tcgen05.fence::after_thread_sync;
    mul.wide.u32 T, tid, 256;
    add.u64 OUT, OUT, T;
    mov.u32 i, 0;
DUMP:
    add.u32 a, own, i;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [a];
    st.global.u32 [OUT], v;
    add.u64 OUT, OUT, 4;
    add.u32 i, i, 1;
    setp.lt.u32 more, i, 64;
    @more bra DUMP;
    tcgen05.wait::ld.sync.aligned;
    bar.sync 0;
    @!first bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 base, 64;
FREED:
)";
}

/// Run by the first thread alone.
std::string by_leader(const std::string& body) {
  return "    @!leader bra LED;\n" + body + "LED:\n";
}

constexpr char kCommit[] =
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n";

struct Cells {
  std::string error;
  std::vector<uint32_t> all;
  uint32_t at(uint32_t lane, uint32_t column) const {
    return all[size_t{lane} * kColumns + column];
  }
};

Cells run_kernel(const std::string& body, const std::vector<uint32_t>& shared,
                 const RunOptions& options = {}) {
  Buffers buffers = {shared, std::vector<uint32_t>(size_t{128} * kColumns)};
  buffers[0].resize(4096);
  const Ran ran = run_body(kernel(body), buffers, {.threads = {128, 1, 1}}, options);
  return {ran.error, buffers[1]};
}

uint32_t initial(uint32_t lane, uint32_t column) { return lane << 9 | column; }

// ---- cp ----------------------------------------------------------------------------------------

struct CopyCase {
  std::string shape;
  uint32_t rows, columns;
  std::vector<std::vector<uint32_t>> lanes;  ///< Of each block of 32 rows (of 1 for 4x256b).
  uint32_t base = 0;
};

std::vector<CopyCase> copy_cases() {
  return {{"128x256b", 128, 8, {{0}, {32}, {64}, {96}}},
          {"128x128b", 128, 4, {{0}, {32}, {64}, {96}}},
          {"64x128b.warpx2::02_13", 64, 4, {{0, 64}, {32, 96}}},
          {"64x128b.warpx2::01_23", 64, 4, {{0, 32}, {64, 96}}},
          {"32x128b.warpx4", 32, 4, {{0, 32, 64, 96}}},
          {"4x256b", 4, 8, {{0}, {32}, {64}, {96}}},
          {"4x256b", 4, 8, {{0}, {32}, {64}, {96}}, 31}};
}

/// Numbers 1000 + row * 16 + column, laid out K-major as 32-bit elements.
TEST(TensorCopy, PutsRowsIntoLanes) {
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B}) {
    for (const CopyCase& c : copy_cases()) {
      const SharedLayout layout{128, 32, 4, false, swizzle};
      std::vector<uint32_t> shared(4096);
      for (uint32_t row = 0; row < 128; ++row) {
        for (uint32_t k = 0; k < 32; ++k) {
          shared[layout.offset_of(row, k) / 4] = 100000 + row * 32 + k;
        }
      }
      // The second 32 bytes of the rows.
      const std::string body = by_leader(
          "mov.b64 DA, " + std::to_string(layout.descriptor(1)) +
          ";\nshr.u32 a, smem, 4;\ncvt.u64.u32 T, a;\nadd.u64 DA, DA, T;\nadd.u32 a, base, " +
          std::to_string(c.base << 16 | 16) + ";\ntcgen05.cp.cta_group::1." + c.shape +
          " [a], DA;\n" + kCommit);
      const Cells cells = run_kernel(body, shared);
      ASSERT_EQ(cells.error, "") << c.shape;
      std::vector<uint32_t> want(size_t{128} * kColumns);
      for (uint32_t lane = 0; lane < 128; ++lane) {
        for (uint32_t k = 0; k < kColumns; ++k) want[lane * kColumns + k] = initial(lane, k);
      }
      const uint32_t block = c.rows == 4 ? 1 : 32;
      for (uint32_t row = 0; row < c.rows; ++row) {
        for (const uint32_t first : c.lanes[row / block]) {
          const uint32_t lane = first + row % block + c.base;
          for (uint32_t k = 0; k < c.columns; ++k) {
            want[lane * kColumns + 16 + k] = 100000 + row * 32 + 8 + k;
          }
        }
      }
      EXPECT_EQ(cells.all, want) << c.shape << ", swizzle " << name_of(swizzle);
    }
  }
}

// ---- shift -------------------------------------------------------------------------------------

TEST(TensorShift, MovesRowsDownButTheLast) {
  const Cells cells =
      run_kernel(by_leader("add.u32 a, base, 0x400008;\ntcgen05.shift.cta_group::1.down [a];\n" +
                           std::string(kCommit)),
                 {});
  ASSERT_EQ(cells.error, "");
  for (uint32_t lane = 0; lane < 128; ++lane) {
    for (uint32_t k = 0; k < kColumns; ++k) {
      const bool moved = lane >= 64 && lane < 95 && k >= 8 && k < 16;
      EXPECT_EQ(cells.at(lane, k), initial(lane + (moved ? 1 : 0), k)) << lane << ", " << k;
    }
  }
}

// ---- commit, order -----------------------------------------------------------------------------

/// D = A B with all elements 1: 16 in columns 32 to 39, one product.
std::string one_product(const std::string& adds = "0") {
  const SharedLayout layout{128, 16, 2, false, Swizzle::kNone};
  return "mov.b64 DA, " + std::to_string(layout.descriptor(0)) +
         ";\nshr.u32 a, smem, 4;\ncvt.u64.u32 T, a;\nadd.u64 DA, DA, T;\nadd.u32 a, base, 32;\n"
         "tcgen05.mma.cta_group::1.kind::f16 [a], DA, DA, 0x8020490, " +
         adds + ";\n";
}
const std::vector<uint32_t> kOnes(4096, 0x3f803f80);

RunOptions at(Timing timing, uint64_t seed = 0) {
  RunOptions options;
  options.timing = timing;
  options.seed = seed;
  return options;
}

TEST(TensorCommit, TracksTheThreadsOperations) {
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    const Cells cells =
        run_kernel(by_leader(one_product() + one_product("1") + kCommit), kOnes, at(timing));
    ASSERT_EQ(cells.error, "");
    EXPECT_EQ(cells.at(5, 33), 0x42000000u);  // 32
    EXPECT_EQ(cells.at(5, 31), initial(5, 31));
  }
}

/// Another thread's commit says nothing about this one's product.
TEST(TensorCommit, DoesNotTrackOthers) {
  const std::string body = R"(
    @!leader bra ISSUED;
)" + one_product() + R"(
ISSUED:
    bar.sync 0;
    setp.eq.u32 p, tid, 32;
    @!p bra COMMITTED;
)" + kCommit + R"(
COMMITTED:
)";
  bool early = false;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const Cells cells = run_kernel(body, kOnes, at(Timing::kRandom, seed));
    // It may also complete after the columns are free.
    early |= !cells.error.empty() || cells.at(5, 33) == initial(5, 33);
  }
  EXPECT_TRUE(early);
}

/// cp after a product that reads the same shared memory or writes the same cells: no order.
TEST(TensorOrder, CopyMayOvertakeAProduct) {
  const Unjudged unjudged;
  const SharedLayout layout{128, 4, 4, false, Swizzle::kNone};
  const std::string copy = "mov.b64 DB, " + std::to_string(layout.descriptor(0)) +
                           ";\nshr.u32 x, smem, 4;\ncvt.u64.u32 T, x;\nadd.u64 DB, DB, T;\n"
                           "tcgen05.cp.cta_group::1.128x128b [a], DB;\n";
  const auto results = [&](const std::string& body) {
    std::pair<bool, bool> seen{false, false};
    for (uint64_t seed = 0; seed < 32; ++seed) {
      const Cells cells = run_kernel(by_leader(body), kOnes, at(Timing::kRandom, seed));
      EXPECT_EQ(cells.error, "");
      (cells.at(9, 32) == 0x3f803f80 ? seen.first : seen.second) = true;
    }
    return seen;
  };
  EXPECT_EQ(results(one_product() + copy + kCommit), std::make_pair(true, true));
  // The other way round, the order is guaranteed.
  EXPECT_EQ(results("add.u32 a, base, 32;\n" + copy + one_product() + kCommit),
            std::make_pair(false, true));
}

TEST(TensorCommit, OfNothingArrivesAtOnce) {
  EXPECT_EQ(run_kernel(by_leader(kCommit), {}, at(Timing::kLatest)).error, "");
}

// ---- what is refused ---------------------------------------------------------------------------

/// The error of one product with the instruction descriptor and the descriptors' upper words.
std::string refusal(const std::string& kind, const std::string& idesc, const std::string& upper,
                    const std::string& rest = "", const std::string& d = "base") {
  return run_kernel(
             by_leader("mov.b64 DA, " + upper +
                       ";\nshr.u32 a, smem, 4;\ncvt.u64.u32 T, a;\nadd.u64 DA, DA, T;\n" +
                       "add.u32 a, base, 0x100000;\n" + "tcgen05.mma.cta_group::1.kind::" + kind +
                       " [" + d + "], DA, DA, " + idesc + ", " + rest + "0;\n" + kCommit),
             kOnes)
      .error;
}

TEST(TensorProductErrors, NameTheField) {
  const std::string good = "0x4000404000080008";  // 128B, SBO 1024, LBO 128, version 1
  const auto expect = [&](const std::string& error, const std::string& message) {
    EXPECT_NE(error.find(message), std::string::npos) << message << "\n" << error;
  };
  expect(refusal("f16", "0x8020494", good), "sparse matrices are not supported");
  expect(refusal("f16", "0x80204d0", good), "bit 6, 23 or 29 is set");
  expect(refusal("f16", "0x48020490", good), "a shift of B outside .ws");
  expect(refusal("f16", "0x8020690", good), "type 5 of A; allowed: 0 (f16), 1 (bf16)");
  expect(refusal("tf32", "0x8020490", good), "type 1 of A; allowed: 2 (tf32)");
  expect(refusal("f8f6f4", "0x8020190", good), "6- and 4-bit type 3 of A is not supported");
  expect(refusal("f16", "0x80204a0", good), "type 2 of D with this kind");
  expect(refusal("f16", "0x8020480", good), "a f16 result of bf16 operands");
  expect(refusal("f16", "0x10020490", good), "M 256, N 8; allowed M: 64, 128");
  expect(refusal("f16", "0x8000490", good), "N 0; allowed N: multiples of 8 up to 256");
  expect(refusal("i8", "0x8022020", good), "negation of integers");
  expect(refusal("f16", "0x8020498", good), "saturation of a floating-point type");
  expect(refusal("f16", "0x8020490", "0x4000004000080008"), "bits 46-48 are not 0b001");
  expect(refusal("f16", "0x8020490", "0x6000404000080008"), "swizzle 3");
  expect(refusal("f16", "0x8020490", "0x4002404000080008"), "a base offset is not supported");
  expect(refusal("f16", "0x8020490", "0x4010404000080008"), "absolute leading dimension");
  expect(refusal("f16", "0x8028490", "0x2000404000080008"), "A is transposed with swizzle 1");
  expect(refusal("tf32", "0x8028910", good), "allowed: 1 alone for 32-bit types");
  expect(refusal("f16", "0x8020490", good, "", "a"), "lane 16; allowed: lane 0");
  expect(refusal("f16", "0x8100490", good, "", "base+32"), "columns [32, 96) are not allocated");
  // SBO 16 KiB: the second eight rows lie behind the end.
  expect(refusal("f16", "0x8020490", "0x4000440000080008"), "outside the CTA's shared memory");
}

TEST(TensorProductErrors, UnwrittenMemory) {
  const Unjudged unjudged;
  const std::string body = R"(
    .reg .b64 D;
    .reg .b32 t;
    .reg .pred one;
    .shared .align 1024 .b8 data[4096];
    .shared .align 4 .b32 slot;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    ld.shared.u32 t, [slot];
    elect.sync _|one, 0xffffffff;
    mov.b64 D, 0x0000400800800040;
    @one tcgen05.mma.cta_group::1.kind::f16 [t], WHAT;
)";
  const auto error_of = [&](const std::string& what) {
    std::string text = body;
    text.replace(text.find("WHAT"), 4, what);
    Buffers buffers(1, std::vector<uint32_t>(1));
    RunOptions options;
    options.timing = Timing::kEarliest;
    return run_body(text, buffers, {.threads = {32, 1, 1}}, options).error;
  };
  EXPECT_NE(error_of("D, D, 0x8020490, 1").find("adds to tensor memory that nobody wrote"),
            std::string::npos);
  EXPECT_NE(error_of("[t], D, 0x8020490, 0").find("A reads tensor memory that nobody wrote"),
            std::string::npos);
}

TEST(TensorProductErrors, ManyThreads) {
  const std::string error =
      run_kernel(
          "    @!first bra LED;\nmov.b64 DA, 0;\n"
          "tcgen05.mma.cta_group::1.kind::f16 [base], DA, DA, 0x8020490, 0;\nLED:\n",
          {})
          .error;
  EXPECT_NE(error.find("a single thread must"), std::string::npos) << error;
}

TEST(TensorForms, UnsupportedOnesAreNamed) {
  const auto expect = [](const std::string& text, const std::string& message) {
    const std::string error = load_error(".reg .b64 D;\n.reg .b32 t, r<9>;\n" + text);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  expect("tcgen05.mma.ws.cta_group::1.kind::f16 [t], D, D, t, 0;", "ws is not supported");
  expect("tcgen05.mma.sp.cta_group::1.kind::f16 [t], D, D, [t], t, 0;", "sp is not supported");
  expect("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [t], D, D, t, [t], [t], 0;",
         "block_scale is not supported");
  expect("tcgen05.mma.cta_group::1.kind::f16 [t], D, D, t, {r0, r1}, 0;",
         "2 words of disabled lanes; allowed: 4");
  expect("tcgen05.mma.cta_group::1.kind::f8f6f4 [t], D, D, t, 0, 1;", "scale-input-d goes with");
  expect("tcgen05.mma.kind::f16 [t], D, D, t, 0;", "cta_group::1 or .cta_group::2 is wanted");
  expect("tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32 [t], D;", "decompression");
  expect("tcgen05.cp.cta_group::1.64x128b [t], D;", "a shape is wanted");
  expect("tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1}, [t];", "2 registers; the shape has 4");
  expect("tcgen05.ld.sync.aligned.16x256b.x64.b32 {r0}, [t];", "more than 128 registers");
  expect("tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [D];", "has 32 bits");
  expect("tcgen05.ld.red.sync.aligned.16x64b.x2.max.f32 {r0, r1}, r2, [t];", ".red goes with");
  expect("tcgen05.frobnicate.cta_group::1;", "this form is not known");
}

}  // namespace
}  // namespace fa4::emulator::test
