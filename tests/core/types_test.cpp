// SPDX-License-Identifier: BSD-3-Clause
#include <fa4/types.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fa4 {
namespace {

TEST(BFloat16, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.00390625F).bits, 0x3F80);  // half way, even below
  EXPECT_EQ(to_bfloat16(1.01171875F).bits, 0x3F82);  // half way, even above
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Float16, RoundTripsEveryFiniteValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float x = to_float(half);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(x))));
    } else {
      EXPECT_EQ(to_float16(x).bits, half.bits);
    }
  }
}

TEST(Float16, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(to_float16(65504.0F).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65519.99F).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_float16(0x1p-24F).bits, 1);
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0);    // half way to the least, even is 0
  EXPECT_EQ(to_float16(0x1.8p-24F).bits, 2);  // half way, even above
}

}  // namespace
}  // namespace fa4
