// SPDX-License-Identifier: BSD-3-Clause
#include "model/roofline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fa4::model {
namespace {

Tile tile(Direction direction, int64_t rows, int64_t cols, int64_t dim, bool pair = false) {
  return {direction, rows, cols, dim, dim, pair};
}

void expect_cycles(const Chip& chip, const Tile& t, double mma, double shared, double exp) {
  const Cycles c = cycles(chip, t);
  EXPECT_EQ(c.mma, mma) << chip.name;
  EXPECT_EQ(c.shared, shared) << chip.name;
  EXPECT_EQ(c.exp, exp) << chip.name;
}

// The published tables: arXiv 2603.05451, tables 1 and 3.
TEST(Roofline, GivesThePublishedForwardCycles) {
  const Chip& b200 = *find_chip("B200");
  expect_cycles(b200, tile(Direction::kForward, 128, 128, 128), 1024, 768, 1024);
  expect_cycles(b200, tile(Direction::kForward, 256, 128, 128), 2048, 1536, 2048);
}

TEST(Roofline, GivesThePublishedBackwardCycles) {
  const Chip& b200 = *find_chip("B200");
  expect_cycles(b200, tile(Direction::kBackward, 128, 128, 128), 2560, 3328, 1024);
  expect_cycles(b200, tile(Direction::kBackward, 128, 128, 128, true), 2560, 2688, 1024);
}

TEST(Roofline, GivesThePublishedPartsOfThePairsBackward) {
  const Cycles c = cycles(*find_chip("B200"), tile(Direction::kBackward, 128, 128, 128, true));
  int64_t operands = 0;
  for (size_t i = 0; i < 5; ++i) operands += c.traffic.at(i).bytes;
  EXPECT_EQ(operands / 128, 1536);
  EXPECT_EQ(c.traffic.at(5).bytes / 128, 256);  // dS written
  EXPECT_EQ(c.traffic.at(6).bytes / 128, 384);  // dS exchanged
  EXPECT_EQ(c.traffic.at(7).bytes / 128, 512);  // dQ written and read
  EXPECT_EQ(c.traffic.size(), 8U);
}

TEST(Roofline, B300HalvesTheExponentialAlone) {
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const Cycles b200 = cycles(*find_chip("B200"), tile(direction, 128, 128, 128));
    const Cycles b300 = cycles(*find_chip("B300"), tile(direction, 128, 128, 128));
    EXPECT_EQ(b300.mma, b200.mma);
    EXPECT_EQ(b300.shared, b200.shared);
    EXPECT_EQ(b300.exp, b200.exp / 2);
  }
}

TEST(Roofline, OlderChipsAreBoundByTheirMatrixUnits) {
  for (const char* name : {"A100", "H100"}) {
    const Cycles c = cycles(*find_chip(name), tile(Direction::kForward, 128, 128, 128));
    EXPECT_EQ(c.bottleneck(), "MMA") << name;
  }
  EXPECT_EQ(cycles(*find_chip("H100"), tile(Direction::kForward, 128, 128, 128)).mma, 2048);
  EXPECT_EQ(cycles(*find_chip("A100"), tile(Direction::kForward, 128, 128, 128)).mma, 4096);
}

TEST(Roofline, NamesEveryUnitThatTiesForSlowest) {
  const Chip& b200 = *find_chip("B200");
  EXPECT_EQ(cycles(b200, tile(Direction::kForward, 128, 128, 128)).bottleneck(),
            "MMA + exponential");
  EXPECT_EQ(cycles(b200, tile(Direction::kForward, 128, 128, 64)).bottleneck(), "exponential");
  EXPECT_EQ(cycles(b200, tile(Direction::kBackward, 128, 128, 128)).bottleneck(), "shared memory");
}

TEST(Roofline, TakesDifferentHeadDims) {
  const Tile t{Direction::kForward, 128, 128, 192, 128, false};
  EXPECT_EQ(flops(t), 2 * 128 * 128 * (192 + 128));
  expect_cycles(*find_chip("B200"), t, 1280, 1024, 1024);
  const Tile back{Direction::kBackward, 128, 128, 192, 128, false};
  EXPECT_EQ(flops(back), 2 * 128 * 128 * (3 * 192 + 2 * 128));
}

TEST(Roofline, ReadsAnOperandAgainForEachInstruction) {
  // 512 key columns: two instructions of 256 a row block, so Q is read twice.
  const Cycles c = cycles(*find_chip("B200"), tile(Direction::kForward, 128, 512, 128));
  EXPECT_EQ(c.traffic.at(0).bytes, (2 * 128 * 128 + 512 * 128) * 2);
}

TEST(Roofline, PeaksAgreeWithTheDataSheets) {
  const std::pair<const char*, double> peaks[] = {
      {"A100", 312}, {"H100", 989}, {"B200", 2250}, {"B300", 2250}};
  for (const auto& [name, tflops] : peaks) {
    const Chip& chip = *find_chip(name);
    const double peak =
        static_cast<double>(chip.mma_flops) * chip.multiprocessors * chip.clock_ghz * 1e-3;
    EXPECT_NEAR(peak, tflops, 0.005 * tflops) << name;
  }
}

TEST(Roofline, AttainableIsThePeakWhereTheMatrixUnitIsBusiest) {
  const Chip& h100 = *find_chip("H100");
  const double peak = 4096 * 132 * 1.83e-3;
  EXPECT_DOUBLE_EQ(attainable_tflops(h100, tile(Direction::kForward, 128, 128, 128)), peak);
  const Chip& b200 = *find_chip("B200");
  EXPECT_DOUBLE_EQ(attainable_tflops(b200, tile(Direction::kBackward, 128, 128, 128)),
                   8192 * 148 * 1.85e-3 * 2560 / 3328);
}

TEST(Roofline, FindsChipsInAnyCaseAndNoOthers) {
  EXPECT_EQ(find_chip("b200"), find_chip("B200"));
  EXPECT_EQ(find_chip("V100"), nullptr);
  EXPECT_EQ(chips().size(), 4U);
}

TEST(Roofline, RefusesWhatItCannotDescribe) {
  EXPECT_EQ(problem_with(*find_chip("B200"), tile(Direction::kBackward, 128, 128, 128, true)), "");
  EXPECT_NE(problem_with(*find_chip("H100"), tile(Direction::kBackward, 128, 128, 128, true)), "");
  EXPECT_NE(problem_with(*find_chip("B200"), tile(Direction::kForward, 0, 128, 128)), "");
  EXPECT_NE(problem_with(*find_chip("B200"), tile(Direction::kForward, 1 << 20, 128, 128)), "");
  EXPECT_NE(problem_with(*find_chip("B200"), tile(Direction::kBackward, 127, 128, 128, true)), "");
}

}  // namespace
}  // namespace fa4::model
