// SPDX-License-Identifier: BSD-3-Clause
// The same bits again, from any number of threads, and beside any neighbours.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

struct Config {
  const char* name;
  int64_t d;
  int64_t heads_k;
  bool packed;
  int64_t window;  // left; -1: none
};
constexpr std::array kConfigs = {
    Config{"dense", 64, 4, false, -1},         Config{"grouped", 128, 1, false, -1},
    Config{"window", 64, 2, false, 40},        Config{"packed", 64, 2, true, -1},
    Config{"packed window", 128, 4, true, 20}, Config{"d 256", 256, 2, false, -1},
};

Case make_case(const Config& config, DType dtype) {
  Shape shape = {
      .batch = 2, .s_q = 130, .s_k = 170, .heads_q = 4, .heads_k = config.heads_k, .d = config.d};
  if (config.packed) shape.lengths_q = shape.lengths_k = {70, 1, 0, 130, 33};
  Case c = ref64(shape, dtype);
  c.options.causal = Causal::kBottomRight;
  c.options.deterministic = true;
  if (config.window >= 0) c.options.window.left = config.window;
  return c;
}

// Gradients differed from run to run with the deterministic flag on: a semaphore wasn't advanced,
// the flag was parsed but unused (flash-attention #414, #2244).
TEST(C86, SameBitsFromAnyNumberOfThreads) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Config& config : kConfigs) {
      SCOPED_TRACE(testing::Message() << config.name << " " << to_string(dtype));
      Case c = make_case(config, dtype);
      c.options.threads = 1;
      run(c);
      const Bits alone = bits_of(c);
      for (const int threads : {2, 4, 8}) {
        c.options.threads = threads;
        run(c);
        expect_same_bits(alone, bits_of(c));
      }
    }
  }
}

TEST(C86, SameBitsRunAfterRun) {
  for (const Config& config : kConfigs) {
    SCOPED_TRACE(config.name);
    Case c = make_case(config, DType::kBFloat16);
    c.options.threads = 4;
    run(c);
    const Bits first = bits_of(c);
    for (int repeat = 0; repeat < 4; ++repeat) {
      run(c);
      expect_same_bits(first, bits_of(c));
    }
  }
}

TEST(C86, SameBitsOfBiasAndSinkGradients) {
  for (const unsigned broadcast : {0U, 1U, 3U}) {
    Case c = make_case(kConfigs[1], DType::kFloat32);
    test::Random random(86);
    const Dims dims = {(broadcast & 1) != 0 ? 1 : 2, (broadcast & 2) != 0 ? 1 : 4, 130, 170};
    c.bias = HostTensor(DType::kFloat32, dims).fill_normal(random);
    c.sink = HostTensor::of(DType::kFloat32, {4}, {1, 2, 0, -1});
    c.options.threads = 1;
    run(c);
    const auto dbias = c.dbias.bytes(), dsink = c.dsink.bytes();
    for (const int threads : {2, 4, 8}) {
      c.options.threads = threads;
      run(c);
      EXPECT_TRUE(c.dbias.bytes() == dbias) << threads << " threads, broadcast " << broadcast;
      EXPECT_TRUE(c.dsink.bytes() == dsink) << threads << " threads, broadcast " << broadcast;
    }
  }
}

/// The long-cache decode, where one row's keys are split over threads.
TEST(C86, SameBitsOfASplitCache) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.s_q = 1, .s_k = 9000, .heads_q = 2, .heads_k = 1, .d = 64}, dtype);
    c.options.threads = 1;
    run_forward(c);
    const Bits alone = bits_of(c);
    for (const int threads : {2, 4, 8}) {
      c.options.threads = threads;
      run_forward(c);
      EXPECT_TRUE(alone.out == c.out.bytes()) << threads;
      EXPECT_TRUE(alone.lse == c.lse.bytes()) << threads;
    }
  }
}

/// The sequences [first, first + count) of packed q, k, v, dout as a batch of their own.
Case neighbours(const Case& row, const std::vector<int64_t>& lengths_q,
                const std::vector<int64_t>& lengths_k, int64_t place) {
  const int64_t s_q = rows_of(row.q), s_k = rows_of(row.k);
  std::vector<int64_t> all_q = lengths_q, all_k = lengths_k;
  all_q.insert(all_q.begin() + place, s_q);
  all_k.insert(all_k.begin() + place, s_k);
  Case c = ref64({.heads_q = heads_of(row.q),
                  .heads_k = heads_of(row.k),
                  .d = row.q.dims().back(),
                  .lengths_q = all_q,
                  .lengths_k = all_k},
                 row.q.dtype(), 87);
  c.options = row.options;
  const int64_t first_q = std::accumulate(all_q.begin(), all_q.begin() + place, int64_t{0});
  const int64_t first_k = std::accumulate(all_k.begin(), all_k.begin() + place, int64_t{0});
  const auto put = [](HostTensor& into, const HostTensor& from, int64_t first) {
    const std::vector<double> values = from.values();
    const Dims& dims = from.dims();
    for (size_t n = 0; n < values.size(); ++n) {
      const auto flat = static_cast<int64_t>(n);
      into.set({first + flat / dims[2] / dims[1], flat / dims[2] % dims[1], flat % dims[2]},
               values[n]);
    }
  };
  put(c.q, row.q, first_q), put(c.dout, row.dout, first_q);
  put(c.k, row.k, first_k), put(c.v, row.v, first_k);
  return c;
}
HostTensor rows_between(const HostTensor& x, int64_t first, int64_t rows) {
  return part_of(x, {first, 0, 0, 0}, {rows, x.dims()[1], x.dims()[2]});
}

// A decode row's result changed when an unrelated prefill in the batch grew from 9 to 10 tokens
// (vllm #51902).
TEST(C87, RowDoesNotDependOnItsNeighbours) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t s_q : {1, 3, 50}) {
      Case row = ref64(
          {.heads_q = 14, .heads_k = 2, .d = 32, .lengths_q = {s_q}, .lengths_k = {1500}}, dtype);
      row.options.causal = Causal::kBottomRight;
      row.options.batch_invariant = true;
      row.options.deterministic = true;
      run_forward(row);
      if (s_q > 1) must(row.backward());
      const Bits alone = bits_of(row);
      for (const int64_t length : {1, 9, 10, 200}) {
        for (const int threads : {length % 2 == 0 ? 4 : 1}) {
          SCOPED_TRACE(testing::Message()
                       << "s_q " << s_q << " beside " << length << ", " << threads << " threads");
          Case c = neighbours(row, {length, 1}, {length, 700}, length % 2);
          c.options.threads = threads;
          run_forward(c);
          const int64_t first = length % 2 == 1 ? length : 0;
          const HostTensor out = rows_between(c.out, first, s_q);
          EXPECT_TRUE(out.bytes() == alone.out) << "out";
          for (int64_t h = 0; h < 14; ++h) {
            for (int64_t i = 0; i < s_q; ++i) {
              ASSERT_EQ(c.lse.get({h, first + i}), row.lse.get({h, i})) << "lse";
            }
          }
          if (s_q == 1) continue;
          must(c.backward());
          EXPECT_TRUE(rows_between(c.dq, first, s_q).bytes() == alone.dq) << "dq";
          EXPECT_TRUE(rows_between(c.dk, first, 1500).bytes() == alone.dk) << "dk";
          EXPECT_TRUE(rows_between(c.dv, first, 1500).bytes() == alone.dv) << "dv";
        }
      }
    }
  }
}

// The row alone as a dense batch of 1 and of 64 (flash-attention #1897).
TEST(C87, RowDoesNotDependOnTheBatch) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case one = ref64({.s_q = 1, .s_k = 700, .heads_q = 4, .heads_k = 2, .d = 32}, dtype);
    one.options.batch_invariant = true;
    run_forward(one);
    for (const int64_t batch : {2, 9, 64}) {
      Case many = ref64({.batch = batch, .s_q = 1, .s_k = 700, .heads_q = 4, .heads_k = 2, .d = 32},
                        dtype, 5);
      many.options.batch_invariant = true;
      for (HostTensor Case::*x : {&Case::q, &Case::k, &Case::v}) {
        for (int64_t row = 0; row < rows_of(one.*x); ++row) {
          for (int64_t h = 0; h < heads_of(one.*x); ++h) {
            for (int64_t column = 0; column < 32; ++column) {
              (many.*x).set({batch - 1, row, h, column}, (one.*x).get({0, row, h, column}));
            }
          }
        }
      }
      run_forward(many);
      const HostTensor last = slice(many.out, 0, batch - 1, 2, 0, 4);
      EXPECT_TRUE(last.bytes() == one.out.bytes()) << "batch " << batch;
    }
  }
}

}  // namespace
}  // namespace fa4::cases
