// SPDX-License-Identifier: BSD-3-Clause
#include "core/message.h"

#include <gtest/gtest.h>

#include <limits>

namespace fa4::core {
namespace {

TEST(Message, FormatsSpecs) {
  EXPECT_EQ(format_dims({DType::kFloat32, 0, {}}), "[]");
  EXPECT_EQ(format_dims({DType::kFloat32, 1, {7}}), "[7]");
  EXPECT_EQ(format_spec({DType::kBFloat16, 4, {2, 128, 8, 64}}), "bfloat16 [2, 128, 8, 64]");
}

TEST(Message, FormatsRanksThatNoTensorCanHave) {
  EXPECT_EQ(format_dims({DType::kFloat32, 9, {1, 2, 3, 4}}), "[1, 2, 3, 4, ...] (rank 9)");
  EXPECT_EQ(format_dims({DType::kFloat32, -1, {1, 2, 3, 4}}), "[] (rank -1)");
}

TEST(Message, FormatsNumbersShortestAndExactly) {
  EXPECT_EQ(format_number(0.1), "0.1");
  EXPECT_EQ(format_number(-3), "-3");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_number(std::numeric_limits<double>::lowest()), "-1.7976931348623157e+308");
  EXPECT_EQ(format_number(std::numeric_limits<double>::denorm_min()), "5e-324");
}

}  // namespace
}  // namespace fa4::core
