// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps and the copies that use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "emulator/ptx_kernel.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::test {
namespace {

uint32_t word_of(const TensorMapBytes& bytes, size_t i) {
  uint32_t w = 0;
  std::memcpy(&w, bytes.data() + 4 * i, 4);
  return w;
}

TEST(TensorMap, HasTheHardwaresFields) {
  TensorMapSpec s;
  s.address = 0x7f0123456780;
  s.type = MapType::kBF16;
  s.rank = 3;
  s.dims = {128, 1000, 7, 1, 1};
  s.strides = {2, 256, uint64_t{5} << 36, 0, 0};
  s.box = {64, 80, 7, 1, 1};
  s.element_strides = {1, 2, 3, 1, 1};
  s.swizzle = Swizzle::k128;
  s.nan_fill = true;
  const auto bytes = encode_tensor_map(s);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(word_of(*bytes, 0), 0x23456780u);
  EXPECT_EQ(word_of(*bytes, 1), 0x7f01u);
  const uint32_t header = word_of(*bytes, 2);
  EXPECT_EQ(header >> 4 & 7, 2u);    // rank - 1
  EXPECT_EQ(header >> 7 & 15, 10u);  // bfloat16
  EXPECT_EQ(header >> 11 & 3, 0u);   // no interleave
  EXPECT_EQ(header >> 13 & 3, 3u);   // 128 bytes
  EXPECT_EQ(header >> 15 & 1, 1u);   // NaN
  EXPECT_EQ(word_of(*bytes, 3), 256u >> 4);
  EXPECT_EQ(word_of(*bytes, 4), 0u);
  EXPECT_EQ(word_of(*bytes, 7), 0x50u);  // upper bits of strides
  EXPECT_EQ(word_of(*bytes, 8), 127u);
  EXPECT_EQ(word_of(*bytes, 9), 999u);
  EXPECT_EQ(word_of(*bytes, 13) >> 24, 63u);
  EXPECT_EQ(word_of(*bytes, 13) & 0x7fff, 0u | 1u << 3 | 2u << 6);
  EXPECT_EQ(word_of(*bytes, 14), 79u | 6u << 8);
  EXPECT_EQ(word_of(*bytes, 16), 64u * 2 * 40 * 2);  // as the driver counts
  EXPECT_EQ(word_of(*bytes, 18), 1024u);

  TensorMapBytes without = *bytes;  // of a driver that leaves them
  std::fill(without.begin() + 64, without.end(), std::byte{0});
  EXPECT_EQ(decode_tensor_map(without).dims, s.dims);
  const TensorMapSpec back = decode_tensor_map(*bytes);
  EXPECT_EQ(back.address, s.address);
  EXPECT_EQ(back.dims, s.dims);
  EXPECT_EQ(back.strides, s.strides);
  EXPECT_EQ(back.box, s.box);
  EXPECT_EQ(back.element_strides, s.element_strides);
  EXPECT_EQ(back.swizzle, s.swizzle);
}

TEST(TensorMap, HasEverySwizzle) {
  for (int i = 0; i <= static_cast<int>(Swizzle::k128Atom64); ++i) {
    TensorMapSpec s;
    s.box[0] = 16;
    s.dims[0] = 16;
    s.swizzle = static_cast<Swizzle>(i);
    EXPECT_EQ(decode_tensor_map(encode_tensor_map(s).value()).swizzle, s.swizzle);
  }
}

/// Maps of others may have fields that copies here cannot follow: the error says which.
TEST(TensorMap, NamesTheFieldThatItCannotFollow) {
  TensorMapSpec s;
  s.box[0] = 16;
  s.dims[0] = 16;
  const TensorMapBytes good = encode_tensor_map(s).value();
  const auto said = [&](uint32_t clear, uint32_t set) -> std::string {
    TensorMapBytes bytes = good;
    const uint32_t header = (word_of(bytes, 2) & ~clear) | set;
    std::memcpy(bytes.data() + 8, &header, 4);
    try {
      decode_tensor_map(bytes);
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "";
  };
  EXPECT_EQ(said(0, 0), "");
  EXPECT_EQ(said(0, 1u << 11), "tensor map: interleave is 16 bytes; allowed: none");
  EXPECT_EQ(said(0, 2u << 11), "tensor map: interleave is 32 bytes; allowed: none");
  EXPECT_NE(said(15u << 7, 7u << 7 | 1u << 16).find("element type is tf32"), std::string::npos);
  EXPECT_NE(said(15u << 7, 14u << 7).find("element type is number 14"), std::string::npos);
  EXPECT_NE(said(0, 7u << 4).find("rank is 8; allowed: 1 to 5"), std::string::npos);
  EXPECT_NE(said(0, 1u << 19).find("swizzle atomicity is 1"), std::string::npos);
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  TensorMapSpec good;
  good.rank = 2;
  good.dims = {64, 8, 1, 1, 1};
  good.strides = {2, 128, 0, 0, 0};
  good.box = {64, 8, 1, 1, 1};
  ASSERT_TRUE(encode_tensor_map(good).ok());
  const auto refused = [&](auto change) {
    TensorMapSpec s = good;
    change(s);
    return !encode_tensor_map(s).ok();
  };
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.address = 8; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.rank = 6; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.dims[1] = 0; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box[1] = 257; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box[0] = 4; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.strides[1] = 24; }));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.swizzle = Swizzle::k64; }));
}

/// A tensor of 32-bit numbers, [rows][columns], loaded in one box; what shared memory holds then.
struct Box {
  Swizzle swizzle = Swizzle::kOff;
  int32_t column = 0, row = 0;
  uint32_t columns = 8, rows = 8;
};
constexpr uint32_t kColumns = 20, kRows = 10;

TensorMapBytes map_of(const std::vector<uint32_t>& tensor, const Box& box,
                      uint32_t columns = kColumns) {
  TensorMapSpec s;
  s.address = reinterpret_cast<uint64_t>(tensor.data());
  s.type = MapType::kU32;
  s.rank = 2;
  s.dims = {columns, kRows, 1, 1, 1};
  s.strides = {4, kColumns * 4, 0, 0, 0};
  s.box = {box.columns, box.rows, 1, 1, 1};
  s.swizzle = box.swizzle;
  return encode_tensor_map(s).value();
}

std::vector<uint32_t> aligned_tensor() {
  std::vector<uint32_t> tensor(kColumns * kRows);
  std::iota(tensor.begin(), tensor.end(), 1000u);
  return tensor;
}

std::vector<uint32_t> loaded(const Box& box, const RunOptions& options = {},
                             const std::string& error = "") {
  std::vector<std::vector<uint32_t>> buffers = {aligned_tensor(), std::vector<uint32_t>(1024),
                                                std::vector<uint32_t>(64)};
  // Vectors are aligned to 16 bytes; a map wants 64.
  const TensorMapBytes map = map_of(buffers[0], box);
  auto* data = buffers[2].data();
  while (reinterpret_cast<uint64_t>(data) % 64 != 0) ++data;
  std::memcpy(data, map.data(), map.size());
  const auto offset = std::to_string((data - buffers[2].data()) * 4);
  const std::string bytes = std::to_string(box.columns * box.rows * 4);
  const Ran ran =
      run_body(R"(
    .shared .align 1024 .b8 tile[4096];
    .shared .align 8 .b8 bar[8];
    .reg .b64 %out, %map, %d<4>;
    .reg .b32 %t, %r<8>;
    .reg .pred %p, %q;
    ld.param.u64 %out, [p1];
    ld.param.u64 %map, [p2];
    add.u64 %map, %map, )" +
                   offset + R"(;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %p, %t, 0;
    @%p mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync 0xffffffff;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                   bytes + R"(;
    @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {)" +
                   std::to_string(box.column) + ", " + std::to_string(box.row) + R"(}], [bar];
  W:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra W;
    mov.u32 %r1, %t;
    mov.u32 %r3, tile;
  L:
    shl.b32 %r2, %r1, 2;
    add.u32 %r4, %r3, %r2;
    ld.shared.u32 %r5, [%r4];
    cvt.u64.u32 %d1, %r2;
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r5;
    add.u32 %r1, %r1, 32;
    setp.lt.u32 %q, %r1, 1024;
    @%q bra L;
  )",
               buffers, {.threads = {32, 1, 1}}, options);
  EXPECT_EQ(ran.error.empty(), error.empty()) << ran.error;
  EXPECT_NE(ran.error.find(error), std::string::npos) << ran.error;
  return buffers[1];
}

uint32_t element(int64_t row, int64_t column) {
  const bool inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
  return inside ? static_cast<uint32_t>(1000 + row * kColumns + column) : 0;
}

/// Loads the box, whose rows lie `pitch` words apart, and looks at every element.
void check_load(const Box& box, uint32_t pitch) {
  const auto tile = loaded(box, {.timing = Timing::kLatest});
  // What PTX ISA 5.5.7 draws: 16-byte chunk c of row r lies at c xor (r / n) mod m.
  for (uint32_t r = 0; r < box.rows; ++r) {
    for (uint32_t c = 0; c < box.columns; ++c) {
      const uint32_t chunk = c / 4;
      uint32_t place = chunk;
      if (box.swizzle == Swizzle::k128) place = chunk ^ (r % 8);
      if (box.swizzle == Swizzle::k64) place = chunk ^ (r / 2 % 4);
      if (box.swizzle == Swizzle::k32) place = chunk ^ (r / 4 % 2);
      ASSERT_EQ(tile[r * pitch + place * 4 + c % 4], element(box.row + r, box.column + c))
          << static_cast<int>(box.swizzle) << " row " << r << " column " << c;
    }
  }
}

TEST(TensorCopy, LoadsBoxesWithEverySwizzle) {
  const Unjudged unjudged;  // what lies behind a small box is looked at too
  for (const Swizzle swizzle : {Swizzle::kOff, Swizzle::k32, Swizzle::k64, Swizzle::k128}) {
    Box box;
    box.swizzle = swizzle;
    const uint32_t span = swizzle == Swizzle::kOff ? 12 : row_span(swizzle) / 4;
    for (const auto& [row, column] : {std::pair{0, 0}, {-3, -4}, {6, 8}, {20, 0}}) {
      box.row = row;
      box.column = column;
      box.columns = span;
      check_load(box, span);
      // A row takes the swizzle's whole span.
      box.columns = swizzle == Swizzle::kOff ? 4 : span / 2;
      check_load(box, swizzle == Swizzle::kOff ? 4 : span);
    }
  }
}

TEST(TensorCopy, NarrowRowsNeedRoomForTheSwizzlesSpan) {
  const Unjudged unjudged;
  Box box{Swizzle::kOff, 0, 0, 4, 256};
  loaded(box);  // 4096 bytes
  box.swizzle = Swizzle::k128;
  loaded(box, {}, "(32768 bytes) is outside the CTA's shared memory");
}

TEST(TensorCopy, RefusesCoordinatesBetween16Bytes) {
  for (const int32_t column : {-5, 1, 3, 15}) {
    loaded({Swizzle::kOff, column, 0, 8, 8}, {},
           "a tensor copy at coordinate 0 = " + std::to_string(column) +
               " of elements of 4 bytes; allowed: multiples of 4");
  }
}

/// The tables of PTX ISA 5.5.7: the 16-byte chunk that lies in each place of a 128-byte line.
struct AtomCase {
  Swizzle swizzle;
  uint32_t lines;  ///< Then the pattern repeats.
  uint32_t table[4][8];
};
constexpr AtomCase kAtoms[] = {
    {Swizzle::k128Atom32,
     4,
     {{0, 1, 2, 3, 4, 5, 6, 7},
      {2, 3, 0, 1, 6, 7, 4, 5},
      {4, 5, 6, 7, 0, 1, 2, 3},
      {6, 7, 4, 5, 2, 3, 0, 1}}},
    {Swizzle::k128Atom32Flip,
     4,
     {{0, 1, 2, 3, 4, 5, 6, 7},
      {2, 3, 0, 1, 6, 7, 4, 5},
      {4, 5, 6, 7, 0, 1, 2, 3},
      {6, 7, 4, 5, 2, 3, 0, 1}}},
    {Swizzle::k128Atom64, 2, {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}}},
};

TEST(TensorCopy, LoadsPiecesOf32And64Bytes) {
  const Unjudged unjudged;
  for (const AtomCase& c : kAtoms) {
    Box box;
    box.swizzle = c.swizzle;
    box.columns = 32;
    const auto tile = loaded(box, {.timing = Timing::kLatest});
    for (uint32_t r = 0; r < box.rows; ++r) {
      // In every other line the halves of 16 bytes change places.
      const uint32_t flip = c.swizzle == Swizzle::k128Atom32Flip && r % 2 == 1 ? 2 : 0;
      for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t chunk = c.table[r % c.lines][i / 4];
        ASSERT_EQ(tile[r * 32 + i], element(r, chunk * 4 + (i % 4 ^ flip)))
            << static_cast<int>(c.swizzle) << " row " << r << " word " << i;
      }
    }
  }
}

struct Stored {
  std::vector<uint32_t> tensor;
  std::string error;
};

/// Stores or adds 8 by 8 fives at [6][column] of a tensor whose rows are `columns` of kColumns
/// long, in a buffer of `words`.
Stored stored(bool add, int32_t column, uint32_t columns, size_t words = kColumns * kRows,
              const std::string& other = "") {
  std::vector<std::vector<uint32_t>> buffers = {aligned_tensor(), std::vector<uint32_t>(64)};
  buffers[0].resize(words);
  const TensorMapBytes map = map_of(buffers[0], {Swizzle::k32, column, 6, 8, 8}, columns);
  auto* data = buffers[1].data();
  while (reinterpret_cast<uint64_t>(data) % 64 != 0) ++data;
  std::memcpy(data, map.data(), map.size());
  const auto offset = std::to_string((data - buffers[1].data()) * 4);
  const std::string op =
      add ? "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
          : "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
  const Ran ran = run_body(R"(
      .shared .align 1024 .b8 tile[256];
      .reg .b64 %map, %tensor;
      .reg .b32 %t, %r<8>;
      .reg .pred %p, %q;
      ld.param.u64 %map, [p1];
      add.u64 %map, %map, )" + offset +
                               R"(;
      mov.u32 %t, %tid.x;
      and.b32 %r3, %t, 31;
      shl.b32 %r1, %r3, 3;
      mov.u32 %r2, tile;
      add.u32 %r1, %r1, %r2;
      setp.lt.u32 %p, %t, 32;
      @%p st.shared.v2.u32 [%r1], {5, 5};
      fence.proxy.async.shared::cta;
      bar.sync 0;
      setp.eq.u32 %p, %t, 0;
      setp.ge.u32 %q, %t, 32;
      ld.param.u64 %tensor, [p0];
      )" + other +
                               R"(
      @!%p ret;
      )" + op + " [%map, {" + std::to_string(column) +
                               R"(, 6}], [tile];
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;
    )",
                           buffers, {.threads = {64, 1, 1}});
  return {buffers[0], ran.error};
}

TEST(TensorCopy, StoresAndAddsWhatIsInside) {
  for (const bool add : {false, true}) {
    const Stored s = stored(add, 16, kColumns);  // both dimensions end outside
    ASSERT_EQ(s.error, "");
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        const uint32_t before = element(r, c);
        const bool touched = r >= 6 && c >= 16;
        ASSERT_EQ(s.tensor[r * kColumns + c], touched ? (add ? before + 5 : 5) : before);
      }
    }
  }
}

// The tensor's rows end within 16 bytes: stores and additions take them all.
TEST(TensorCopy, StoresWhole16Bytes) {
  for (const bool add : {false, true}) {
    const Stored s = stored(add, 8, 13);
    ASSERT_EQ(s.error, "");
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        const uint32_t before = element(r, c);
        const bool touched = r >= 6 && c >= 8 && c < 16;
        ASSERT_EQ(s.tensor[r * kColumns + c], touched ? (add ? before + 5 : 5) : before)
            << "row " << r << " column " << c;
      }
    }
  }
}

TEST(TensorCopy, AStoreBeyondTheTensorsEndNeedsMemory) {
  constexpr size_t kWords = (kRows - 1) * kColumns + 13;  // up to the tensor's last element
  for (const bool add : {false, true}) {
    EXPECT_EQ(stored(add, 8, 13, kWords + 3).error, "");
    const Stored s = stored(add, 8, 13, kWords);
    EXPECT_NE(s.error.find("lies in no allocation"), std::string::npos) << s.error;
  }
}

// The judge sees a store write what lies behind the tensor's rows.
TEST(TensorCopy, AStoreRacesBehindTheTensorsEnd) {
  const auto error = [](bool add, uint32_t word) {
    const std::string at = std::to_string(4 * (6 * kColumns + word));
    return stored(add, 8, 13, kColumns * kRows, "@%q st.global.u32 [%tensor+" + at + "], %t;")
        .error;
  };
  for (const bool add : {false, true}) {
    for (const uint32_t word : {12u, 13u, 15u}) {
      EXPECT_NE(error(add, word).find("global-race"), std::string::npos) << error(add, word);
    }
    EXPECT_EQ(error(add, 16), "");
  }
}

TEST(TensorCopy, StoresRefuseToBeginBefore) {
  for (const bool add : {false, true}) {
    EXPECT_NE(stored(add, -4, kColumns)
                  .error.find("a tensor store or reduction at coordinate 0 = -4; "
                              "allowed: 0 and up"),
              std::string::npos)
        << stored(add, -4, kColumns).error;
  }
}

TEST(BulkCopy, GoesThroughSharedMemoryAndBack) {
  std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(64),
                                                std::vector<uint32_t>(64)};
  std::iota(buffers[0].begin(), buffers[0].end(), 1u);
  const Ran ran = run_body(R"(
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b8 bar[8];
    .reg .b64 %in, %out;
    .reg .pred %q;
    ld.param.u64 %in, [p0];
    ld.param.u64 %out, [p1];
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 256, [bar];
  W:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra W;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 240;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [tile], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  )",
                           buffers, {.threads = {1, 1, 1}});
  ASSERT_EQ(ran.error, "");
  for (uint32_t i = 0; i < 64; ++i) {
    // The addition may come before or after the copy of the first 16 bytes: only .read was awaited.
    if (i < 4) continue;
    EXPECT_EQ(buffers[1][i], i < 60 ? i + 1 : 0);
  }
}

TEST(CopyAsync, ArrivesInGroups) {
  std::vector<std::vector<uint32_t>> buffers = {std::vector<uint32_t>(128),
                                                std::vector<uint32_t>(128)};
  std::iota(buffers[0].begin(), buffers[0].end(), 1u);
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    const Ran ran = run_body(R"(
      .shared .align 128 .b8 tile[512];
      .reg .b64 %in, %out, %d<4>;
      .reg .b32 %t, %r<8>;
      ld.param.u64 %in, [p0];
      ld.param.u64 %out, [p1];
      mov.u32 %t, %tid.x;
      mul.wide.u32 %d1, %t, 16;
      add.u64 %in, %in, %d1;
      add.u64 %out, %out, %d1;
      mov.u32 %r1, tile;
      mad.lo.u32 %r1, %t, 16, %r1;
      cp.async.cg.shared.global [%r1], [%in], 16, 12;
      cp.async.commit_group;
      cp.async.wait_group 0;
      ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];
      st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};
    )",
                             buffers, {.threads = {32, 1, 1}}, {.timing = timing});
    ASSERT_EQ(ran.error, "");
    for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(buffers[1][i], i % 4 == 3 ? 0 : i + 1);
  }
}

}  // namespace
}  // namespace fa4::emulator::test
