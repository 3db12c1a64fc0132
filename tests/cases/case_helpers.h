// SPDX-License-Identifier: BSD-3-Clause
// What the cases share, on top of support/case.h.
//
// The cases restate what people who use attention kernels ran into, with the public thread as
// source ("flash-attention #402" is issue or pull request 402 of that project). Their ids (C01,
// ...) are this project's own. PROBE has exact answers: q = 0, v[j] = j + 1, dout = 1, so out is
// the mean of j + 1 over the keys that a row sees and lse the log of their number.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "oracle/oracle.h"
#include "support/case.h"

namespace fa4::cases {

using test::Case;
using test::Dims;
using test::HostTensor;
using test::Index;
using test::onehot;
using test::probe;
using test::ref64;
using test::Shape;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::array kFloats = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                       DType::kFloat16};

/// A boolean mask: true where a query sees a key.
inline HostTensor mask_of(Dims dims, const std::function<bool(const Index&)>& sees) {
  return HostTensor(DType::kBool, std::move(dims)).fill_with([&](const Index& i) {
    return sees(i) ? 1.0 : 0.0;
  });
}

inline bool is_narrow(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }
inline int significant_bits(DType dtype) {
  if (dtype == DType::kFloat64) return 53;
  if (dtype == DType::kBFloat16) return 8;
  return dtype == DType::kFloat16 ? 11 : 24;
}
/// Distance between neighbours near x.
inline double ulp(DType dtype, double x) {
  return x == 0 ? 0 : std::ldexp(1, std::ilogb(x) - significant_bits(dtype) + 1);
}

inline void must(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }
inline void run_forward(Case& c) { must(c.forward()); }
inline void run(Case& c) {
  must(c.forward());
  must(c.backward());
}

inline bool packed(const HostTensor& x) { return x.dims().size() == 3; }
inline int64_t rows_of(const HostTensor& x) { return x.dims()[x.dims().size() - 3]; }
inline int64_t heads_of(const HostTensor& x) { return x.dims()[x.dims().size() - 2]; }
/// Element (b, row, head, column); packed tensors don't look at b.
inline Index at(const HostTensor& x, int64_t b, int64_t row, int64_t head, int64_t column) {
  return packed(x) ? Index{row, head, column} : Index{b, row, head, column};
}
inline double lse_at(const Case& c, int64_t b, int64_t head, int64_t row) {
  return c.lse.get(packed(c.q) ? Index{head, row} : Index{b, head, row});
}

/// One row in every head and column of batch entry b.
inline void expect_row(const Case& c, int64_t row, double expected, int64_t b = 0) {
  const DType dtype = c.out.dtype();
  const double tolerance = (is_narrow(dtype) ? 1.5 : 4) * ulp(dtype, expected);
  for (int64_t h = 0; h < heads_of(c.out); ++h) {
    for (int64_t column = 0; column < c.out.dims().back(); ++column) {
      ASSERT_NEAR(c.out.get(at(c.out, b, row, h, column)), expected, tolerance)
          << to_string(dtype) << ", batch " << b << " row " << row << " head " << h << " column "
          << column;
    }
  }
}
/// out of the probe: one value a row. 16-bit types may be one unit off, because 1/n is rounded.
inline void expect_rows(const Case& c, const std::vector<double>& rows, int64_t b = 0) {
  ASSERT_EQ(static_cast<int64_t>(rows.size()), rows_of(c.out));
  for (size_t i = 0; i < rows.size(); ++i) expect_row(c, static_cast<int64_t>(i), rows[i], b);
}
inline void expect_lse(const Case& c, const std::vector<double>& rows, int64_t b = 0) {
  ASSERT_EQ(static_cast<int64_t>(rows.size()), rows_of(c.out));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int64_t h = 0; h < heads_of(c.out); ++h) {
      const double lse = lse_at(c, b, h, static_cast<int64_t>(i));
      if (std::isinf(rows[i])) {
        ASSERT_EQ(lse, rows[i]) << "lse of row " << i << " head " << h;
      } else {
        ASSERT_NEAR(lse, rows[i], 1e-6 + 5e-7 * std::abs(rows[i]))
            << "lse of row " << i << " head " << h;
      }
    }
  }
}
/// dv of the probe: one value a key, for each query head that shares it.
inline void expect_dv(const Case& c, const std::vector<double>& keys, int64_t b = 0) {
  ASSERT_EQ(static_cast<int64_t>(keys.size()), rows_of(c.dv));
  double relative = 2e-6;
  if (is_narrow(c.dv.dtype())) relative = std::ldexp(1, 1 - significant_bits(c.dv.dtype()));
  const auto group = static_cast<double>(heads_of(c.q) / heads_of(c.k));
  for (size_t j = 0; j < keys.size(); ++j) {
    for (int64_t h = 0; h < heads_of(c.dv); ++h) {
      for (int64_t column = 0; column < c.dv.dims().back(); ++column) {
        const double expected = keys[j] * group;
        ASSERT_NEAR(c.dv.get(at(c.dv, b, static_cast<int64_t>(j), h, column)), expected,
                    relative * std::abs(expected) + (expected == 0 ? 0 : 1e-6))
            << "dv of key " << j << " head " << h << " column " << column;
      }
    }
  }
}

inline void expect_zero(const HostTensor& x, const char* name) {
  for (const double value : x.values()) ASSERT_EQ(value, 0) << name;
}
/// Rows [begin, end) of batch entry b are exactly 0.
inline void expect_rows_zero(const HostTensor& x, const char* name, int64_t begin, int64_t end,
                             int64_t b = 0) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t h = 0; h < heads_of(x); ++h) {
      for (int64_t column = 0; column < x.dims().back(); ++column) {
        ASSERT_EQ(x.get(at(x, b, row, h, column)), 0) << name << " row " << row << " head " << h;
      }
    }
  }
}
inline bool all_finite(const HostTensor& x) {
  const std::vector<double> values = x.values();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}
inline void expect_gradients_finite(const Case& c) {
  EXPECT_TRUE(all_finite(c.dq)) << "dq";
  EXPECT_TRUE(all_finite(c.dk)) << "dk";
  EXPECT_TRUE(all_finite(c.dv)) << "dv";
}

/// Every result, to compare runs to the bit.
struct Bits {
  std::vector<std::byte> out, lse, dq, dk, dv;
};
inline Bits bits_of(const Case& c) {
  return {c.out.bytes(), c.lse.bytes(), c.dq.bytes(), c.dk.bytes(), c.dv.bytes()};
}
inline void expect_same_bits(const Bits& a, const Bits& b) {
  EXPECT_TRUE(a.out == b.out) << "out differs";
  EXPECT_TRUE(a.lse == b.lse) << "lse differs";
  EXPECT_TRUE(a.dq == b.dq) << "dq differs";
  EXPECT_TRUE(a.dk == b.dk) << "dk differs";
  EXPECT_TRUE(a.dv == b.dv) << "dv differs";
}
/// Largest |a - b|; NaN anywhere gives NaN.
inline double distance(const HostTensor& a, const HostTensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  double largest = x.size() == y.size() ? 0 : kInf;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    if (!(apart <= largest)) largest = apart;
  }
  return largest;
}

/// Whether a row sees a key: batch entry b (0 when packed), head h, row i, key j.
using Sees = std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)>;

/// What counting says about one row of the probe.
struct Count {
  int64_t keys = 0;
  double mean = 0;
};
inline Count count_row(const Sees& sees, int64_t b, int64_t h, int64_t i, int64_t keys) {
  Count count;
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (!sees(b, h, i, j)) continue;
    ++count.keys;
    sum += static_cast<double>(j + 1);
  }
  if (count.keys > 0) count.mean = sum / static_cast<double>(count.keys);
  return count;
}

/// Checks out, lse and dv of a probe that ran forward and backward against counting; dk must be 0.
inline void expect_counts(const Case& c, const Sees& sees) {
  const int64_t batch = packed(c.q) ? 1 : c.q.dims()[0];
  const int64_t rows = rows_of(c.q), keys = rows_of(c.k), group = heads_of(c.q) / heads_of(c.k);
  const double units = is_narrow(c.out.dtype()) ? 1.5 : 4;
  const double relative =
      is_narrow(c.dv.dtype()) ? std::ldexp(1, 1 - significant_bits(c.dv.dtype())) : 2e-6;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h_k = 0; h_k < heads_of(c.k); ++h_k) {
      std::vector<double> dv(keys);
      for (int64_t h = h_k * group; h < (h_k + 1) * group; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          const Count count = count_row(sees, b, h, i, keys);
          const double lse = lse_at(c, b, h, i), n = static_cast<double>(count.keys);
          ASSERT_NEAR(c.out.get(at(c.out, b, i, h, 0)), count.mean,
                      units * ulp(c.out.dtype(), count.mean))
              << "row " << i << " head " << h;
          if (count.keys == 0) {
            ASSERT_EQ(lse, -kInf) << "row " << i << " head " << h;
            continue;
          }
          ASSERT_NEAR(lse, std::log(n), 1e-6 + 5e-7 * std::log(n)) << "row " << i << " head " << h;
          for (int64_t j = 0; j < keys; ++j) dv[j] += sees(b, h, i, j) ? 1 / n : 0;
        }
      }
      for (int64_t j = 0; j < keys; ++j) {
        ASSERT_NEAR(c.dv.get(at(c.dv, b, j, h_k, 0)), dv[j], relative * dv[j])
            << "dv of key " << j << " head " << h_k;
      }
    }
  }
  expect_zero(c.dk, "dk");
}

/// A case with `heads_k` key heads as one with a copy of them for each query head.
inline HostTensor repeat_heads(const HostTensor& x, int64_t group) {
  Dims dims = x.dims();
  const size_t head = dims.size() - 2;
  dims[head] *= group;
  HostTensor repeated(x.dtype(), dims);
  return repeated.fill_with([&](Index index) {
    index[head] /= group;
    return x.get(index);
  });
}

/// The block of `dims` elements that begins at `first`.
inline HostTensor part_of(const HostTensor& x, const Index& first, const Dims& dims) {
  Tensor view = x.view();
  for (int i = 0; i < view.rank; ++i) {
    view.data =
        static_cast<std::byte*>(view.data) + first[i] * view.strides[i] * size_of(x.dtype());
    view.dims[i] = dims[i];
  }
  HostTensor part(x.dtype(), dims);
  return part.fill(oracle::read(view));
}

/// Batch entries [b, b + 1) and query heads [head, head + heads) of a tensor with these two dims;
/// dims of 1 broadcast and stay.
inline HostTensor slice(const HostTensor& x, int batch_dim, int64_t b, int head_dim, int64_t head,
                        int64_t heads) {
  if (!x.present()) return x;
  Dims dims = x.dims();
  Index first{};
  if (batch_dim >= 0 && dims[batch_dim] > 1) first[batch_dim] = b;
  if (batch_dim >= 0) dims[batch_dim] = 1;
  if (dims[head_dim] > 1) {
    first[head_dim] = head;
    dims[head_dim] = heads;
  }
  return part_of(x, first, dims);
}

/// What a dense case that has run is in one batch entry and one key head, results included: the
/// oracle judges large cases slice by slice.
inline Case slice(const Case& c, int64_t b, int64_t head_k) {
  const int64_t group = heads_of(c.q) / heads_of(c.k), head = head_k * group;
  Case s = c;
  s.name += ", batch " + std::to_string(b) + " key head " + std::to_string(head_k);
  for (HostTensor* x : {&s.q, &s.out, &s.dout, &s.dq}) *x = slice(*x, 0, b, 2, head, group);
  for (HostTensor* x : {&s.k, &s.v, &s.dk, &s.dv}) *x = slice(*x, 0, b, 2, head_k, 1);
  for (HostTensor* x : {&s.lse, &s.dlse}) *x = slice(*x, 0, b, 1, head, group);
  for (HostTensor* x : {&s.mask, &s.bias, &s.dbias}) *x = slice(*x, 0, b, 1, head, group);
  for (HostTensor* x : {&s.sink, &s.dsink, &s.alibi_slopes}) *x = slice(*x, -1, 0, 0, head, group);
  for (HostTensor* x : {&s.seqused_q, &s.seqused_k, &s.start_q, &s.start_k}) {
    if (x->present()) *x = test::indices({static_cast<int64_t>(x->get({b}))}, x->dtype());
  }
  return s;
}
/// Runs a dense case whole and judges the first and the last slice.
inline void expect_ends_right(Case& c) {
  must(c.forward());
  must(c.backward());
  if (testing::Test::HasFatalFailure()) return;
  const Case first = slice(c, 0, 0), last = slice(c, c.batch() - 1, heads_of(c.k) - 1);
  for (const Case* s : {&first, &last}) {
    EXPECT_EQ(s->judge_forward(), "") << s->name;
    EXPECT_EQ(s->judge_backward(), "") << s->name;
  }
}

/// The message of an error that must come; "" if the call passed.
inline std::string message_of(const Status& status) { return status.ok() ? "" : status.message(); }

}  // namespace fa4::cases
