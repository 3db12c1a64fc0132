// SPDX-License-Identifier: BSD-3-Clause
// Each micro-kernel of each target that this machine can run, against plain loops.
#include "cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/host_tensor.h"

namespace fa4::cpu {
namespace {

using test::HostTensor;
using test::Random;

template <class T>
class CpuKernels : public testing::Test {
 public:
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  static constexpr double kEpsilon = std::numeric_limits<T>::epsilon();

  /// Calls test(kernels) for every target.
  template <class F>
  static void on_each_target(const F& test) {
    for (const Target& target : available_targets()) {
      SCOPED_TRACE(target.name);
      EXPECT_EQ(std::string(target.kernels<T>().target), target.name);
      test(target.kernels<T>());
    }
  }
  static std::vector<T> normal(int64_t n, uint64_t seed) {
    Random random(seed);
    std::normal_distribution<T> distribution;
    std::vector<T> values(static_cast<size_t>(n));
    for (T& x : values) x = distribution(random);
    return values;
  }
  static int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuKernels, Types);

/// 64-byte aligned elements, as the kernels' scratch is.
template <class T>
class Aligned {
 public:
  explicit Aligned(int64_t n, T value = 0) : storage_(static_cast<size_t>(n) + 64 / sizeof(T)) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (64 - address % 64) % 64 / sizeof(T);
    std::fill(storage_.begin(), storage_.end(), value);
  }
  T* data() { return data_; }
  T& operator[](int64_t i) { return data_[i]; }

 private:
  std::vector<T> storage_;
  T* data_;
};

Matrix matrix_of(const HostTensor& t) {
  return {t.view().data, t.dtype(), t.strides()[0], t.strides()[1]};
}

const std::vector<DType> kFloats = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                    DType::kFloat16};

TYPED_TEST(CpuKernels, LoadAndStoreRowsOfAnyTypeAndStrides) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const DType dtype : kFloats) {
      for (const auto& strides : {std::vector<int64_t>{40, 1}, {1, 5}, {90, 2}}) {
        Random random(1);
        HostTensor source = HostTensor(dtype, {5, 37}, strides).fill_normal(random);
        Aligned<T> rows(5 * 40, T{-7});
        kernels.load_rows(matrix_of(source), 5, 37, T{2}, rows.data(), 40);
        for (int64_t r = 0; r < 5; ++r) {
          for (int64_t c = 0; c < 37; ++c) {
            ASSERT_EQ(rows[r * 40 + c], 2 * static_cast<T>(source.get({r, c})));
          }
          ASSERT_EQ(rows[r * 40 + 37], T{-7});
        }
        HostTensor back(dtype, {5, 37}, strides);
        kernels.store_rows(rows.data(), 40, 5, 37, T{0.5}, matrix_of(back));
        EXPECT_EQ(back.damage(), "");
        if (dtype != DType::kFloat64 || sizeof(T) == 8) {
          EXPECT_EQ(back.bytes(), source.bytes());
        }
      }
    }
  });
}

/// Every half and bfloat16 there is, and floats that round to them in every way.
TYPED_TEST(CpuKernels, SixteenBitConversionsAreThoseOfTypes) {
  using T = TypeParam;
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      const bool bf16 = dtype == DType::kBFloat16;
      Aligned<T> loaded(65536);
      kernels.load_rows({bits.data(), dtype, 0, 1}, 1, 65536, T{1}, loaded.data(), 0);
      std::vector<T> inputs;
      for (int64_t i = 0; i < 65536; ++i) {
        const auto b = static_cast<uint16_t>(i);
        const float expected = bf16 ? to_float(BFloat16{b}) : to_float(Float16{b});
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(loaded[i])) << i;
        } else {
          ASSERT_EQ(loaded[i], static_cast<T>(expected)) << i;
        }
        // The value, and what lies a little, a quarter and half a step above it.
        for (const double above : {0.0, 1e-6, 0.25, 0.5, 0.500001}) {
          const double step = std::abs(expected) * (bf16 ? 0x1p-7 : 0x1p-10);
          inputs.push_back(static_cast<T>(static_cast<float>(expected + above * step)));
        }
      }
      std::vector<uint16_t> stored(inputs.size());
      const auto n = static_cast<int64_t>(inputs.size());
      kernels.store_rows(inputs.data(), 0, 1, n, T{1}, {stored.data(), dtype, 0, 1});
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto x = static_cast<float>(inputs[i]);
        const uint16_t expected = bf16 ? to_bfloat16(x).bits : to_float16(x).bits;
        if (std::isnan(x)) {
          const float y = bf16 ? to_float(BFloat16{stored[i]}) : to_float(Float16{stored[i]});
          ASSERT_TRUE(std::isnan(y)) << i;
        } else {
          ASSERT_EQ(stored[i], expected) << x;
        }
      }
    }
  });
}

TYPED_TEST(CpuKernels, PackMakesPanelsOfAnyMatrix) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const DType dtype : kFloats) {
      for (const int64_t depth : {1, 6, 33}) {
        for (const int64_t cols : {1, 15, 16, 70}) {
          for (const auto& strides :
               {std::vector<int64_t>{cols + 3, 1}, {1, depth + 3}, {2, 2 * depth}}) {
            Random random(2);
            HostTensor source = HostTensor(dtype, {depth, cols}, strides).fill_normal(random);
            const int64_t panel = kernels.panel, panel_depth = depth + 2;
            const int64_t size = packed_size(kernels, panel_depth, cols);
            Aligned<T> packed(size + 1, T{-7});
            kernels.pack(matrix_of(source), depth, cols, panel_depth, packed.data());
            for (int64_t i = 0; i < size; ++i) {
              const int64_t column = i / (panel * panel_depth) * panel + i % panel;
              const int64_t row = i / panel % panel_depth;
              const bool inside = row < depth && column < cols;
              ASSERT_EQ(packed[i], inside ? static_cast<T>(source.get({row, column})) : T{0});
            }
            ASSERT_EQ(packed[size], T{-7});
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuKernels, MultiplyIsOneChainOfMultiplyAddsWhateverTheRows) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    const int64_t panel = kernels.panel, depth = 37, cols = 3 * panel - 1, ld = 3 * panel + 8;
    for (const bool transposed : {false, true}) {
      const std::vector<T> a = this->normal(29 * depth, 1);
      std::vector<T> b = this->normal(depth * cols, 2);
      Aligned<T> packed(packed_size(kernels, depth + 3, cols));
      const DType dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
      kernels.pack({b.data(), dtype, cols, 1}, depth, cols, depth + 3, packed.data());
      std::vector<T> alone;  // each row's result when it is the only one
      for (int64_t rows = 1; rows <= 29; ++rows) {
        for (const bool accumulate : {false, true}) {
          Aligned<T> c(29 * ld, T{3});
          Product<T> product;
          product.a = a.data();
          product.a_row_stride = transposed ? 1 : depth;
          product.a_col_stride = transposed ? 29 : 1;
          product.b = packed.data();
          product.panel_depth = depth + 3;
          product.c = c.data();
          product.c_stride = ld;
          product.rows = rows;
          product.cols = cols;
          product.depth = depth;
          product.accumulate = accumulate;
          kernels.multiply(product);
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < cols; ++j) {
              double expected = accumulate ? 3 : 0, size = std::abs(expected);
              for (int64_t p = 0; p < depth; ++p) {
                const double term =
                    static_cast<double>(a[transposed ? p * 29 + i : i * depth + p]) *
                    static_cast<double>(b[p * cols + j]);
                expected += term;
                size += std::abs(term);
              }
              ASSERT_NEAR(c[i * ld + j], expected, 40 * this->kEpsilon * size);
            }
            ASSERT_EQ(c[i * ld + 3 * panel], T{3});  // what lies past the last panel
          }
          if (rows == 29 && !accumulate) {
            for (int64_t i = 0; i < 29; ++i) {
              Aligned<T> one(ld);
              product.a = a.data() + (transposed ? i : i * depth);
              product.c = one.data();
              product.rows = 1;
              kernels.multiply(product);
              for (int64_t j = 0; j < cols; ++j) ASSERT_EQ(one[j], c[i * ld + j]);
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuKernels, SoftmaxFollowsTheMaximumAndHidesTheRest) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const bool approximate : {false, true}) {
      const double tolerance = approximate && sizeof(T) == 4 ? 4e-6 : 8 * this->kEpsilon;
      constexpr int64_t kCols = 75, kStride = 96;
      const Columns visible[] = {{0, 75}, {3, 4}, {10, 61}, {0, 0}, {7, 75}};
      const double scale = 1.7;
      std::vector<T> scores = this->normal(5 * kStride, 3);
      scores[2 * kStride + 20] = -this->kInfinity;
      scores[4 * kStride + 30] = T{500};
      Aligned<T> s(5 * kStride);
      std::copy(scores.begin(), scores.end(), s.data());
      Aligned<T> max(5, -this->kInfinity), sum(5), out(5 * 16, T{1});
      for (int64_t r = 0; r < 5; ++r) max[r] = r == 4 ? T{0} : -this->kInfinity;
      sum[4] = 8;
      ScoreTile<T> tile;
      tile.s = s.data();
      tile.s_stride = kStride;
      tile.rows = 5;
      tile.columns = {0, kCols};
      tile.visible = visible;
      tile.scale = scale;
      tile.approximate = approximate;
      kernels.softmax(tile, {max.data(), sum.data(), out.data(), 16, 16});
      for (int64_t r = 0; r < 5; ++r) {
        double total = 0;
        for (int64_t c = 0; c < kCols; ++c) {
          double expected = 0;
          if (visible[r].begin <= c && c < visible[r].end) {
            expected = std::exp(scale * (static_cast<double>(scores[r * kStride + c]) -
                                         static_cast<double>(max[r])));
          }
          total += expected;
          ASSERT_NEAR(s[r * kStride + c], expected, tolerance * (1 + 40 * expected))
              << r << " " << c;
        }
        ASSERT_NEAR(sum[r], total, 80 * tolerance * (1 + total)) << r;
      }
      EXPECT_EQ(max[3], -this->kInfinity);
      EXPECT_EQ(max[4], T{500});  // moved: what was summed before is rescaled to 0
      for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(out[4 * 16 + c], T{0});
      for (int64_t c = 0; c < 16; ++c)
        EXPECT_EQ(out[c], T{1});  // the first maximum rescales nothing
    }
  });
}

/// However small or large the scale: a hidden key stays hidden, and what a score is worth is exact
/// for the largest.
TYPED_TEST(CpuKernels, SoftmaxOfAnyScale) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const double scale : {3e-37, 1e-31, 1e-29, 1e-3, 1e3, 1e29}) {
      const auto unit = static_cast<T>(1 / scale);  // a natural logarithm's unit, in scores
      Aligned<T> s(32, -this->kInfinity), max(1, -this->kInfinity), sum(1), out(16);
      const double logs[] = {0, -1, -5.5, -20, -60};
      for (int64_t c = 0; c < 5; ++c) s[7 * c % 32] = static_cast<T>(logs[c]) * unit;
      s[31] = this->kNan;
      const ScoreTile<T> tile{s.data(), 32, 1, {0, 31}, nullptr, scale};
      kernels.softmax(tile, {max.data(), sum.data(), out.data(), 16, 16});
      EXPECT_EQ(s[0], T{1});
      for (int64_t c = 1; c < 5; ++c) {
        EXPECT_NEAR(s[7 * c % 32] / std::exp(logs[c]), 1, 300 * this->kEpsilon) << scale;
      }
      for (const int64_t c : {1, 2, 6, 30}) EXPECT_EQ(s[c], T{0}) << scale;
    }
  });
}

TYPED_TEST(CpuKernels, SmallMovesOfTheMaximumRescaleNothing) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    Aligned<T> s(16, T{0}), max(1), sum(1, T{1}), out(16, T{1});
    s[3] = T{5};  // in units of log2: 7.2 < 8
    ScoreTile<T> tile;
    tile.s = s.data();
    tile.s_stride = 16;
    tile.rows = 1;
    tile.columns = {0, 16};
    kernels.softmax(tile, {max.data(), sum.data(), out.data(), 16, 16});
    EXPECT_EQ(max[0], T{0});
    EXPECT_EQ(out[0], T{1});
    EXPECT_EQ(s[0], T{1});
    EXPECT_NEAR(s[3], std::exp(5.0), 1e-3);
  });
}

/// exp2 through softmax: max 0 and scale ln 2 make it the identity's power.
TYPED_TEST(CpuKernels, Exp2StaysWithinItsErrorBounds) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const bool approximate : {false, true}) {
      const bool single = sizeof(T) == 4;
      const double bound = !single ? 4e-16 : approximate ? 3.0e-6 : 1.4e-7;
      constexpr int64_t kCount = 4096;
      Aligned<T> x(kCount), y(kCount);
      const double lowest = single ? -125 : -1021;
      for (int64_t i = 0; i < kCount; ++i) {
        const auto step = static_cast<double>(i % 2048 + 1) / 2048;
        x[i] = static_cast<T>(step * (i < 2048 ? lowest : -2.0));
        y[i] = x[i];
      }
      Aligned<T> max(1), sum(1), out(16);
      ScoreTile<T> tile;
      tile.s = y.data();
      tile.s_stride = kCount;
      tile.rows = 1;
      tile.columns = {0, kCount};
      // scale * log2(e) must round to exactly 1
      tile.scale = 1 / 1.442695040888963407359924681001892137;
      tile.approximate = approximate;
      kernels.softmax(tile, {max.data(), sum.data(), out.data(), 16, 16});
      for (int64_t i = 0; i < kCount; ++i) {
        const double expected = std::exp2(static_cast<double>(x[i]));
        ASSERT_LE(std::abs(static_cast<double>(y[i]) - expected), bound * expected)
            << static_cast<double>(x[i]);
        if (x[i] == std::floor(x[i])) {
          ASSERT_EQ(y[i], expected);
        }
      }
    }
  });
}

TYPED_TEST(CpuKernels, NanAndInfinityInSoftmax) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    Aligned<T> s(4 * 32, T{0}), max(4, -this->kInfinity), sum(4), out(4 * 16);
    for (int64_t c = 0; c < 32; ++c) s[c] = -this->kInfinity;       // row 0: nothing but -inf
    for (int64_t c = 0; c < 32; ++c) s[32 + c] = -this->kInfinity;  // row 1: and a NaN
    s[32 + 17] = this->kNan;
    s[64 + 9] = this->kNan;                    // row 2: a NaN among numbers
    std::memset(&s[96 + 9], 0xFF, sizeof(T));  // row 3: the poison's NaN
    ScoreTile<T> tile;
    tile.s = s.data();
    tile.s_stride = 32;
    tile.rows = 4;
    tile.columns = {0, 32};
    kernels.softmax(tile, {max.data(), sum.data(), out.data(), 16, 16});
    for (int64_t c = 0; c < 32; ++c) EXPECT_EQ(s[c], T{0});
    EXPECT_EQ(sum[0], T{0});
    for (int64_t r = 1; r < 4; ++r) EXPECT_TRUE(std::isnan(sum[r])) << r;
  });
}

TYPED_TEST(CpuKernels, FinishScoresAppliesModifiersInOrder) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const T softcap : {T{0}, T{3}}) {
      constexpr int64_t kCols = 43;
      std::vector<T> raw = this->normal(kCols, 4), bias = this->normal(kCols, 5);
      std::vector<uint8_t> mask(kCols, 1);
      bias[7] = -this->kInfinity;
      raw[7] = this->kNan;
      mask[9] = 0;
      raw[9] = this->kNan;
      raw[11] = this->kNan;
      std::vector<T> s = raw, slope(kCols, T{-7});
      ScoreRow<T> row;
      row.s = s.data();
      row.columns = {2, 41};
      row.scale = T{-1.5};
      row.softcap = softcap;
      row.softcap_slope = slope.data();
      row.bias = bias.data();
      row.alibi_slope = T{0.25};
      row.alibi_first = T{-20};
      row.mask = mask.data();
      kernels.finish_scores(row);
      for (int64_t c = 2; c < 41; ++c) {
        double x = -1.5 * static_cast<double>(raw[c]);
        const double t = softcap > 0 ? std::tanh(x / static_cast<double>(softcap)) : 0;
        if (softcap > 0) x = static_cast<double>(softcap) * t;
        x += 0.25 * static_cast<double>(c - 20) + static_cast<double>(bias[c]);
        if (c == 7 || c == 9) {
          ASSERT_EQ(s[c], -this->kInfinity);
        } else if (c == 11) {
          ASSERT_TRUE(std::isnan(s[c]));
        } else {
          ASSERT_NEAR(s[c], x, 40 * this->kEpsilon * 10);
          if (softcap > 0) {
            ASSERT_NEAR(slope[c], 1 - t * t, 40 * this->kEpsilon);
          }
        }
      }
      for (const int64_t c : {0, 1, 41, 42}) ASSERT_EQ(s[c], raw[c]);
    }
  });
}

/// Two heads of a cache, each with `rows` query rows, against products in double precision.
template <class T>
void check_decode(const Kernels<T>& kernels, const CacheBlock& block, const HostTensor& cache,
                  int64_t rows, int64_t depth, const std::vector<T>& values, double epsilon) {
  const int64_t keys = block.keys, all_rows = block.heads * rows, scores = all_rows * keys;
  Aligned<T> q(all_rows * depth), s(scores), scratch(scores), out(all_rows * 80, T{1});
  std::copy_n(values.data(), all_rows * depth, q.data());
  kernels.arrange(block.first, rows, all_rows, depth, q.data(), depth, false);
  kernels.dot_rows({q.data(), depth, rows, depth, block, s.data(), keys});
  const T* p = values.data();
  const int64_t p_stride = 2 * keys + 1, p_step = 2;
  kernels.add_rows({p, p_stride, p_step, rows, depth, block, out.data(), 80, scratch.data()});
  kernels.arrange(block.first, rows, all_rows, depth, out.data(), 80, true);
  for (int64_t r = 0; r < all_rows; ++r) {
    const int64_t head = r / rows;
    for (int64_t j = 0; j < keys; ++j) {
      double expected = 0, size = 0;
      for (int64_t c = 0; c < depth; ++c) {
        const double term = static_cast<double>(values[r * depth + c]) * cache.get({j, head, c});
        expected += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(s[r * keys + j], expected, 70 * epsilon * (size + 1e-30));
    }
    for (int64_t c = 0; c < depth; ++c) {
      double expected = 1, size = 1;
      for (int64_t j = 0; j < keys; ++j) {
        const double term =
            static_cast<double>(p[r * p_stride + p_step * j]) * cache.get({j, head, c});
        expected += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(out[r * 80 + c], expected, 20 * epsilon * size);
    }
  }
}

TYPED_TEST(CpuKernels, DotRowsAndAddRowsReadTheCacheWhereItLies) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    for (const DType dtype : kFloats) {
      for (const int64_t rows : {1, 2, 3, 4, 8, 11}) {
        for (const auto& [keys, depth] :
             {std::pair{1, 1}, {2, 64}, {7, 33}, {12, 64}, {45, 24}, {83, 72}}) {
          for (const int64_t col_stride : {1, 2}) {
            Random random(6);
            const std::array<int64_t, 3> strides{4 * depth + 5, 2 * depth + 1, col_stride};
            const HostTensor cache =
                HostTensor(dtype, {keys, 2, depth}, {strides[0], strides[1], strides[2]})
                    .fill_normal(random);
            CacheBlock block;
            block.first = {cache.view().data, dtype, strides[0], strides[2]};
            block.heads = 2;
            block.head_stride = strides[1];
            block.keys = keys;
            const auto values = this->normal(2 * rows * std::max(depth, 2 * keys + 1), 7);
            check_decode(kernels, block, cache, rows, depth, values, this->kEpsilon);
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuKernels, AllFinite) {
  using T = TypeParam;
  this->on_each_target([&](const Kernels<T>& kernels) {
    std::vector<T> values = this->normal(45, 9);
    EXPECT_TRUE(kernels.all_finite(values.data(), 45));
    EXPECT_TRUE(kernels.all_finite(values.data(), 0));
    for (size_t i = 0; i < values.size(); ++i) {
      for (const T bad : {this->kNan, this->kInfinity, -this->kInfinity}) {
        std::vector<T> broken = values;
        broken[i] = bad;
        EXPECT_FALSE(kernels.all_finite(broken.data(), 45));
      }
    }
  });
}

}  // namespace
}  // namespace fa4::cpu
