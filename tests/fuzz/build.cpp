// SPDX-License-Identifier: BSD-3-Clause
// From a Problem's numbers to tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fuzz/problem.h"
#include "oracle/oracle.h"

namespace fa4::fuzz {
namespace {

using test::Case;
using test::Dims;
using test::HostTensor;
using test::Index;
using test::Random;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The numbers of a problem with what follows from them.
struct Builder {
  const Problem& p;
  Random random;
  Random stride_random;
  Case c{};
  std::vector<int64_t> lengths_q{}, lengths_k{};  // of each sequence

  explicit Builder(const Problem& problem)
      : p(problem), random(problem.seed), stride_random(problem.strides) {}

  DType dtype() const { return static_cast<DType>(p.dtype); }
  DType bias_type() const {
    if (p.bias_type == 0) return dtype();
    return p.bias_type == 1 ? DType::kFloat32 : DType::kFloat64;
  }
  int64_t heads_q() const { return p.heads_k * p.group; }
  int64_t below(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

  HostTensor tensor(DType type, Dims dims, bool written = false);
  std::vector<int64_t> lengths(bool packed, int64_t longest);
  Dims operand_dims(bool packed, const std::vector<int64_t>& lengths, int64_t longest,
                    int64_t heads, int64_t d);
  HostTensor used(bool wanted, const std::vector<int64_t>& lengths);
  HostTensor start(bool wanted, const HostTensor& used, const std::vector<int64_t>& lengths);
  Dims broadcast_dims(int64_t kept);

  void make_shapes();
  void fill_operands();
  void make_lengths();
  void make_scores();
  void make_gradients();
  void make_outputs();
  void set_options();
};

bool is_broadcast(const HostTensor& x) {
  for (size_t i = 0; i < x.dims().size(); ++i) {
    if (x.strides()[i] == 0 && x.dims()[i] > 1) return true;
  }
  return false;
}

/// A poisoned tensor, with odd strides if the problem asks for some: dims in any order, gaps, a
/// last dim that isn't dense, and, for what is only read, a dim of stride 0.
HostTensor Builder::tensor(DType type, Dims dims, bool written) {
  if (p.strides == 0) return {type, std::move(dims)};
  const auto pick = [&](size_t n) { return static_cast<size_t>(stride_random() % n); };
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (pick(2) == 0) std::swap(order[pick(order.size())], order[pick(order.size())]);
  Dims padded = dims;
  if (pick(2) == 0) padded[pick(dims.size())] += static_cast<int64_t>(pick(4));
  Dims strides = test::strides_in_order(padded, order);
  if (pick(5) == 0) {
    for (int64_t& stride : strides) stride *= 2;
  }
  if (!written && pick(8) == 0) strides[pick(dims.size())] = 0;
  return {type, std::move(dims), std::move(strides)};
}

/// Each sequence's rows; one of them is the longest.
std::vector<int64_t> Builder::lengths(bool packed, int64_t longest) {
  std::vector<int64_t> result(p.batch, longest);
  for (size_t b = 1; packed && b < result.size(); ++b) {
    result[b] = below(4) == 0 ? below(3) : below(longest + 1);
    result[b] = std::min(result[b], longest);
  }
  std::shuffle(result.begin(), result.end(), random);
  return result;
}

Dims Builder::operand_dims(bool packed, const std::vector<int64_t>& lengths, int64_t longest,
                           int64_t heads, int64_t d) {
  if (!packed) return {p.batch, longest, heads, d};
  return {std::accumulate(lengths.begin(), lengths.end(), p.slack), heads, d};
}

void Builder::make_shapes() {
  lengths_q = lengths(p.packed_q != 0, p.s_q);
  lengths_k = lengths(p.packed_k != 0, p.s_k);
  const DType index_type = p.seed % 2 == 0 ? DType::kInt32 : DType::kInt64;
  if (p.packed_q != 0) c.cu_seqlens_q = test::cu_seqlens_of(lengths_q, index_type);
  if (p.packed_k != 0) c.cu_seqlens_k = test::cu_seqlens_of(lengths_k, index_type);
  c.q = tensor(dtype(), operand_dims(p.packed_q != 0, lengths_q, p.s_q, heads_q(), p.d));
  c.k = tensor(dtype(), operand_dims(p.packed_k != 0, lengths_k, p.s_k, p.heads_k, p.d));
  c.v = tensor(dtype(), operand_dims(p.packed_k != 0, lengths_k, p.s_k, p.heads_k, p.d_v));
}

void Builder::fill_operands() {
  std::normal_distribution<double> normal;
  const auto kind = static_cast<Values>(p.values);
  const double size = kind == Values::kSmall ? 1e-3 : 1;
  const size_t row = c.k.dims().size() - 3;
  const int64_t outlier = below(7);
  const auto channel = [&](const Index& at, const HostTensor& x) {
    const bool large = kind == Values::kOutliers && at[x.dims().size() - 1] % 7 == outlier;
    return size * (large ? 40.0 : 1.0);
  };
  c.q.fill_with([&](const Index& at) {
    if (kind == Values::kCounting) return 0.0;
    return normal(random) * channel(at, c.q) * (kind == Values::kLargeLogits ? 16 : 1);
  });
  c.k.fill_with([&](const Index& at) {
    if (kind == Values::kEqualKeys) return 0.5;
    return normal(random) * channel(at, c.k) + (kind == Values::kOffset ? 5 : 0);
  });
  c.v.fill_with([&](const Index& at) {
    if (kind == Values::kCounting) return static_cast<double>(at[row] + 1);
    return normal(random) * channel(at, c.v) + (kind == Values::kOffset ? 20 : 0);
  });
}

HostTensor Builder::used(bool wanted, const std::vector<int64_t>& lengths) {
  if (!wanted) return {};
  std::vector<int64_t> rows;
  for (int64_t length : lengths) rows.push_back(below(3) == 0 ? length : below(length + 1));
  return test::indices(rows, below(2) == 0 ? DType::kInt32 : DType::kInt64);
}

HostTensor Builder::start(bool wanted, const HostTensor& used,
                          const std::vector<int64_t>& lengths) {
  if (!wanted) return {};
  const std::vector<double> ends = used.values();
  std::vector<int64_t> rows;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t end = used.present() ? static_cast<int64_t>(ends[b]) : lengths[b];
    rows.push_back(below(3) == 0 ? 0 : below(end + 1));
  }
  return test::indices(rows, below(2) == 0 ? DType::kInt32 : DType::kInt64);
}

void Builder::make_lengths() {
  c.seqused_q = used(p.used_q != 0, lengths_q);
  c.seqused_k = used(p.used_k != 0, lengths_k);
  c.start_q = start(p.start_q != 0, c.seqused_q, lengths_q);
  c.start_k = start(p.start_k != 0, c.seqused_k, lengths_k);
}

/// Dims of a bias or mask: `kept` is 1 + the sum of 1, 2, 4, 8 for the dims that broadcast.
Dims Builder::broadcast_dims(int64_t kept) {
  Dims dims{p.batch, heads_q(), p.s_q, p.s_k};
  for (int i = 0; i < 4; ++i) {
    if (((kept - 1) >> i & 1) != 0) dims[i] = 1;
  }
  return dims;
}

void Builder::make_scores() {
  std::normal_distribution<double> normal;
  if (p.bias != 0) {
    c.bias = tensor(bias_type(), broadcast_dims(p.bias));
    c.bias.fill_with([&](const Index&) {
      return p.bias_hides != 0 && below(6) == 0 ? -std::numeric_limits<double>::infinity()
                                                : normal(random);
    });
  }
  if (p.mask != 0) {
    c.mask = tensor(DType::kBool, broadcast_dims(p.mask));
    c.mask.fill_with([&](const Index& at) {
      const bool hide = below(4) == 0 || (at[2] % 5 == 3 && at[1] % 2 == 0) || at[3] % 7 == 2;
      return hide ? 0.0 : 1.0;
    });
  }
  if (p.alibi != 0) {
    c.alibi_slopes =
        tensor(DType::kFloat32, p.alibi == 1 ? Dims{heads_q()} : Dims{p.batch, heads_q()});
    c.alibi_slopes.fill_with([&](const Index&) { return 0.2 * normal(random); });
  }
  if (p.sink != 0) {
    c.sink = tensor(p.sink == 1 ? dtype() : DType::kFloat32, {heads_q()});
    c.sink.fill_with([&](const Index&) {
      const double x = normal(random);
      if (p.sink == 4 && below(2) == 0) return -std::numeric_limits<double>::infinity();
      return p.sink == 3 ? 30 * x : x;
    });
  }
}

void Builder::make_outputs() {
  Dims out = c.q.dims();
  out.back() = p.d_v;
  const Dims lse = p.packed_q != 0 ? Dims{out[1], out[0]} : Dims{out[0], out[2], out[1]};
  const DType wide = dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  c.out = tensor(dtype(), out, true);
  c.lse = tensor(wide, lse, true);
  c.dq = tensor(dtype(), c.q.dims(), true);
  c.dk = tensor(dtype(), c.k.dims(), true);
  c.dv = tensor(dtype(), c.v.dims(), true);
  if (c.bias.present()) c.dbias = tensor(c.bias.dtype(), c.bias.dims(), true);
  if (c.sink.present()) c.dsink = tensor(c.sink.dtype(), c.sink.dims(), true);
  c.dout = tensor(dtype(), out).fill_normal(random);
  if (p.dlse != 0) c.dlse = tensor(wide, lse).fill_normal(random);
}

void Builder::set_options() {
  AttentionOptions& o = c.options;
  o.causal = static_cast<Causal>(p.causal);
  if (p.window_left >= 0) o.window.left = p.window_left;
  if (p.window_right >= 0) o.window.right = p.window_right;
  o.softcap = static_cast<double>(p.softcap_milli) / 1000;
  if (p.scale_milli != Problem::kDefaultScale) o.scale = static_cast<double>(p.scale_milli) / 1000;
  o.dropout_p = static_cast<double>(p.dropout_milli) / 1000;
  o.dropout_seed = static_cast<uint64_t>(p.seed) * 0x9E3779B97F4A7C15U;
  o.threads = static_cast<int>(p.threads);
  o.deterministic = p.deterministic != 0;
  o.batch_invariant = p.batch_invariant != 0;
  if (p.packed_q != 0 && p.seed % 3 == 0) o.max_seqlen_q = p.s_q;
  if (p.packed_k != 0 && p.seed % 5 == 0) o.max_seqlen_k = p.s_k;
}

/// For each row of k (and v): above 0 if some query row sees it. That is what dv is when all scores
/// are equal and dout = 1.
std::vector<double> seen_keys(const Case& c) {
  Case flat;
  flat.options = c.options;
  flat.options.scale = 0;
  flat.options.softcap = flat.options.dropout_p = 0;
  flat.mask = c.mask;
  flat.bias = c.bias;
  if (c.bias.present()) {
    flat.bias.fill_with(
        [&](const Index& at) { return std::isinf(c.bias.get(at)) ? c.bias.get(at) : 0; });
  }
  flat.cu_seqlens_q = c.cu_seqlens_q, flat.cu_seqlens_k = c.cu_seqlens_k;
  flat.seqused_q = c.seqused_q, flat.seqused_k = c.seqused_k;
  flat.start_q = c.start_q, flat.start_k = c.start_k;
  const auto thin = [](const HostTensor& x) {
    Dims dims = x.dims();
    dims.back() = 1;
    return HostTensor(DType::kFloat64, dims).fill(1);
  };
  flat.q = thin(c.q), flat.k = thin(c.k), flat.v = thin(c.v), flat.dout = thin(c.dout);
  return oracle::backward(flat.tensors(), flat.gradients(), flat.options).dv;
}

/// NaN in the rows of x for which `used` is 0.
void hide(HostTensor& x, const std::vector<double>& used) {
  if (is_broadcast(x)) return;
  const std::vector<double> values = x.values();
  size_t flat = 0;
  x.fill_with([&](const Index&) {
    const size_t at = flat++;
    return used[at / x.dims().back()] == 0 ? kNaN : values[at];
  });
}

/// The same for dlse, whose heads come before its rows.
void hide_dlse(HostTensor& dlse, const std::vector<double>& used) {
  if (!dlse.present() || is_broadcast(dlse)) return;
  const Dims& dims = dlse.dims();
  const int64_t rows = dims.back(), heads = dims[dims.size() - 2];
  const HostTensor values = dlse;
  dlse.fill_with([&](const Index& at) {
    const int64_t b = dims.size() == 3 ? at[0] : 0;
    const int64_t h = at[dims.size() - 2], i = at[dims.size() - 1];
    return used[(b * rows + i) * heads + h] == 0 ? kNaN : values.get(at);
  });
}

/// For each row of q: 0 if it lies past a used length, before a start or in the slack.
std::vector<double> rows_that_count(const Case& c) {
  const Dims& dims = c.q.dims();
  const bool packed = dims.size() == 3;
  const int64_t heads = dims[dims.size() - 2];
  std::vector<double> counts(c.q.size() / dims.back(), 0);
  const std::vector<double> ends = c.cu_seqlens_q.values(), used = c.seqused_q.values(),
                            starts = c.start_q.values();
  for (int64_t b = 0; b < c.batch(); ++b) {
    const auto first = packed ? static_cast<int64_t>(ends[b]) : b * dims[1];
    const int64_t length = packed ? static_cast<int64_t>(ends[b + 1]) - first : dims[1];
    const int64_t begin = starts.empty() ? 0 : static_cast<int64_t>(starts[b]);
    const int64_t end = used.empty() ? length : static_cast<int64_t>(used[b]);
    std::fill(counts.begin() + (first + begin) * heads, counts.begin() + (first + end) * heads, 1);
  }
  return counts;
}

}  // namespace

AttentionProblem problem_of(const Problem& p) {
  Builder builder(p);
  builder.make_shapes();
  builder.set_options();
  AttentionProblem problem = AttentionProblem::forward(builder.c.tensors(), builder.c.options);
  const auto lengths = [&](int64_t wanted) {
    return wanted != 0 ? TensorSpec{DType::kInt32, 1, {p.batch}} : TensorSpec();
  };
  problem.seqused_q = lengths(p.used_q);
  problem.seqused_k = lengths(p.used_k);
  problem.start_q = lengths(p.start_q);
  problem.start_k = lengths(p.start_k);
  const auto dense = [&](DType type, int64_t kept) {
    TensorSpec spec{type, 4, {}};
    const Dims dims = builder.broadcast_dims(kept);
    std::copy(dims.begin(), dims.end(), spec.dims.begin());
    return spec;
  };
  if (p.bias != 0) problem.bias = dense(builder.bias_type(), p.bias);
  if (p.mask != 0) problem.mask = dense(DType::kBool, p.mask);
  const int64_t heads = builder.heads_q();
  if (p.alibi == 1) problem.alibi_slopes = {DType::kFloat32, 1, {heads}};
  if (p.alibi == 2) problem.alibi_slopes = {DType::kFloat32, 2, {p.batch, heads}};
  return problem;
}

Case build(const Problem& problem) {
  Builder builder(problem);
  builder.make_shapes();
  builder.fill_operands();
  builder.make_lengths();
  builder.make_scores();
  builder.make_outputs();
  builder.set_options();
  Case c = std::move(builder.c);
  c.name = to_string(problem);
  if (problem.hidden_nan != 0) {
    const std::vector<double> seen = seen_keys(c), counting = rows_that_count(c);
    hide(c.k, seen);
    hide(c.v, seen);
    hide(c.q, counting);
    hide(c.dout, counting);
    hide_dlse(c.dlse, counting);
  }
  return c;
}

}  // namespace fa4::fuzz
