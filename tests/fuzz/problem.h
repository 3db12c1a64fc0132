// SPDX-License-Identifier: BSD-3-Clause
// A fuzzed problem as a few numbers: drawn from a seed, printed as one line, read back, made
// simpler, and turned into a Case.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "support/case.h"

namespace fa4::fuzz {

/// How the values of q, k and v are drawn.
enum class Values : int64_t {
  kNormal,
  kOutliers,     ///< A few channels are 40 times larger.
  kOffset,       ///< All of k, and all of v, are shifted by a constant.
  kLargeLogits,  ///< q times 16: rows that see nearly one key.
  kSmall,        ///< All times 1e-3.
  kCounting,     ///< q = 0, v[j] = j + 1.
  kEqualKeys,    ///< Every key is the same.
  kCount
};

/// Draws numbers the same way with every standard library.
struct Draw {
  test::Random random;

  int64_t below(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
};

/// All a case depends on. A number of 0 is the plain choice wherever one can be: shrinking moves
/// towards it.
struct Problem {
  int64_t dtype = 0;  ///< As DType: float32, float64, bfloat16, float16.
  int64_t packed_q = 0, packed_k = 0;
  int64_t batch = 1, s_q = 1, s_k = 1;  ///< Packed: the longest sequence.
  int64_t heads_k = 1, group = 1, d = 1, d_v = 1;
  int64_t causal = 0;
  int64_t window_left = -1, window_right = -1;  ///< -1: absent.
  int64_t softcap_milli = 0;
  int64_t scale_milli = kDefaultScale;
  int64_t dropout_milli = 0;
  int64_t sink = 0;  ///< 1: as q's dtype; float32 and 2: normal, 3: some large, 4: some -inf.
  int64_t bias = 0, mask = 0;  ///< 0: absent; else 1 + the sum of 1, 2, 4, 8 for broadcast dims.
  int64_t bias_type = 0;       ///< 0: as q's dtype, 1: float32, 2: float64.
  int64_t bias_hides = 0;      ///< Some of it is -inf.
  int64_t alibi = 0;           ///< 1: [h], 2: [b, h].
  int64_t used_q = 0, used_k = 0, start_q = 0, start_k = 0;
  int64_t slack = 0;  ///< Packed rows past the last sequence.
  int64_t dlse = 0;
  int64_t hidden_nan = 0;  ///< NaN in every row that nobody may read.
  int64_t strides = 0;     ///< 0: contiguous; else the seed that odd strides are drawn from.
  int64_t values = 0;      ///< As Values.
  int64_t threads = 1;
  int64_t deterministic = 0, batch_invariant = 0;
  int64_t seed = 0;  ///< Of all that is drawn.

  static constexpr int64_t kDefaultScale = -1000000;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Problem number `index` of the stream that `seed` begins.
Problem draw(uint64_t seed, uint64_t index);

/// "dtype=2 s_q=65 ...": what differs from a default Problem. parse() reads it back; nothing if a
/// word is not "name=number" with a known name.
std::string to_string(const Problem& problem);
std::optional<Problem> parse(const std::string& text);

/// Problems with one number smaller or plainer.
std::vector<Problem> simpler(const Problem& problem);

/// The tensors and options. Deterministic.
test::Case build(const Problem& problem);
/// The problem that they pose, but for a sink, which no choice of a kernel depends on.
AttentionProblem problem_of(const Problem& problem);

}  // namespace fa4::fuzz
