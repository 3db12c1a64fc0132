// SPDX-License-Identifier: BSD-3-Clause
// The mask geometry against the contract's words, over every small pair of lengths.
#include "core/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "support/case.h"

namespace fa4::test {
namespace {

using core::Range;

/// Whether row i sees key j, one rule after the other.
bool sees(const core::Sequence& s, const AttentionOptions& o, int64_t i, int64_t j) {
  const int64_t diagonal = o.causal == Causal::kTopLeft
                               ? s.k.used.begin + (i - s.q.used.begin)
                               : (s.k.used.end - 1) - ((s.q.used.end - 1) - i);
  if (j < s.k.used.begin || j >= s.k.used.end) return false;
  if (o.causal != Causal::kNone && j > diagonal) return false;
  if (o.window.left && j < diagonal && diagonal - j > *o.window.left) return false;
  return !(o.window.right && j > diagonal && j - diagonal > *o.window.right);
}

/// Keys of [begin, end) that fulfil the predicate, as a range; they must be without gaps.
template <class Predicate>
Range matching(Range all, const Predicate& predicate) {
  Range found{0, 0};
  for (int64_t x = all.begin; x < all.end; ++x) {
    if (!predicate(x)) continue;
    if (found.empty()) found = {x, x};
    EXPECT_EQ(found.end, x) << "a gap";
    found.end = x + 1;
  }
  return found;
}

void expect_same(Range actual, Range expected, const char* what) {
  if (actual.empty() && expected.empty()) return;
  EXPECT_EQ(actual, expected) << what << ": [" << actual.begin << ", " << actual.end << "), not ["
                              << expected.begin << ", " << expected.end << ")";
}

void check_tiles(const core::Sequence& s, const AttentionOptions& o, Range rows) {
  const auto any = [&](int64_t j) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      if (sees(s, o, i, j)) return true;
    }
    return false;
  };
  const auto all = [&](int64_t j) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      if (!sees(s, o, i, j)) return false;
    }
    return !rows.empty();
  };
  expect_same(s.keys_of_rows(rows), matching(s.k.used, any), "keys_of_rows");
  expect_same(s.keys_common_to_rows(rows), matching(s.k.used, all), "keys_common_to_rows");
}

void check(const core::Sequence& s, const AttentionOptions& o) {
  for (int64_t i = s.q.used.begin; i < s.q.used.end; ++i) {
    expect_same(s.keys_of_row(i), matching(s.k.used, [&](int64_t j) { return sees(s, o, i, j); }),
                "keys_of_row");
    for (int64_t end = i; end <= s.q.used.end; ++end) check_tiles(s, o, {i, end});
  }
  for (int64_t j = s.k.used.begin; j < s.k.used.end; ++j) {
    expect_same(s.rows_of_key(j), matching(s.q.used, [&](int64_t i) { return sees(s, o, i, j); }),
                "rows_of_key");
    for (int64_t end = j; end <= s.k.used.end; ++end) {
      const auto any = [&](int64_t i) {
        bool found = false;
        for (int64_t key = j; key < end; ++key) found = found || sees(s, o, i, key);
        return found;
      };
      expect_same(s.rows_of_keys({j, end}), matching(s.q.used, any), "rows_of_keys");
    }
  }
}

/// Every used range of both sides, for one set of options.
void check_all_lengths(const AttentionOptions& options) {
  constexpr int64_t kRows = 4, kKeys = 5;
  core::Problem problem;
  problem.spec.options = options;
  problem.batch = 1;
  problem.rows_q = kRows;
  problem.rows_k = kKeys;
  for (int64_t q_end = 0; q_end <= kRows; ++q_end) {
    for (int64_t k_end = 0; k_end <= kKeys; ++k_end) {
      for (int64_t q_begin = 0; q_begin <= std::min<int64_t>(q_end, 2); ++q_begin) {
        for (int64_t k_begin = 0; k_begin <= std::min<int64_t>(k_end, 2); ++k_begin) {
          Case c;
          c.seqused_q = indices({q_end});
          c.seqused_k = indices({k_end}, DType::kInt64);
          c.start_q = indices({q_begin}, DType::kInt64);
          c.start_k = indices({k_begin});
          const AttentionTensors t = c.tensors();
          const core::Sequence s = core::sequence_of(problem, t, 0);
          EXPECT_EQ(s.q.used, (Range{q_begin, q_end}));
          EXPECT_EQ(s.k.used, (Range{k_begin, k_end}));
          check(s, options);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(Sequence, EveryMaskOfEverySmallLength) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::optional<int64_t> limits[] = {std::nullopt, 0, 1, 2, 7, kMax};
  for (Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
    for (const auto& left : limits) {
      for (const auto& right : limits) {
        AttentionOptions options;
        options.causal = causal;
        options.window = {left, right};
        SCOPED_TRACE(testing::Message() << "causal " << static_cast<int>(causal) << ", window "
                                        << left.value_or(-1) << ", " << right.value_or(-1));
        check_all_lengths(options);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Sequence, PackedRowsBeginAtCuSeqlens) {
  core::Problem problem;
  problem.batch = 3;
  problem.packed_q = problem.packed_k = true;
  problem.rows_q = problem.rows_k = 20;
  Case c;
  c.cu_seqlens_q = cu_seqlens_of({3, 0, 4});
  c.cu_seqlens_k = cu_seqlens_of({5, 2, 6}, DType::kInt64);
  c.seqused_k = indices({4, 0, 6});
  const core::Sequence s = core::sequence_of(problem, c.tensors(), 2);
  EXPECT_EQ(s.index, 2);
  EXPECT_EQ(s.q.batch_index, 0);
  EXPECT_EQ(s.q.first_row, 3);
  EXPECT_EQ(s.q.capacity, 4);
  EXPECT_EQ(s.k.first_row, 7);
  EXPECT_EQ(s.k.used, (Range{0, 6}));
  EXPECT_EQ(s.diagonal, 2);
  EXPECT_TRUE(core::sequence_of(problem, c.tensors(), 1).q.used.empty());
}

TEST(Sequence, ReadsStridedIndices) {
  HostTensor wide(DType::kInt32, {3}, {2});
  wide.fill({4, 5, 6});
  EXPECT_EQ(core::read_index(wide.view(), 2), 6);
  HostTensor same(DType::kInt64, {3}, {0});
  same.fill(9);
  EXPECT_EQ(core::read_index(same.view(), 2), 9);
}

}  // namespace
}  // namespace fa4::test
