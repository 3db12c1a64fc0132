// SPDX-License-Identifier: BSD-3-Clause
// Tensor memory: allocation, loads and stores in every shape, who may touch what.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

/// Four warps with 512 columns at `base`; `own` is the address of the warp's first lane. OUT is the
/// buffer's address, tid and lane are what they say.
std::string with_memory(const std::string& body) {
  return R"(
    .reg .b64 OUT, ADR, T;
    .reg .b32 tid, lane, warp, base, own, a, v, i, r<128>;
    .reg .pred other, more;
    .shared .align 4 .b32 slot;
    ld.param.u64 OUT, [p0];
    mov.u32 tid, %tid.x;
    and.b32 lane, tid, 31;
    shr.u32 warp, tid, 5;
    setp.ne.u32 other, warp, 0;
    @other bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
    bar.sync 0;
    ld.shared.u32 base, [slot];
    shl.b32 own, warp, 21;
    add.u32 own, own, base;
)" + body +
         R"(
    bar.sync 0;
    @other bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 base, 512;
FREED:
)";
}

/// Stores tid << 9 | column, upper half `upper`, to all cells.
std::string fill(const std::string& upper) {
  return R"(
    mov.u32 i, 0;
FILL:
    shl.b32 v, tid, 9;
    or.b32 v, v, i;
    or.b32 v, v, )" +
         upper + R"(;
    add.u32 a, own, i;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [a], {v};
    add.u32 i, i, 1;
    setp.lt.u32 more, i, 512;
    @more bra FILL;
    tcgen05.wait::st.sync.aligned;
)";
}

std::string registers(uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) text += (i > 0 ? ", r" : "r") + std::to_string(i);
  return text + "}";
}

/// The bits that a warp moves are numbered row by row: `thread` are the strides of the thread
/// number's bits 0-4, `value` those of the register number's bits, in units of 32 bits.
struct ShapeCase {
  std::string shape;
  uint32_t count;  ///< Of .x
  bool packed;
  uint32_t registers;
  uint32_t rows;
  uint32_t columns;  ///< Of one half.
  uint32_t split;    ///< .16x32bx2: distance of the halves; else 0.

  struct Cell {
    uint32_t row, column;
  };
  Cell cell(uint32_t t, uint32_t r) const {
    const uint32_t words = packed ? columns / 2 : columns;  ///< Registers in a row.
    uint32_t at = 0;
    if (shape == "32x32b") {
      at = t * words + r;
    } else if (shape == "16x64b") {
      at = (t & 1) * 8 * words + (t >> 1 & 1) + (t >> 2) * words + 2 * r;
    } else if (shape == "16x128b") {
      at = (t & 3) + (t >> 2) * words + (r & 1) * 8 * words + (r >> 1) * 4;
    } else if (shape == "16x256b") {
      at = (t & 3) * 2 + (t >> 2) * words + (r & 1) + (r >> 1 & 1) * 8 * words + (r >> 2) * 8;
    } else {
      at = (t & 15) * words + r;
    }
    const uint32_t column = at % words * (packed ? 2 : 1);
    return {at / words, column + (t >> 4) * split};
  }
  std::string suffix() const { return shape + ".x" + std::to_string(count); }
};

std::vector<ShapeCase> shape_cases() {
  struct Shape {
    const char* name;
    uint32_t registers, rows, columns;
  };
  std::vector<ShapeCase> cases;
  for (const Shape& s :
       {Shape{"32x32b", 1, 32, 1}, Shape{"16x64b", 1, 16, 2}, Shape{"16x128b", 2, 16, 4},
        Shape{"16x256b", 4, 16, 8}, Shape{"16x32bx2", 1, 16, 1}}) {
    for (uint32_t count = 1; s.registers * count <= 128; count *= 2) {
      for (const bool packed : {false, true}) {
        const uint32_t columns = s.columns * count * (packed ? 2 : 1);
        const bool halves = s.name == std::string("16x32bx2");
        const uint32_t split = halves ? (2 * columns + 5 <= 512 ? columns + 5 : columns) : 0;
        cases.push_back({s.name, count, packed, s.registers * count, s.rows, columns, split});
      }
    }
  }
  return cases;
}

class Shapes : public testing::TestWithParam<ShapeCase> {};
INSTANTIATE_TEST_SUITE_P(All, Shapes, testing::ValuesIn(shape_cases()), [](const auto& it) {
  return std::string("s") + it.param.shape + "_x" + std::to_string(it.param.count) +
         (it.param.packed ? "_packed" : "");
});

TEST_P(Shapes, LoadsWhatLiesThere) {
  const ShapeCase& c = GetParam();
  for (const uint32_t half : {0u, 16u}) {
    if (half != 0 && c.rows == 32) continue;
    std::string body = fill("0xa5a50000") + "add.u32 a, own, " + std::to_string(half << 16) + ";\n";
    body += "tcgen05.ld.sync.aligned." + c.suffix() + (c.packed ? ".pack::16b" : "") + ".b32 " +
            registers(c.registers) + ", [a]" + (c.split > 0 ? ", " + std::to_string(c.split) : "") +
            ";\ntcgen05.wait::ld.sync.aligned;\n";
    body += "mul.wide.u32 T, tid, " + std::to_string(4 * c.registers) + ";\nadd.u64 ADR, OUT, T;\n";
    for (uint32_t r = 0; r < c.registers; ++r) {
      body += "st.global.u32 [ADR+" + std::to_string(4 * r) + "], r" + std::to_string(r) + ";\n";
    }
    Buffers buffers(1, std::vector<uint32_t>(size_t{128} * c.registers));
    const Ran ran = run_body(with_memory(body), buffers, {.threads = {128, 1, 1}});
    ASSERT_EQ(ran.error, "");
    for (uint32_t thread = 0; thread < 128; ++thread) {
      for (uint32_t r = 0; r < c.registers; ++r) {
        const ShapeCase::Cell cell = c.cell(thread % 32, r);
        const uint32_t lane = thread / 32 * 32 + half + cell.row;
        const uint32_t low = lane << 9 | cell.column;
        const uint32_t want = c.packed ? (low + 1) << 16 | low : 0xa5a50000 | low;
        ASSERT_EQ(buffers[0][size_t{thread} * c.registers + r], want)
            << "thread " << thread << ", register " << r << ", lanes from " << half;
      }
    }
  }
}

TEST_P(Shapes, StoresWhereTheyShould) {
  const ShapeCase& c = GetParam();
  std::string body = fill("0");
  for (uint32_t r = 0; r < c.registers; ++r) {
    std::string reg(1, 'r');
    reg += std::to_string(r);
    // Two halves that tell thread and register, and differ.
    body += "shl.b32 " + reg + ", tid, 7;\nadd.u32 " + reg + ", " + reg + ", " + std::to_string(r) +
            ";\nmul.lo.u32 " + reg + ", " + reg + ", 0x30002;\n";
  }
  body += "tcgen05.st.sync.aligned." + c.suffix() + (c.packed ? ".unpack::16b" : "") +
          ".b32 [own]" + (c.split > 0 ? ", " + std::to_string(c.split) : "") + ", " +
          registers(c.registers) + ";\ntcgen05.wait::st.sync.aligned;\n";
  body += R"(
    mul.wide.u32 T, tid, 2048;
    add.u64 ADR, OUT, T;
    mov.u32 i, 0;
DUMP:
    add.u32 a, own, i;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [a];
    tcgen05.wait::ld.sync.aligned;
    st.global.u32 [ADR], v;
    add.u64 ADR, ADR, 4;
    add.u32 i, i, 1;
    setp.lt.u32 more, i, 512;
    @more bra DUMP;
)";
  Buffers buffers(1, std::vector<uint32_t>(size_t{128} * 512));
  const Ran ran = run_body(with_memory(body), buffers, {.threads = {128, 1, 1}});
  ASSERT_EQ(ran.error, "");
  std::vector<uint32_t> want(size_t{128} * 512);
  for (uint32_t lane = 0; lane < 128; ++lane) {
    for (uint32_t column = 0; column < 512; ++column) {
      want[size_t{lane} * 512 + column] = lane << 9 | column;
    }
  }
  for (uint32_t thread = 0; thread < 128; ++thread) {
    for (uint32_t r = 0; r < c.registers; ++r) {
      const ShapeCase::Cell cell = c.cell(thread % 32, r);
      const uint32_t value = (thread << 7 | r) * 0x30002;
      uint32_t* at = &want[size_t{thread / 32 * 32 + cell.row} * 512 + cell.column];
      at[0] = c.packed ? value & 0xffff : value;
      if (c.packed) at[1] = value >> 16;
    }
  }
  EXPECT_EQ(buffers[0], want);
}

// ---- reductions --------------------------------------------------------------------------------

uint32_t reduced(const std::string& form, const std::vector<uint32_t>& values) {
  std::string body;
  for (uint32_t i = 0; i < 4; ++i) {
    body += "mov.b32 r" + std::to_string(i) + ", " + std::to_string(values[i]) + ";\n";
  }
  body +=
      "tcgen05.st.sync.aligned.32x32b.x4.b32 [own], " + registers(4) +
      ";\ntcgen05.wait::st.sync.aligned;\ntcgen05.ld.red.sync.aligned.32x32b.x4." + form +
      " {r4, r5, r6, r7}, r8, [own];\ntcgen05.wait::ld.sync.aligned;\nst.global.u32 [OUT], r8;\n";
  Buffers buffers(1, std::vector<uint32_t>(1));
  const Ran ran = run_body(with_memory(body), buffers, {.threads = {128, 1, 1}});
  EXPECT_EQ(ran.error, "");
  return buffers[0][0];
}

TEST(TensorLoadReduce, OverARow) {
  const Unjudged unjudged;  // all warps store to one place
  const std::vector<uint32_t> integers = {3, 0xfffffff0, 7, 5};
  EXPECT_EQ(reduced("max.u32", integers), 0xfffffff0);
  EXPECT_EQ(reduced("max.s32", integers), 7u);
  EXPECT_EQ(reduced("min.u32", integers), 3u);
  EXPECT_EQ(reduced("min.s32", integers), 0xfffffff0);
  const std::vector<uint32_t> floats = {0x3f800000, 0xc0000000, 0x7fc00000, 0x3f000000};
  EXPECT_EQ(reduced("max.f32", floats), 0x3f800000u);
  EXPECT_EQ(reduced("min.f32", floats), 0xc0000000u);
  EXPECT_EQ(reduced("max.abs.f32", floats), 0x40000000u);
  EXPECT_EQ(reduced("max.NaN.f32", floats), 0x7fffffffu);
}

// ---- misuse ------------------------------------------------------------------------------------

std::string error_of(const std::string& body) {
  Buffers buffers(1, std::vector<uint32_t>(128));
  return run_body(with_memory(body), buffers, {.threads = {128, 1, 1}}).error;
}

TEST(TensorMemoryErrors, AnotherWarpsLanes) {
  EXPECT_NE(error_of("tcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [base];")
                .find("names lane 0; allowed for warp "),
            std::string::npos);
  EXPECT_NE(error_of("add.u32 a, own, 0x80000;\ntcgen05.ld.sync.aligned.16x64b.x1.b32 {v}, [a];")
                .find("allowed for warp"),
            std::string::npos);
}

TEST(TensorMemoryErrors, BeyondTheLastColumn) {
  EXPECT_NE(error_of("tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, r1}, [own+511];")
                .find("columns [511, 513) are not allocated"),
            std::string::npos);
}

TEST(TensorMemoryErrors, NotAllLanes) {
  EXPECT_NE(error_of("setp.eq.u32 more, lane, 3;\n@more tcgen05.wait::ld.sync.aligned;")
                .find("all 32 threads"),
            std::string::npos);
}

TEST(TensorMemoryErrors, AddressDiffersBetweenLanes) {
  EXPECT_NE(error_of("add.u32 a, own, lane;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [a];")
                .find("allowed: one value for the warp"),
            std::string::npos);
}

TEST(TensorMemoryErrors, OtherGroup) {
  EXPECT_NE(error_of("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;")
                .find("cta_group::2 in a kernel that has used cta_group::1"),
            std::string::npos);
}

/// One warp, one instruction after the other.
std::string run_one_warp(const std::string& body) {
  Buffers buffers(1, std::vector<uint32_t>(32));
  return run_body(R"(
    .reg .b64 OUT;
    .reg .b32 t, u;
    .shared .align 4 .b32 slot;
    .shared .align 4 .b32 other;
    ld.param.u64 OUT, [p0];
)" + body,
                  buffers)
      .error;
}

const std::string kAlloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], ";
const std::string kDealloc = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 t, ";
const std::string kAddress = "ld.shared.u32 t, [slot];\n";

TEST(TensorAllocation, ComesAndGoes) {
  EXPECT_EQ(run_one_warp(kAlloc + "64;\n" + kAddress + kDealloc + "64;"), "");
  EXPECT_EQ(run_one_warp(kAlloc + "512;\n" + kAddress + kDealloc + "512;\n" + kAlloc + "512;\n" +
                         kAddress + kDealloc + "512;"),
            "");
}

TEST(TensorAllocation, Errors) {
  const auto expect = [](const std::string& body, const std::string& message) {
    const std::string error = run_one_warp(body);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  expect(kAlloc + "48;", "48 columns of tensor memory; allowed: a power of two from 32 to 512");
  expect(kAlloc + "16;", "a power of two from 32 to 512");
  expect(kAlloc + "1024;", "a power of two from 32 to 512");
  expect(kAlloc + "32;", "exits with tensor memory columns [0, 32) still allocated");
  expect(kAlloc + "32;\n" + kAddress + kDealloc + "32;\n" + kDealloc + "32;", "is no allocation");
  expect(kAlloc + "64;\n" + kAddress + kDealloc + "32;", "is no allocation");
  expect(kAlloc + "32;\n" + kAddress + kDealloc + "32;\n" + kAlloc + "64;",
         "64 columns after an allocation of 32");
  expect("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + kAlloc + "32;",
         "after tcgen05.relinquish_alloc_permit");
  expect(kAlloc + "32;\n" + kAddress + kDealloc + "32;\n" +
             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {u}, [t];",
         "not allocated; allocated is nothing");
  expect(kAlloc + "512;\n" + kAlloc + "512;", "free columns of tensor memory");
  expect("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;",
         "which has no CTA 1");
}

/// Warp 1 asks for what warp 0 has, and gets it once that is freed.
TEST(TensorAllocation, BlocksUntilThereIsRoom) {
  const std::string body = R"(
    .reg .b64 OUT;
    .reg .b32 t, warp;
    .reg .pred first;
    .shared .align 4 .b32 slots[2];
    ld.param.u64 OUT, [p0];
    mov.u32 warp, %tid.x;
    shr.u32 warp, warp, 5;
    setp.eq.u32 first, warp, 0;
    @!first bra SECOND;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots], 256;
    bar.sync 0;
    ld.shared.u32 t, [slots];
    bar.sync 1, 64;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 t, 256;
    bra DONE;
SECOND:
    bar.sync 0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots+4], 256;
    bar.sync 1, 64;
    ld.shared.u32 t, [slots+4];
    st.global.u32 [OUT], t;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 t, 256;
DONE:
)";
  Buffers buffers(1, std::vector<uint32_t>(1));
  EXPECT_EQ(run_body(body, buffers, {.threads = {64, 1, 1}}).error, "");
  EXPECT_EQ(buffers[0][0], 256u);
}

constexpr char kPair[] = R"(
    .reg .b64 OUT, T;
    .reg .b32 t, rank;
    .shared .align 4 .b32 slot;
    ld.param.u64 OUT, [p0];
    mov.u32 rank, %cluster_ctarank;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
    ld.shared.u32 t, [slot];
    mul.wide.u32 T, rank, 4;
    add.u64 OUT, OUT, T;
    st.global.u32 [OUT], t;
    BEFORE
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 t, 128;
    AFTER
)";

std::string pair_of(const char* before, const char* after) {
  std::string text = kPair;
  text.replace(text.find("BEFORE"), 6, before);
  text.replace(text.find("AFTER"), 5, after);
  return text;
}

TEST(TensorAllocation, OfAPair) {
  const char* barrier = "barrier.cluster.arrive;\nbarrier.cluster.wait;";
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Buffers buffers(1, std::vector<uint32_t>(2, 77));
      const LaunchConfig config{.blocks = {2, 1, 1}, .threads = {32, 1, 1}, .cluster = {2, 1, 1}};
      RunOptions options;
      options.seed = seed;
      options.timing = timing;
      EXPECT_EQ(run_body(pair_of(barrier, ""), buffers, config, options).error, "");
      EXPECT_EQ(buffers[0], (std::vector<uint32_t>{0, 0}));
    }
  }
}

/// PTX ISA 9.7.16.5, table 48: one CTA waits at the cluster barrier first, the other deallocates
/// first. That hangs if deallocation waits for the peer, as it may.
TEST(TensorAllocation, DeallocationOfAPairMayBlock) {
  const std::string body = pair_of(R"(
    .reg .pred even;
    setp.eq.u32 even, rank, 0;
    @!even bra FREE;
    barrier.cluster.arrive;
    barrier.cluster.wait;
FREE:
)",
                                   R"(
    @even bra DONE;
    barrier.cluster.arrive;
    barrier.cluster.wait;
DONE:
)");
  Buffers buffers(1, std::vector<uint32_t>(2));
  const LaunchConfig config{.blocks = {2, 1, 1}, .threads = {32, 1, 1}, .cluster = {2, 1, 1}};
  RunOptions options;
  options.timing = Timing::kLatest;
  const std::string error = run_body(body, buffers, config, options).error;
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
  options.timing = Timing::kEarliest;
  EXPECT_EQ(run_body(body, buffers, config, options).error, "");
}

// ---- loads and stores take their time ----------------------------------------------------------

/// What a load gives whose cell is overwritten before its register is used, over many schedules.
std::pair<bool, bool> old_and_new(const std::string& between, bool late_loads = true) {
  std::pair<bool, bool> seen{false, false};
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Buffers buffers(1, std::vector<uint32_t>(1));
    const std::string body =
        "mov.u32 v, 1;\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};\n"
        "tcgen05.wait::st.sync.aligned;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [own];\n" +
        between +
        "mov.u32 v, 2;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};\n"
        "tcgen05.wait::st.sync.aligned;\nst.global.u32 [OUT], r0;\n";
    RunOptions options;
    options.timing = seed % 2 == 0 ? Timing::kLatest : Timing::kRandom;
    options.seed = seed;
    options.late_loads = late_loads;
    EXPECT_EQ(run_body(with_memory(body), buffers, {.threads = {128, 1, 1}}, options).error, "");
    (buffers[0][0] == 1 ? seen.first : seen.second) = true;
  }
  return seen;
}

TEST(TensorLoad, IsAsynchronous) {
  const Unjudged unjudged;
  EXPECT_EQ(old_and_new(""), std::make_pair(true, true));
  EXPECT_EQ(old_and_new("", false), std::make_pair(true, false));
  EXPECT_EQ(old_and_new("tcgen05.wait::ld.sync.aligned;\n"), std::make_pair(true, false));
}

/// PTX ISA 9.7.16.6.4.5: a use of the register is enough.
TEST(TensorLoad, IsThereForWhoUsesIt) {
  const Unjudged unjudged;
  EXPECT_EQ(old_and_new("add.u32 r1, r0, 1;\n"), std::make_pair(true, false));
}

/// A store in flight when its columns are freed.
TEST(TensorStore, AfterDeallocation) {
  const Unjudged unjudged;
  RunOptions options;
  options.timing = Timing::kLatest;
  Buffers buffers(1, std::vector<uint32_t>(1));
  const std::string body = "mov.u32 v, 1;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};\n";
  const std::string error =
      run_body(with_memory(body), buffers, {.threads = {128, 1, 1}}, options).error;
  EXPECT_NE(error.find("not allocated; allocated is nothing"), std::string::npos) << error;
}

/// Without wait::st a load may see what was there before.
TEST(TensorStore, IsAsynchronous) {
  const Unjudged unjudged;
  const auto run = [](const char* wait, Timing timing, bool late_stores = true) {
    Buffers buffers(1, std::vector<uint32_t>(1));
    const std::string body = std::string(
                                 "mov.u32 v, 1;\n"
                                 "tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};\n"
                                 "tcgen05.wait::st.sync.aligned;\nmov.u32 v, 2;\n"
                                 "tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {v};\n") +
                             wait +
                             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [own];\n"
                             "tcgen05.wait::ld.sync.aligned;\nst.global.u32 [OUT], r0;\n"
                             "tcgen05.wait::st.sync.aligned;\n";
    const RunOptions options{.timing = timing, .late_stores = late_stores};
    EXPECT_EQ(run_body(with_memory(body), buffers, {.threads = {128, 1, 1}}, options).error, "");
    return buffers[0][0];
  };
  const char* wait = "tcgen05.wait::st.sync.aligned;\n";
  EXPECT_EQ(run(wait, Timing::kLatest), 2u);
  EXPECT_EQ(run(wait, Timing::kEarliest), 2u);
  EXPECT_EQ(run("", Timing::kEarliest), 2u);
  EXPECT_EQ(run("", Timing::kLatest), 1u);
  EXPECT_EQ(run("", Timing::kLatest, false), 2u);
}

}  // namespace
}  // namespace fa4::emulator::test
