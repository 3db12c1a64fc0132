// SPDX-License-Identifier: BSD-3-Clause
// Named mask patterns with exact answers, as boolean masks and as lengths or windows where these
// can say the same.
#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

using Pattern = std::function<bool(int64_t i, int64_t j)>;

Case with_mask(int64_t rows, const Pattern& sees, DType dtype) {
  Case c = probe({.s_q = rows, .s_k = rows}, dtype);
  c.mask = HostTensor(DType::kBool, {1, 1, rows, rows}).fill_with([&](const Index& i) {
    return sees(i[2], i[3]) ? 1.0 : 0.0;
  });
  return c;
}
void expect_pattern(Case& c, const std::vector<double>& rows, const Pattern& sees) {
  run(c);
  expect_rows(c, rows);
  expect_counts(c, [&](int64_t, int64_t, int64_t i, int64_t j) { return sees(i, j); });
}

// Packed documents saw one another when position ids were missing (flash-attention #432).
TEST(C123, PackedDocuments) {
  const auto document = [](int64_t i) { return i < 3 ? 0 : 1; };
  const Pattern sees = [&](int64_t i, int64_t j) { return j <= i && document(i) == document(j); };
  for (const DType dtype : kFloats) {
    Case masked = with_mask(5, sees, dtype);
    expect_pattern(masked, {1, 1.5, 2, 4, 4.5}, sees);
    Case packed = probe({.lengths_q = {3, 2}, .lengths_k = {3, 2}}, dtype);
    packed.options.causal = Causal::kBottomRight;
    expect_pattern(packed, {1, 1.5, 2, 4, 4.5}, sees);
  }
}

// A prefix that sees itself whole, then causal text (flash-attention #1291, #1605).
TEST(C124, PrefixThenCausal) {
  for (const DType dtype : kFloats) {
    const Pattern sees = [](int64_t i, int64_t j) { return j <= i || j < 3; };
    Case c = with_mask(6, sees, dtype);
    expect_pattern(c, {2, 2, 2, 2.5, 3, 3.5}, sees);
  }
}

TEST(C124, LongPrefixOverTileEdges) {
  const Pattern sees = [](int64_t i, int64_t j) { return j <= i || j < 100; };
  Case c = with_mask(200, sees, DType::kFloat16);
  run(c);
  expect_counts(c, [&](int64_t, int64_t, int64_t i, int64_t j) { return sees(i, j); });
}

// Causal inside chunks of a fixed length (Llama 4).
TEST(C126, CausalInChunks) {
  const std::vector<double> rows = {1, 1.5, 2, 2.5, 5, 5.5, 6, 6.5, 9, 9.5};
  const Pattern sees = [](int64_t i, int64_t j) { return j <= i && i / 4 == j / 4; };
  for (const DType dtype : kFloats) {
    Case masked = with_mask(10, sees, dtype);
    expect_pattern(masked, rows, sees);
    Case packed = probe({.lengths_q = {4, 4, 2}, .lengths_k = {4, 4, 2}}, dtype);
    packed.options.causal = Causal::kBottomRight;
    expect_pattern(packed, rows, sees);
  }
}

// Each row attends to itself alone.
TEST(C128, OnlyItself) {
  const Pattern sees = [](int64_t i, int64_t j) { return i == j; };
  for (const DType dtype : kFloats) {
    Case masked = with_mask(4, sees, dtype);
    expect_pattern(masked, {1, 2, 3, 4}, sees);
    Case window = probe({.s_q = 4, .s_k = 4}, dtype);
    window.options.window = {0, 0};
    expect_pattern(window, {1, 2, 3, 4}, sees);
    Case wide = probe({.s_q = 200, .s_k = 200}, dtype);
    wide.options.window = {0, 0};
    run(wide);
    expect_counts(wide, [&](int64_t, int64_t, int64_t i, int64_t j) { return sees(i, j); });
  }
}

}  // namespace
}  // namespace fa4::cases
