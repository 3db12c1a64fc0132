// SPDX-License-Identifier: BSD-3-Clause
// Tensor copies of four rows that need not be neighbours: PTX ISA 5.5.3.4, 9.7.9.27.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "emulator/ptx_kernel.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator::test {
namespace {

constexpr uint32_t kColumns = 16, kRows = 10;

/// Buffers: the tensor, what comes out, the map.
struct Data {
  std::vector<std::vector<uint32_t>> buffers;
  size_t map = 0;  ///< Word in buffers[2].

  explicit Data(uint32_t box_rows = 1) {
    buffers.resize(3);
    buffers[0].resize(kColumns * kRows);
    std::iota(buffers[0].begin(), buffers[0].end(), 1000u);
    buffers[1].resize(64);
    buffers[2].resize(64);
    while (reinterpret_cast<uint64_t>(&buffers[2][map]) % 64 != 0) ++map;
    TensorMapSpec s;
    s.address = reinterpret_cast<uint64_t>(buffers[0].data());
    s.type = MapType::kU32;
    s.rank = 2;
    s.dims = {kColumns, kRows, 1, 1, 1};
    s.strides = {4, kColumns * 4, 0, 0, 0};
    s.box = {8, box_rows, 1, 1, 1};
    s.swizzle = Swizzle::k32;
    const TensorMapBytes bytes = encode_tensor_map(s).value();
    std::memcpy(&buffers[2][map], bytes.data(), bytes.size());
  }
};

std::string body(size_t map, const std::string& copies) {
  return R"(
    .shared .align 1024 .b8 tile[128];
    .shared .align 8 .b8 bar[8];
    .reg .b64 %out, %map, %d;
    .reg .b32 %t, %a, %x;
    .reg .pred %p, %q;
    ld.param.u64 %out, [p1];
    ld.param.u64 %map, [p2];
    add.u64 %map, %map, )" +
         std::to_string(4 * map) + R"(;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %p, %t, 0;
    mov.u32 %a, tile;
    mad.lo.u32 %a, %t, 4, %a;
    )" + copies;
}

std::string gather(const std::string& coordinates) {
  return R"(
    @%p mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync 0xffffffff;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    @%p cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [%map, {)" +
         coordinates + R"(}], [bar];
  W:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra W;
    ld.shared.u32 %x, [%a];
    mul.wide.u32 %d, %t, 4;
    add.u64 %d, %out, %d;
    st.global.u32 [%d], %x;
  )";
}

std::string scatter(const std::string& coordinates) {
  return R"(
    st.shared.u32 [%a], %t;
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    @!%p ret;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%map, {)" +
         coordinates + R"(}], [tile];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  )";
}

// All four rows lie in the first 128 bytes, where the swizzle of 32 bytes moves nothing.
TEST(FourRows, AreGathered) {
  Data data;
  // The fifth coordinate's row is none of the tensor's.
  const Ran ran = run_body(body(data.map, gather("4, 7, 2, 2, 10")), data.buffers);
  ASSERT_EQ(ran.error, "");
  const uint32_t rows[] = {7, 2, 2};
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t r = i / 8, c = i % 8;
    EXPECT_EQ(data.buffers[1][i], r < 3 ? 1000 + rows[r] * kColumns + 4 + c : 0) << i;
  }
}

TEST(FourRows, AreScattered) {
  Data data;
  const std::vector<uint32_t> before = data.buffers[0];
  const Ran ran = run_body(body(data.map, scatter("8, 9, 0, 12, 4")), data.buffers);
  ASSERT_EQ(ran.error, "");
  const uint32_t rows[] = {9, 0, 12, 4};
  std::vector<uint32_t> expected = before;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t row = rows[i / 8];
    if (row < kRows) expected[row * kColumns + 8 + i % 8] = i;
  }
  EXPECT_EQ(data.buffers[0], expected);
}

TEST(FourRows, RefuseWhatPtxRefuses) {
  Data data(4);
  const Ran ran = run_body(body(data.map, gather("0, 0, 1, 2, 3")), data.buffers);
  EXPECT_NE(ran.error.find("a copy of four rows with box dimension 1 = 4; allowed: 1"),
            std::string::npos)
      << ran.error;
  Data one;
  const Ran before = run_body(body(one.map, scatter("0, 0, 1, 2, -3")), one.buffers);
  EXPECT_NE(before.error.find("coordinate 4 = -3; allowed: 0 and up"), std::string::npos)
      << before.error;
  const std::string three = load_error(body(0, gather("0, 0, 1, 2")), 3);
  EXPECT_NE(three.find("[map, {coordinates}] is wanted"), std::string::npos) << three;
}

}  // namespace
}  // namespace fa4::emulator::test
