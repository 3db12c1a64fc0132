// SPDX-License-Identifier: BSD-3-Clause
// A row's result depends on the keys that it sees and on nothing else, a key's gradients on the
// rows that see it. So: run a problem, spoil some rows and keys with NaN and infinities, run it
// again; whatever does not see a spoiled place must not change by a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/case.h"
#include "support/numbers.h"

namespace fa4::test {
namespace {

struct Setting {
  const char* name;
  Shape shape;
  Causal causal = Causal::kNone;
  std::optional<int64_t> left{};
  Dims mask{};        ///< [b, h, rows, keys] of the mask; empty = none.
  bool bias = false;  ///< A bias that hides in the mask's place.
  double dropout = 0;
  bool sink = false;
  int64_t last = 0;  ///< Only so many of the last keys are spoiled; 0 = any.
};

const Setting kSettings[] = {
    {"tiles, causal", {.s_q = 150, .s_k = 170, .heads_q = 2, .d = 24}, Causal::kBottomRight},
    {"tiles, window",
     {.s_q = 150, .s_k = 170, .heads_q = 2, .heads_k = 1, .d = 24, .d_v = 40},
     Causal::kBottomRight,
     20},
    {"tiles, mask of keys",
     {.s_q = 100, .s_k = 300, .heads_q = 2, .d = 16},
     {},
     {},
     {1, 1, 1, 300}},
    {"tiles, mask of everything",
     {.s_q = 100, .s_k = 140, .heads_q = 4, .heads_k = 2, .d = 16},
     Causal::kBottomRight,
     {},
     {1, 4, 100, 140}},
    {"tiles, bias", {.s_q = 60, .s_k = 140, .heads_q = 2, .d = 16}, {}, {}, {1, 1, 60, 140}, true},
    {"tiles, dropout and sink",
     {.s_q = 60, .s_k = 140, .heads_q = 2, .d = 16},
     Causal::kBottomRight,
     {},
     {1, 1, 60, 140},
     false,
     .25,
     true},
    {"decode, causal",
     {.s_q = 4, .s_k = 700, .heads_q = 4, .heads_k = 2, .d = 24},
     Causal::kBottomRight,
     {},
     {},
     false,
     0,
     false,
     3},
    {"decode, mask",
     {.s_q = 2, .s_k = 700, .heads_q = 4, .heads_k = 2, .d = 20},
     {},
     {},
     {1, 4, 2, 700}},
    {"decode, bias",
     {.s_q = 1, .s_k = 300, .heads_q = 4, .heads_k = 1, .d = 16},
     {},
     {},
     {1, 4, 1, 300},
     true},
};

/// One problem, and which rows see which keys.
class Spoiled {
 public:
  Spoiled(const Setting& setting, DType dtype, uint64_t seed)
      : setting_(setting), random_(seed), case_(ref64(setting.shape, dtype, seed)) {
    case_.options.causal = setting.causal;
    case_.options.window.left = setting.left;
    case_.options.dropout_p = setting.dropout;
    if (setting.sink) {
      case_.sink = HostTensor(DType::kFloat32, {setting.shape.heads_q}).fill_normal(random_);
    }
    if (setting.mask.empty()) return;
    hidden_ = HostTensor(DType::kBool, setting.mask);
    hidden_.fill_with([&](const Index&) { return random_() % 3 != 0 ? 1 : 0; });
    if (!setting.bias) {
      case_.mask = hidden_;
      return;
    }
    case_.bias = HostTensor(DType::kFloat32, setting.mask);
    case_.bias.fill_with([&](const Index& i) { return hidden_.get(i) != 0 ? 0.5 : -kInfinity; });
  }

  void run(int threads) {
    case_.options.threads = threads;
    for (HostTensor* x :
         {&case_.out, &case_.lse, &case_.dq, &case_.dk, &case_.dv, &case_.dsink, &case_.dbias}) {
      *x = {};
    }
    const Status forward = case_.forward();
    ASSERT_TRUE(forward.ok()) << forward.message();
    const Status backward = case_.backward();
    ASSERT_TRUE(backward.ok()) << backward.message();
  }

  /// Spoils one element of some rows of k or v, and of q or dout.
  void spoil() {
    const double values[] = {kNaN, kInfinity, -kInfinity};
    for (int64_t h = 0; h < heads_k(); ++h) {
      for (uint64_t n = random_() % 3; n < 3; ++n) {
        const auto last = setting_.last > 0 ? setting_.last : s_k();
        const int64_t j = s_k() - 1 - static_cast<int64_t>(random_() % last);
        HostTensor& x = random_() % 2 == 0 ? case_.k : case_.v;
        x.set({0, j, h, static_cast<int64_t>(random_() % 16)}, values[random_() % 3]);
        bad_keys_.push_back({h, j});
      }
    }
    for (int64_t h = 0; h < setting_.shape.heads_q; ++h) {
      for (int64_t i = 0; i < setting_.shape.s_q; ++i) {
        if (random_() % 29 != 0) continue;
        HostTensor& x = random_() % 2 == 0 ? case_.q : case_.dout;
        x.set({0, i, h, static_cast<int64_t>(random_() % 16)}, values[random_() % 3]);
        bad_rows_.push_back({h, i});
      }
    }
  }

  bool sees(int64_t head, int64_t i, int64_t j) const {
    const int64_t at = i + s_k() - setting_.shape.s_q;
    if (setting_.causal == Causal::kBottomRight && j > at) return false;
    if (setting_.left && j < at - *setting_.left) return false;
    if (setting_.mask.empty()) return true;
    const auto index = [&](int dim, int64_t x) { return setting_.mask[dim] == 1 ? 0 : x; };
    return hidden_.get({0, index(1, head), index(2, i), j}) != 0;
  }
  bool sees_bad_key(int64_t head, int64_t i) const {
    return std::any_of(bad_keys_.begin(), bad_keys_.end(), [&](const std::array<int64_t, 2>& bad) {
      return bad[0] == head / group() && sees(head, i, bad[1]);
    });
  }
  bool is_bad_row(int64_t head, int64_t i) const { return contains(bad_rows_, {head, i}); }

  /// Whether a gradient of key j may differ.
  bool is_touched(int64_t head_k, int64_t j) const {
    if (contains(bad_keys_, {head_k, j})) return true;
    for (int64_t h = head_k * group(); h < (head_k + 1) * group(); ++h) {
      for (int64_t i = 0; i < setting_.shape.s_q; ++i) {
        if (sees(h, i, j) && (is_bad_row(h, i) || sees_bad_key(h, i))) return true;
      }
    }
    return false;
  }

  int64_t s_k() const { return setting_.shape.s_k; }
  int64_t heads_k() const { return case_.k.dims()[2]; }
  int64_t group() const { return setting_.shape.heads_q / heads_k(); }
  const Case& result() const { return case_; }

 private:
  static bool contains(const std::vector<std::array<int64_t, 2>>& all,
                       const std::array<int64_t, 2>& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }

  const Setting& setting_;
  Random random_;
  Case case_;
  HostTensor hidden_;
  std::vector<std::array<int64_t, 2>> bad_keys_, bad_rows_;  ///< {head, row}
};

bool same(const HostTensor& a, const HostTensor& b, int64_t row, int64_t head) {
  for (int64_t c = 0; c < a.dims()[3]; ++c) {
    const Index index{0, row, head, c};
    if (!(a.get(index) == b.get(index))) return false;
  }
  return true;
}

/// Compares what sees nothing spoiled, and returns how many rows and keys those were.
int64_t expect_untouched(const Spoiled& spoiled, const Case& clean) {
  const Case& c = spoiled.result();
  int64_t count = 0;
  for (int64_t h = 0; h < c.q.dims()[2]; ++h) {
    for (int64_t i = 0; i < c.q.dims()[1]; ++i) {
      if (spoiled.sees_bad_key(h, i) || spoiled.is_bad_row(h, i)) continue;
      ++count;
      EXPECT_TRUE(same(c.out, clean.out, i, h)) << "out, row " << i << " head " << h;
      EXPECT_EQ(c.lse.get({0, h, i}), clean.lse.get({0, h, i})) << "row " << i << " head " << h;
      EXPECT_TRUE(same(c.dq, clean.dq, i, h)) << "dq, row " << i << " head " << h;
    }
  }
  for (int64_t h = 0; h < c.k.dims()[2]; ++h) {
    for (int64_t j = 0; j < c.k.dims()[1]; ++j) {
      if (spoiled.is_touched(h, j)) continue;
      ++count;
      EXPECT_TRUE(same(c.dk, clean.dk, j, h)) << "dk, key " << j << " head " << h;
      EXPECT_TRUE(same(c.dv, clean.dv, j, h)) << "dv, key " << j << " head " << h;
    }
  }
  return count;
}

TEST(CpuNonFinite, ReachesOnlyThoseWhoSeeIt) {
  for (const Setting& setting : kSettings) {
    int64_t compared = 0;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(std::string(setting.name) + ", " + to_string(dtype) + ", seed " +
                     std::to_string(seed));
        Spoiled problem(setting, dtype, seed);
        problem.run(1);
        const Case clean = problem.result();
        problem.spoil();
        problem.run(1);
        compared += expect_untouched(problem, clean);
        const Case one = problem.result();
        problem.run(3);
        for (const auto& x : {&Case::out, &Case::lse, &Case::dq, &Case::dk, &Case::dv}) {
          EXPECT_TRUE((problem.result().*x).bytes() == (one.*x).bytes()) << "threads";
        }
        if (testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(compared, 0) << setting.name;
  }
}

}  // namespace
}  // namespace fa4::test
