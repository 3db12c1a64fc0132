// SPDX-License-Identifier: BSD-3-Clause
// ldmatrix, stmatrix, mma.sync and wgmma on whole numbers, for which every order of addition gives
// the same result.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "emulator/numeric.h"
#include "emulator/ptx_kernel.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::test {
namespace {

using Buffers = std::vector<std::vector<uint32_t>>;

uint32_t packed(uint32_t low, uint32_t high) { return high << 16 | low; }
uint32_t small(int x) { return to_bfloat16(static_cast<float>(x)); }

TEST(Matrix, LdmatrixAndStmatrix) {
  for (const bool transposed : {false, true}) {
    Buffers buffers(1, std::vector<uint32_t>(64));
    const std::string trans = transposed ? ".trans" : "";
    // Row r of the matrix has elements 8 r + c; each lane gives what it loaded, then the matrix is
    // stored back.
    const Ran ran = run_body(R"(
      .shared .align 16 .b8 m[128];
      .shared .align 16 .b8 n[128];
      .reg .b64 %out, %d1;
      .reg .b32 %t, %r<10>;
      .reg .b16 %h<3>;
      ld.param.u64 %out, [p0];
      mov.u32 %t, %tid.x;
      mov.u32 %r1, m;
      mov.u32 %r2, n;
      shl.b32 %r3, %t, 2;
      add.u32 %r4, %r1, %r3;
      shl.b32 %r5, %t, 1;
      cvt.u16.u32 %h1, %r5;
      add.u16 %h2, %h1, 1;
      mov.b32 %r6, {%h1, %h2};
      st.shared.u32 [%r4], %r6;
      bar.warp.sync 0xffffffff;
      and.b32 %r7, %t, 7;
      mad.lo.u32 %r8, %r7, 16, %r1;
      ldmatrix.sync.aligned.m8n8.x1)" +
                                 trans + R"(.shared.b16 {%r6}, [%r8];
      mul.wide.u32 %d1, %t, 4;
      add.u64 %out, %out, %d1;
      st.global.u32 [%out], %r6;
      mad.lo.u32 %r8, %r7, 16, %r2;
      stmatrix.sync.aligned.m8n8.x1)" +
                                 trans + R"(.shared.b16 [%r8], {%r6};
      bar.warp.sync 0xffffffff;
      add.u32 %r4, %r2, %r3;
      ld.shared.u32 %r6, [%r4];
      st.global.u32 [%out+128], %r6;
    )",
                             buffers, {.threads = {32, 1, 1}});
    ASSERT_EQ(ran.error, "");
    for (uint32_t t = 0; t < 32; ++t) {
      const uint32_t x = t / 4, y = t % 4 * 2;
      EXPECT_EQ(buffers[0][t],
                transposed ? packed(8 * y + x, 8 * y + 8 + x) : packed(8 * x + y, 8 * x + y + 1));
      EXPECT_EQ(buffers[0][32 + t], packed(2 * t, 2 * t + 1));
    }
  }
}

TEST(Matrix, MmaSync) {
  std::mt19937 random(3);
  const auto draw = [&] { return static_cast<int>(random() % 9) - 4; };
  int a[16][16], b[16][8], c[16][8];
  for (auto& row : a)
    for (int& x : row) x = draw();
  for (auto& row : b)
    for (int& x : row) x = draw();
  for (auto& row : c)
    for (int& x : row) x = draw();
  // Ten registers a lane: A's four, B's two, C's four.
  Buffers buffers = {std::vector<uint32_t>(320), std::vector<uint32_t>(128)};
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t* r = &buffers[0][t * 10];
    const uint32_t g = t / 4, q = t % 4 * 2;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = g + 8 * (i % 2), k = q + 8 * (i / 2);
      r[i] = packed(small(a[row][k]), small(a[row][k + 1]));
      r[6 + i] = std::bit_cast<uint32_t>(static_cast<float>(c[g + 8 * (i / 2)][q + i % 2]));
    }
    for (uint32_t i = 0; i < 2; ++i) {
      r[4 + i] = packed(small(b[q + 8 * i][g]), small(b[q + 1 + 8 * i][g]));
    }
  }
  const Ran ran = run_body(R"(
    .reg .b64 %in, %out, %d1;
    .reg .b32 %t, %r<12>;
    .reg .f32 %f<8>;
    ld.param.u64 %in, [p0];
    ld.param.u64 %out, [p1];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %d1, %t, 40;
    add.u64 %in, %in, %d1;
    ld.global.v2.b32 {%r0, %r1}, [%in];
    ld.global.v2.b32 {%r2, %r3}, [%in+8];
    ld.global.v2.b32 {%r4, %r5}, [%in+16];
    ld.global.v2.f32 {%f0, %f1}, [%in+24];
    ld.global.v2.f32 {%f2, %f3}, [%in+32];
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
    mul.wide.u32 %d1, %t, 16;
    add.u64 %out, %out, %d1;
    st.global.v4.f32 [%out], {%f4, %f5, %f6, %f7};
  )",
                           buffers, {.threads = {32, 1, 1}});
  ASSERT_EQ(ran.error, "");
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = t / 4 + 8 * (i / 2), column = t % 4 * 2 + i % 2;
      int want = c[row][column];
      for (int k = 0; k < 16; ++k) want += a[row][k] * b[k][column];
      EXPECT_EQ(std::bit_cast<float>(buffers[1][t * 4 + i]), static_cast<float>(want));
    }
  }
}

// ---- wgmma -------------------------------------------------------------------------------------

/// D = A B + D twice over a K of one swizzle span, operands brought by tensor copies.
struct Product {
  Swizzle swizzle = Swizzle::k128;
  uint32_t n = 64;
  bool a_m_major = false;
  bool b_n_major = false;
};

std::string registers(const char* prefix, uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "");
    text += prefix + std::to_string(i);
  }
  return text;
}

/// An operand of `rows` by K in global memory, its map, and the copies that bring it.
struct Side {
  std::vector<uint32_t> memory;
  std::vector<std::vector<int>> values;  ///< [row][k]
  TensorMapBytes map;
  uint32_t boxes = 1;
  uint32_t box_bytes = 0;
};

Side make_side(const Product& p, uint32_t rows, bool mn_major, std::mt19937& random) {
  const uint32_t span = 16u << static_cast<int>(p.swizzle), k = span / 2;
  Side side;
  side.values.assign(rows, std::vector<int>(k));
  for (auto& row : side.values) {
    for (int& x : row) x = static_cast<int>(random() % 7) - 3;
  }
  const uint32_t inner = mn_major ? rows : k, outer = mn_major ? k : rows;
  side.memory.resize(inner * outer / 2);
  for (uint32_t i = 0; i < inner * outer; ++i) {
    const uint32_t x = i % inner, y = i / inner;
    const uint32_t bits = small(mn_major ? side.values[x][y] : side.values[y][x]);
    side.memory[i / 2] |= bits << 16 * (i % 2);
  }
  TensorMapSpec s;
  s.address = reinterpret_cast<uint64_t>(side.memory.data());
  s.rank = 2;
  s.dims = {inner, outer, 1, 1, 1};
  s.strides = {2, inner * 2, 0, 0, 0};
  s.box = {std::min(inner, span / 2), outer, 1, 1, 1};
  s.swizzle = p.swizzle;
  side.map = encode_tensor_map(s).value();
  side.boxes = (inner + span / 2 - 1) / (span / 2);
  side.box_bytes = s.box[0] * outer * 2;
  return side;
}

/// The upper part of a descriptor: leading and stride offsets, swizzle.
uint64_t descriptor_bits(const Product& p, bool mn_major, uint32_t box_bytes) {
  const uint64_t span = 16u << static_cast<int>(p.swizzle);
  const uint64_t leading = mn_major ? box_bytes : 16, stride = 8 * span;
  const uint64_t mode = p.swizzle == Swizzle::k128 ? 1 : p.swizzle == Swizzle::k64 ? 2 : 3;
  return mode << 62 | (stride >> 4) << 32 | (leading >> 4) << 16;
}

std::string load_text(const char* map, uint32_t base, const Side& side, uint32_t span) {
  std::string text;
  for (uint32_t i = 0; i < side.boxes; ++i) {
    text +=
        "@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[tile+" +
        std::to_string(base + i * side.box_bytes) + "], [" + map + ", {" +
        std::to_string(i * span / 2) + ", 0}], [bar];\n";
  }
  return text;
}

std::string product_text(const Product& p, const Side& a, const Side& b, uint32_t b_base,
                         uint32_t map_a, uint32_t map_b) {
  const uint32_t span = 16u << static_cast<int>(p.swizzle), count = p.n / 2;
  const uint32_t bytes = a.boxes * a.box_bytes + b.boxes * b.box_bytes;
  std::string text =
      ".shared .align 1024 .b8 tile[65536];\n.shared .align 8 .b8 bar[8];\n"
      ".reg .b64 %out, %mapa, %mapb, %a, %b, %da, %db, %d1;\n.reg .b32 %t, %r<4>;\n.reg .pred %p, "
      "%q;\n.reg .f32 %f<128>;\n"
      "ld.param.u64 %out, [p0];\nld.param.u64 %mapa, [p3];\nadd.u64 %mapb, %mapa, " +
      std::to_string(map_b) + ";\nadd.u64 %mapa, %mapa, " + std::to_string(map_a) + ";\n" + R"(
    mov.u32 %t, %tid.x;
    setp.eq.u32 %p, %t, 0;
    @%p mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
      std::to_string(bytes) + ";\n" + load_text("%mapa", 0, a, span) +
      load_text("%mapb", b_base, b, span) + R"(
  W:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra W;
    mov.u32 %r1, tile;
    bfe.u32 %r1, %r1, 4, 14;
    cvt.u64.u32 %a, %r1;
    add.u64 %b, %a, )" +
      std::to_string(b_base / 16) + ";\nor.b64 %a, %a, " +
      std::to_string(descriptor_bits(p, p.a_m_major, a.box_bytes)) + ";\nor.b64 %b, %b, " +
      std::to_string(descriptor_bits(p, p.b_n_major, b.box_bytes)) + ";\n";
  for (uint32_t i = 0; i < count; ++i) text += "mov.f32 %f" + std::to_string(i) + ", 1.0;\n";
  text += "wgmma.fence.sync.aligned;\n";
  for (uint32_t step = 0; step < span / 32; ++step) {
    // 16 of K: 32 bytes of a row, or two groups of eight rows.
    const auto advance = [&](bool mn_major) {
      return std::to_string(step * (mn_major ? span : 2));
    };
    text += "add.u64 %da, %a, " + advance(p.a_m_major) + ";\nadd.u64 %db, %b, " +
            advance(p.b_n_major) + ";\nwgmma.mma_async.sync.aligned.m64n" + std::to_string(p.n) +
            "k16.f32.bf16.bf16 {" + registers("%f", count) + "}, %da, %db, 1, 1, 1, " +
            std::to_string(p.a_m_major) + ", " + std::to_string(p.b_n_major) + ";\n";
  }
  text +=
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %d1, %t, " +
      std::to_string(count * 4) + ";\nadd.u64 %out, %out, %d1;\n";
  for (uint32_t i = 0; i < count; ++i) {
    text += "st.global.f32 [%out+" + std::to_string(4 * i) + "], %f" + std::to_string(i) + ";\n";
  }
  return text;
}

void check_product(const Product& p, const RunOptions& options) {
  std::mt19937 random(p.n);
  const Side a = make_side(p, 64, p.a_m_major, random), b = make_side(p, p.n, p.b_n_major, random);
  Buffers buffers = {std::vector<uint32_t>(64 * p.n), a.memory, b.memory,
                     std::vector<uint32_t>(128)};
  auto* maps = buffers[3].data();
  while (reinterpret_cast<uint64_t>(maps) % 64 != 0) ++maps;
  // The maps name the tensors' first copies; the buffers are the ones that may be touched.
  const auto with_address = [](TensorMapBytes map, const std::vector<uint32_t>& memory) {
    const auto address = reinterpret_cast<uint64_t>(memory.data());
    std::memcpy(map.data(), &address, 8);
    return map;
  };
  const TensorMapBytes ma = with_address(a.map, buffers[1]), mb = with_address(b.map, buffers[2]);
  std::memcpy(maps, ma.data(), 128);
  std::memcpy(maps + 32, mb.data(), 128);
  const auto offset = static_cast<uint32_t>(maps - buffers[3].data()) * 4;
  const uint32_t b_base = (a.boxes * a.box_bytes + 1023) / 1024 * 1024;
  const Ran ran = run_body(product_text(p, a, b, b_base, offset, offset + 128), buffers,
                           {.threads = {128, 1, 1}}, options);
  ASSERT_EQ(ran.error, "");
  EXPECT_EQ(ran.tally.matrix_flops, uint64_t{2} * 64 * p.n * a.values[0].size());
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t r = 0; r < p.n / 2; ++r) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8;
      const uint32_t column = r / 4 * 8 + t % 4 * 2 + r % 2;
      int want = 1;
      for (size_t k = 0; k < a.values[0].size(); ++k)
        want += a.values[row][k] * b.values[column][k];
      ASSERT_EQ(std::bit_cast<float>(buffers[0][t * (p.n / 2) + r]), static_cast<float>(want))
          << "row " << row << " column " << column;
    }
  }
}

TEST(Wgmma, EveryMajorAndSwizzle) {
  for (const Swizzle swizzle : {Swizzle::k32, Swizzle::k64, Swizzle::k128}) {
    for (const bool a_m_major : {false, true}) {
      for (const bool b_n_major : {false, true}) {
        check_product({swizzle, 64, a_m_major, b_n_major}, {.timing = Timing::kLatest});
        if (HasFatalFailure()) {
          FAIL() << "swizzle " << static_cast<int>(swizzle) << " majors " << a_m_major << b_n_major;
        }
      }
    }
  }
}

TEST(Wgmma, EveryWidth) {
  for (uint32_t n = 8; n <= 256; n += 8) {
    check_product({.n = n}, {.seed = n});
    if (HasFatalFailure()) FAIL() << n;
  }
}

TEST(Wgmma, WantsFourWarpsThatAgree) {
  const Unjudged unjudged;
  Buffers buffers(1, std::vector<uint32_t>(1));
  const std::string body = R"(
    .reg .f32 f<4>;
    .reg .b64 d;
    .reg .b32 t;
    mov.u32 t, %tid.x;
    shr.u32 t, t, 5;
    cvt.u64.u32 d, t;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d, d, 1, 1, 1, 0, 0;
  )";
  EXPECT_NE(run_body(body, buffers, {.threads = {64, 1, 1}}).error.find("less than four"),
            std::string::npos);
  EXPECT_NE(run_body(body, buffers, {.threads = {128, 1, 1}}).error.find("different wgmma"),
            std::string::npos);
}

}  // namespace
}  // namespace fa4::emulator::test
