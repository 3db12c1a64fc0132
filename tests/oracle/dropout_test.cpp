// SPDX-License-Identifier: BSD-3-Clause
// The generator behind dropout, and what the oracle makes of it.
#include <gtest/gtest.h>

#include <cmath>

#include "core/philox.h"
#include "oracle/oracle.h"
#include "support/case.h"

namespace fa4::test {
namespace {

using Four = std::array<uint32_t, 4>;
using Two = std::array<uint32_t, 2>;

struct Answer {
  Four counter;
  Two key;
  Four numbers;
};

// The known answers that Random123 publishes for philox4x32 with 10 rounds (kat_vectors).
const Answer kAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesThePublishedAnswers) {
  for (const Answer& answer : kAnswers) {
    EXPECT_EQ(oracle::philox(answer.counter, answer.key), answer.numbers);
    EXPECT_EQ(core::philox4x32(answer.counter, answer.key), answer.numbers);
  }
}

/// The probabilities after dropout, [b, s_q, h, s_k], of uniform rows.
std::vector<double> dropped(double p, uint64_t seed, const Shape& shape) {
  Case c = onehot(shape, DType::kFloat64);
  c.q.fill(0);
  c.options.dropout_p = p;
  c.options.dropout_seed = seed;
  return oracle::forward(c.tensors(), c.options).out;
}

TEST(OracleDropout, KeepsTheRightFractionAndScalesIt) {
  const Shape shape{.batch = 2, .s_q = 64, .s_k = 128, .heads_q = 4, .d = 1};
  for (double p : {0.1, 0.5, 0.9}) {
    double kept = 0, entries = 0;
    for (double x : dropped(p, 42, shape)) {
      ++entries;
      if (x == 0) continue;
      ++kept;
      EXPECT_NEAR(x, 1.0 / 128 / (1 - p), 1e-10);  // p in steps of 2^-32
    }
    EXPECT_NEAR(kept / entries, 1 - p, 4 * std::sqrt(p * (1 - p) / entries)) << p;
  }
}

TEST(OracleDropout, DiffersBySeedSequenceHeadAndRow) {
  const Shape shape{.batch = 2, .s_q = 2, .s_k = 64, .heads_q = 2, .d = 1};
  const std::vector<double> mask = dropped(0.5, 1, shape), other = dropped(0.5, 2, shape);
  const auto differ = [](const double* a, const double* b) {
    int count = 0;
    for (int j = 0; j < 64; ++j) count += (a[j] == 0) != (b[j] == 0) ? 1 : 0;
    return count;
  };
  const std::vector<const double*> rows = {&mask[0],      &mask[64], &mask[2 * 64],
                                           &mask[4 * 64], &other[0], &other[4 * 64]};
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_GT(differ(rows[a], rows[b]), 10) << a << " " << b;
  }
}

TEST(OracleDropout, DropsWhatTheLibrarysGeneratorDrops) {
  const core::Dropout dropout = core::Dropout::make(0.3, 0x123456789abcdef0);
  const std::vector<double> mask =
      dropped(0.3, 0x123456789abcdef0, {.batch = 2, .s_q = 5, .s_k = 13, .heads_q = 3, .d = 1});
  size_t at = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t j = 0; j < 13; ++j, ++at) {
          const bool drop = dropout.numbers(b, h, i, j / 4)[j % 4] < dropout.threshold;
          EXPECT_EQ(mask[at] == 0, drop);
        }
      }
    }
  }
}

/// p counts in steps of 2^-32, so that what is kept makes up for what is dropped up to the last
/// double below 1.
TEST(OracleDropout, StaysUnbiasedNextToOne) {
  for (const double p : {std::nextafter(1, 0), 1 - 0x1p-33, 1 - 0x1p-32, 1e-12, 0.3}) {
    const core::Dropout dropout = core::Dropout::make(p, 7);
    const double kept = 1 - dropout.threshold * 0x1p-32;
    EXPECT_GE(kept, 0x1p-32);
    EXPECT_DOUBLE_EQ(dropout.keep_scale * kept, 1) << p;
  }
  EXPECT_EQ(core::Dropout::make(std::nextafter(1, 0), 7).keep_scale, 0x1p32);
}

TEST(OracleDropout, TheLseIgnoresIt) {
  Case c = ref64({.s_q = 3, .s_k = 9}, DType::kFloat64);
  const std::vector<double> before = oracle::forward(c.tensors(), c.options).lse;
  c.options.dropout_p = 0.5;
  EXPECT_EQ(oracle::forward(c.tensors(), c.options).lse, before);
}

}  // namespace
}  // namespace fa4::test
