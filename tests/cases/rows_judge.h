// SPDX-License-Identifier: BSD-3-Clause
// Judging large cases: the library runs the whole, the oracle looks at some of its rows.
#pragma once

#include "cases/case_helpers.h"

namespace fa4::cases {

/// Rows `rows` of a one-batch, one-key-head case, as a case without causal and window: its mask
/// says which keys they see. No bias, ALiBi or lengths.
inline Case rows_case(const Case& whole, const std::vector<int64_t>& rows) {
  Case c = whole;
  const int64_t s_q = rows_of(whole.q), s_k = rows_of(whole.k);
  const auto count = static_cast<int64_t>(rows.size());
  for (HostTensor* x : {&c.q, &c.out, &c.dout, &c.dq}) {
    Dims dims = x->dims();
    dims[1] = count;
    const HostTensor all = *x;
    *x = HostTensor(x->dtype(), dims).fill_with([&](const Index& i) {
      return all.get({0, rows[i[1]], i[2], i[3]});
    });
  }
  c.lse = HostTensor(c.lse.dtype(), {1, heads_of(c.q), count}).fill_with([&](const Index& i) {
    return whole.lse.get({0, i[1], rows[i[2]]});
  });
  const AttentionOptions& o = whole.options;
  const int64_t diagonal = o.causal == Causal::kTopLeft ? 0 : s_k - s_q;
  c.mask = HostTensor(DType::kBool, {1, 1, count, s_k}).fill_with([&](const Index& i) {
    const int64_t row = rows[i[2]], after = i[3] - row - diagonal;
    const HostTensor& mask = whole.mask;
    const bool seen = !mask.present() || mask.get({0, 0, mask.dims()[2] == 1 ? 0 : row, i[3]}) != 0;
    return seen && !(o.causal != Causal::kNone && after > 0) &&
                   !(o.window.left && -after > *o.window.left) &&
                   !(o.window.right && after > *o.window.right)
               ? 1.0
               : 0.0;
  });
  c.options.causal = Causal::kNone;
  c.options.window = {};
  return c;
}

/// Runs a dense case whole and judges its first and last slice (batch entry and key head): whole if
/// they are small; else by 17 rows, dout being 0 in all others.
inline void expect_rows_right(Case& c) {
  constexpr int64_t kSmall = 3'000'000;  // multiplications of q by k in a slice
  const int64_t s_q = rows_of(c.q), group = heads_of(c.q) / heads_of(c.k);
  if (group * s_q * rows_of(c.k) * c.q.dims().back() <= kSmall || s_q < 64) {
    expect_ends_right(c);
    return;
  }
  std::vector<int64_t> rows;
  for (int64_t i = 0; i <= 16; ++i) rows.push_back(i * (s_q - 1) / 16);
  c.dout.fill_with([&](const Index& i) {
    return std::binary_search(rows.begin(), rows.end(), i[1]) ? c.dout.get(i) : 0;
  });
  run(c);
  for (const auto& [b, head] :
       {std::pair<int64_t, int64_t>{0, 0}, {c.batch() - 1, heads_of(c.k) - 1}}) {
    const Case some = rows_case(slice(c, b, head), rows);
    EXPECT_EQ(some.judge_forward(), "") << some.name;
    EXPECT_EQ(some.judge_backward(), "") << some.name;
  }
}

}  // namespace fa4::cases
