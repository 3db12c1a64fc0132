// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps that kernels change: PTX ISA 9.7.9.28, 9.7.13.16, 9.7.13.4.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "emulator/ptx_kernel.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::test {
namespace {

using Words = std::array<uint32_t, 32>;

Words replaced(TensorMapField field, uint32_t dimension, uint64_t value, uint32_t before = 0) {
  Words w;
  w.fill(before);
  replace_field(std::span<std::byte, 128>(reinterpret_cast<std::byte*>(w.data()), 128), field,
                dimension, value);
  return w;
}

/// Word and its bits that a field takes, by the code that ptxas 13.0 makes of tensormap.replace.
struct Place {
  TensorMapField field;
  uint32_t dimension;
  uint64_t value;
  size_t word;
  uint32_t mask, bits;
};
constexpr Place kPlaces[] = {
    {TensorMapField::kRank, 0, 4, 2, 0x70, 0x40},
    {TensorMapField::kBoxDim, 0, 64, 13, 0xff000000, 63u << 24},
    {TensorMapField::kBoxDim, 1, 256, 14, 0xff, 0xff},
    {TensorMapField::kBoxDim, 3, 5, 14, 0xff0000, 4u << 16},
    {TensorMapField::kBoxDim, 4, 1, 14, 0xff000000, 0},
    {TensorMapField::kGlobalDim, 0, 1000, 8, 0xffffffff, 999},
    {TensorMapField::kGlobalDim, 4, 7, 12, 0xffffffff, 6},
    {TensorMapField::kElementStride, 0, 8, 13, 7, 7},
    {TensorMapField::kElementStride, 1, 3, 13, 0x38, 2u << 3},
    {TensorMapField::kElementType, 0, 0, 2, 0x780, 0},
    {TensorMapField::kElementType, 0, 10, 2, 0x780, 0x500},
    {TensorMapField::kElementType, 0, 11, 2, 0x10780, 0x10380},
    {TensorMapField::kElementType, 0, 12, 2, 0x10780, 0x10400},
    {TensorMapField::kElementType, 0, 13, 2, 0x780, 0x580},
    {TensorMapField::kElementType, 0, 15, 2, 0x780, 0x680},
    {TensorMapField::kInterleave, 0, 2, 2, 0x1800, 0x1000},
    {TensorMapField::kSwizzle, 0, 3, 2, 0x406000, 0x6000},
    {TensorMapField::kAtomicity, 0, 2, 2, 0x380000, 0x100000},
    {TensorMapField::kFill, 0, 1, 2, 0x8000, 0x8000},
};

TEST(TensorMapReplace, ChangesTheBitsThatPtxasChanges) {
  for (const Place& p : kPlaces) {
    for (const uint32_t before : {0u, 0xffffffffu}) {
      const Words w = replaced(p.field, p.dimension, p.value, before);
      for (size_t i = 0; i < w.size(); ++i) {
        const uint32_t expected = i == p.word ? (before & ~p.mask) | p.bits : before;
        EXPECT_EQ(w[i], expected) << static_cast<int>(p.field) << " word " << i;
      }
    }
  }
}

TEST(TensorMapReplace, ChangesAddressAndStrides) {
  const Words address = replaced(TensorMapField::kGlobalAddress, 0, 0x7f0123456780);
  EXPECT_EQ(address[0], 0x23456780u);
  EXPECT_EQ(address[1], 0x7f01u);
  const Words stride = replaced(TensorMapField::kGlobalStride, 1, (uint64_t{5} << 36) + 256, ~0u);
  EXPECT_EQ(stride[4], 256u >> 4);
  EXPECT_EQ(stride[7], 0xffffff5fu);
}

TEST(TensorMapReplace, RefusesWhatAFieldCannotHold) {
  const auto refused = [](TensorMapField field, uint64_t value) {
    try {
      replaced(field, 0, value);
    } catch (const Fault& fault) {
      return std::string(fault.what()).find("; allowed: ") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused(TensorMapField::kGlobalAddress, 8));
  EXPECT_TRUE(refused(TensorMapField::kRank, 5));
  EXPECT_TRUE(refused(TensorMapField::kBoxDim, 0));
  EXPECT_TRUE(refused(TensorMapField::kBoxDim, 257));
  EXPECT_TRUE(refused(TensorMapField::kElementStride, 9));
  EXPECT_TRUE(refused(TensorMapField::kGlobalStride, 24));
}

TEST(TensorMapReplace, SaysWhatItWants) {
  const auto said = [](const std::string& line) {
    return load_error(".reg .b64 a, v;\n.reg .b32 w;\n" + line);
  };
  EXPECT_EQ(said("tensormap.replace.tile.global_address.global.b1024.b64 [a], v;"), "");
  EXPECT_EQ(said("tensormap.replace.tile.box_dim.b1024.b32 [a+128], 1, w;"), "");
  for (const auto& [line, part] : {
           std::pair{"tensormap.replace.tile.colour.global.b1024.b32 [a], w;", "a field is wanted"},
           {"tensormap.replace.im2col.rank.global.b1024.b32 [a], w;", ".tile is wanted"},
           {"tensormap.replace.tile.rank.global.b1024.b64 [a], v;", ".b32 is wanted"},
           {"tensormap.replace.tile.global_stride.global.b1024.b64 [a], 4, v;", "4"},
           {"tensormap.replace.tile.box_dim.global.b1024.b32 [a], w;", "operands"},
           {"tensormap.replace.tile.swizzle_mode.global.b1024.b32 [a], w;", "immediate"},
           {"tensormap.replace.tile.fill_mode.global.b1024.b32 [a], 2;", "2"},
           {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.aligned "
            "[a], [w], 128;",
            ".sync is wanted"},
           {"tensormap.make.tile [a];", "this form is not known"},
       }) {
    EXPECT_NE(said(line).find(part), std::string::npos) << line << ": " << said(line);
    EXPECT_NE(said(line).find("PTX line 9: tensormap."), std::string::npos) << said(line);
  }
}

// ---- as CUTLASS's grouped GEMMs do it: a map is brought to shared memory, changed there, copied
// to global memory with a fence, and used
// ------------------------------------------------------------

constexpr uint32_t kColumns = 8, kRows = 6;

/// Buffers: two tensors, the result, a map of the first, room for a map. (Both at multiples of 64.)
struct Maps {
  std::vector<std::vector<uint32_t>> buffers = std::vector<std::vector<uint32_t>>(4);
  size_t map = 0;  ///< Word in buffers[3]; the room is behind it.

  Maps() {
    for (size_t i = 0; i < 2; ++i) {
      buffers[i].resize(kColumns * kRows);
      std::iota(buffers[i].begin(), buffers[i].end(), static_cast<uint32_t>(1000 * (i + 1)));
    }
    buffers[2].resize(32);
    buffers[3].resize(128);
    while (reinterpret_cast<uint64_t>(&buffers[3][map]) % 64 != 0) ++map;
    TensorMapSpec s;
    s.address = reinterpret_cast<uint64_t>(buffers[0].data());
    s.type = MapType::kU32;
    s.rank = 2;
    s.dims = {kColumns, kRows, 1, 1, 1};
    s.strides = {4, kColumns * 4, 0, 0, 0};
    s.box = {4, 4, 1, 1, 1};
    const TensorMapBytes bytes = encode_tensor_map(s).value();
    std::memcpy(&buffers[3][map], bytes.data(), bytes.size());
  }
};

std::string changed_and_used(size_t map, const std::string& change, const std::string& fence) {
  return R"(
    .shared .align 128 .b8 tile[512];
    .shared .align 128 .b8 maps[128];
    .shared .align 8 .b8 bar[8];
    .reg .b64 %other, %out, %map, %room, %d<4>;
    .reg .b32 %t, %r<8>, %shared;
    .reg .pred %p, %q;
    ld.param.u64 %other, [p1];
    ld.param.u64 %out, [p2];
    ld.param.u64 %map, [p3];
    add.u64 %map, %map, )" +
         std::to_string(4 * map) + R"(;
    add.u64 %room, %map, 128;
    mov.u32 %shared, maps;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %p, %t, 0;
    mul.wide.u32 %d1, %t, 4;
    add.u64 %d2, %map, %d1;
    ld.global.u32 %r1, [%d2];
    mad.lo.u32 %r2, %t, 4, %shared;
    st.shared.u32 [%r2], %r1;
    bar.warp.sync 0xffffffff;
    )" + change +
         R"(
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%room], [%shared], 128;
    )" + fence +
         R"(
    @%p mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync 0xffffffff;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%room, {4, 2}], [bar];
  W:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra W;
    setp.lt.u32 %q, %t, 16;
    @!%q ret;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %t, 4, %r3;
    ld.shared.u32 %r5, [%r4];
    add.u64 %d2, %out, %d1;
    st.global.u32 [%d2], %r5;
  )";
}

constexpr const char* kOther =
    "@%p tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%shared], %other;\n"
    "@%p tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%shared], 1, 4;\n";
constexpr const char* kAcquire = "fence.proxy.tensormap::generic.acquire.gpu [%room], 128;\n";

TEST(TensorMapReplace, CopiesFollowTheChangedMap) {
  Maps maps;
  const Ran ran = run_body(changed_and_used(maps.map, kOther, kAcquire), maps.buffers);
  ASSERT_EQ(ran.error, "");
  // Of the second tensor, which has four rows only.
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t c = 0; c < 4; ++c) {
      EXPECT_EQ(maps.buffers[2][4 * r + c], r + 2 < 4 ? 2000 + (r + 2) * kColumns + 4 + c : 0);
    }
  }
}

TEST(TensorMapReplace, ChangesMapsInGlobalMemory) {
  Maps maps;
  const std::string in_place =
      "@%p tensormap.replace.tile.global_address.global.b1024.b64 [%room], %other;\n" +
      std::string(kAcquire);
  const Ran ran = run_body(changed_and_used(maps.map, "", in_place), maps.buffers);
  ASSERT_EQ(ran.error, "");
  EXPECT_EQ(maps.buffers[2][0], 2000 + 2 * kColumns + 4);
}

TEST(TensorMapReplace, TheJudgeMissesTheFence) {
  for (const bool fenced : {false, true}) {
    Maps maps;
    const Ran ran =
        run_body(changed_and_used(maps.map, kOther, fenced ? kAcquire : ""), maps.buffers);
    EXPECT_EQ(ran.error.find("tensor-map-fence") == std::string::npos, fenced) << ran.error;
  }
  // A fence before the last change is none.
  Maps maps;
  std::string late = kAcquire;  // Appended to: GCC 12 warns of the sum, wrongly.
  late += "@%p tensormap.replace.tile.global_address.global.b1024.b64 [%room], %other;\n";
  const Ran ran = run_body(changed_and_used(maps.map, "", late), maps.buffers);
  EXPECT_NE(ran.error.find("tensor-map-fence"), std::string::npos) << ran.error;
}

}  // namespace
}  // namespace fa4::emulator::test
