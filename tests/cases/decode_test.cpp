// SPDX-License-Identifier: BSD-3-Clause
// Few queries against a cache: growing, split, partly filled, and inactive slots.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

// About 1% of decode steps gave NaN when the number of splits was chosen automatically
// (torchtitan #3235). Here the library always chooses; all lengths of a growing cache.
TEST(C92, EveryStepOfAGrowingCache) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.s_q = 1, .s_k = 500, .heads_q = 4, .heads_k = 2, .d = 64}, dtype);
    c.options.causal = Causal::kBottomRight;
    for (int64_t used = 1; used <= 500; used += dtype == DType::kFloat32 || used < 20 ? 1 : 5) {
      c.seqused_k = test::indices({used});
      run_forward(c);
      ASSERT_TRUE(all_finite(c.out)) << used;
      ASSERT_TRUE(all_finite(c.lse)) << used;
      if (used < 20 || used % 60 == 0 || used == 481) {
        ASSERT_EQ(c.judge_forward(), "") << used;
      }
    }
  }
}

// The probe tells which keys of a long cache a split forgot or counted twice.
TEST(C92, EveryKeyOfALongCacheOnce) {
  for (const int threads : {1, 2, 3, 8, 32}) {
    for (const int64_t used : {1, 2, 1023, 1024, 1025, 4095, 8191, 20000}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << used << " keys");
      Case c = probe({.s_q = 1, .s_k = 20000, .heads_q = 2, .heads_k = 1, .d = 4});
      c.seqused_k = test::indices({used});
      c.options.threads = threads;
      run_forward(c);
      const double mean = static_cast<double>(used + 1) / 2;
      for (const double x : c.out.values()) ASSERT_NEAR(x, mean, 2e-6 * mean);
      for (const double x : c.lse.values()) {
        ASSERT_NEAR(x, std::log(static_cast<double>(used)), 5e-6);
      }
    }
  }
}

// Two tokens and more appended to a filled cache: wrong for more than one query
// (sgl-kernel-xpu #196, flash-attention #1402).
TEST(C96, ChunkOnAFilledCache) {
  for (const DType dtype : kFloats) {
    Case c = probe({.s_q = 3, .s_k = 8}, dtype);
    c.options.causal = Causal::kBottomRight;
    run(c);
    expect_rows(c, {3.5, 4, 4.5});
  }
}

TEST(C96, ChunksEqualOnePrefill) {
  for (const DType dtype : kFloats) {
    Case whole = ref64({.s_q = 100, .s_k = 100, .heads_q = 4, .heads_k = 2, .d = 32}, dtype);
    whole.options.causal = Causal::kBottomRight;
    run_forward(whole);
    for (const int64_t chunk : {1, 2, 7, 33}) {
      for (int64_t first = 0; first < 100; first += 3 * chunk) {
        const int64_t rows = std::min(chunk, 100 - first);
        Case c = whole;
        c.q = HostTensor(dtype, {1, rows, 4, 32}).fill_with([&](const Index& i) {
          return whole.q.get({0, first + i[1], i[2], i[3]});
        });
        c.out = c.lse = {};
        c.seqused_k = test::indices({first + rows});
        run_forward(c);
        const double tolerance = is_narrow(dtype) ? 0x1p-7 : 2e-6;
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t h = 0; h < 4; ++h) {
            ASSERT_NEAR(lse_at(c, 0, h, i), lse_at(whole, 0, h, first + i), 1e-5);
            ASSERT_NEAR(c.out.get({0, i, h, 5}), whole.out.get({0, first + i, h, 5}), tolerance);
          }
        }
      }
    }
  }
}

TEST(C97, AnyPageSize) { GTEST_SKIP() << "waits for paged caches"; }
TEST(C98, LengthsPastThePageTable) { GTEST_SKIP() << "waits for paged caches"; }

// What stands in for it without pages: a length past the cache's rows names its sequence.
TEST(C98, LengthsPastTheCache) {
  Case c = probe({.batch = 3, .s_q = 1, .s_k = 16});
  c.seqused_k = test::indices({16, 3, 17});
  const Status status = c.forward();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("seqused_k[2]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("17"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("16"), std::string::npos) << status.message();
}

// A graph padded to its largest batch left stale NaN in the rows of inactive slots
// (vllm PR #37442). Case fills outputs with NaN first.
TEST(C99, InactiveSlotsAreZero) {
  for (const DType dtype : kFloats) {
    for (const int64_t s_q : {1, 2}) {
      Case c = probe({.batch = 4, .s_q = s_q, .s_k = 9, .heads_q = 4, .heads_k = 2}, dtype);
      c.seqused_k = test::indices({5, 0, 7, 0});
      run(c);
      const std::array<double, 4> expected = {3, 0, 4, 0};
      for (int64_t b = 0; b < 4; ++b) {
        for (int64_t i = 0; i < s_q; ++i) {
          expect_row(c, i, expected[b], b);
          const double keys = 2 * expected[b] - 1;
          const double lse = lse_at(c, b, 3, i);
          EXPECT_TRUE(keys < 0 ? lse == -kInf : std::abs(lse - std::log(keys)) < 2e-6) << lse;
        }
        if (expected[b] == 0) expect_rows_zero(c.dq, "dq", 0, s_q, b);
      }
      expect_gradients_finite(c);
    }
  }
}

struct FewQueries {
  const char* name;
  int64_t s_q, s_k, heads_q, heads_k, d;
};

// Shapes with too few rows to fill a machine (TileOPs PR #740, TensorRT-LLM PR #15399): here only
// that whatever path they take is right.
TEST(C116, FewQueriesAgainstManyKeys) {
  for (const FewQueries& shape : {FewQueries{"decode", 1, 15360, 1, 1, 64},
                                  {"grouped decode", 1, 2000, 16, 4, 128},
                                  {"two tokens", 2, 3000, 8, 2, 64},
                                  {"speculative", 8, 2000, 8, 1, 64},
                                  {"audio cross-attention", 126, 700, 2, 2, 64}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(shape.name);
      Case c = ref64({.s_q = shape.s_q,
                      .s_k = shape.s_k,
                      .heads_q = shape.heads_q,
                      .heads_k = shape.heads_k,
                      .d = shape.d},
                     dtype);
      run_forward(c);
      EXPECT_EQ(slice(c, 0, dtype == DType::kFloat32 ? 0 : shape.heads_k - 1).judge_forward(), "");
    }
  }
}

TEST(C116, BackwardOfOneQuery) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.s_q = 1, .s_k = 3000, .heads_q = 4, .heads_k = 2, .d = 64}, dtype);
    test::expect_right(c);
  }
}

// Everything that a decode step may carry at once, over cache lengths around split edges.
TEST(C116, DecodeWithEveryFeature) {
  for (const DType dtype : kFloats) {
    for (const int64_t s_k : {1, 63, 64, 65, 511, 512, 513, 2049}) {
      Case c =
          ref64({.batch = 2, .s_q = 1, .s_k = s_k, .heads_q = 6, .heads_k = 2, .d = 40}, dtype);
      test::Random random(116);
      c.bias = HostTensor(dtype, {1, 6, 1, s_k}).fill_normal(random);
      c.mask = HostTensor(DType::kBool, {2, 1, 1, s_k}).fill_with([&](const Index&) {
        return random() % 5 == 0 ? 0.0 : 1.0;
      });
      c.sink = HostTensor::of(dtype, {6}, {0, 1, -1, 2, -2, 0.5});
      c.alibi_slopes = HostTensor::of(DType::kFloat32, {6}, {.5, .25, .125, .0625, .03, .01});
      c.options.softcap = 4;
      c.options.causal = Causal::kBottomRight;
      c.options.window.left = 600;
      c.seqused_k = test::indices({s_k, (s_k + 1) / 2});
      test::expect_right(c);
    }
  }
}

}  // namespace
}  // namespace fa4::cases
