// SPDX-License-Identifier: BSD-3-Clause
#include "oracle/oracle.h"

#include <algorithm>
#include <cmath>

namespace fa4::oracle {
namespace {

/// The arithmetic of one Precision.
struct Arithmetic {
  Precision precision;
  DType dtype;

  /// A stored intermediate.
  double stored(double x) const {
    return precision == Precision::kSameDtype ? round_unbounded(dtype, x) : x;
  }
  /// A number inside a sum or a function.
  double summed(double x) const {
    const bool narrow = precision == Precision::kSameDtype && dtype != DType::kFloat64;
    return narrow ? static_cast<float>(x) : x;
  }
  double term(double x) const { return precision == Precision::kMagnitude ? std::abs(x) : x; }
  double difference(double x, double y) const {
    return precision == Precision::kMagnitude ? x + y : x - y;
  }
  double dot(const double* x, const double* y, int64_t n) const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = summed(sum + term(x[i] * y[i]));
    return sum;
  }
  /// sum[i] += weight * x[i].
  void add(double* sum, double weight, const double* x, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) sum[i] = summed(sum[i] + term(weight * x[i]));
  }
  /// Below its normal range float16 has coarse steps, which are of some size however small out is.
  void store_out(std::vector<double>& out) const {
    store(out);
    if (precision != Precision::kMagnitude || dtype != DType::kFloat16) return;
    for (double& x : out) x = x > 0 ? std::max(x, 0x1p-14) : x;
  }
  void store(std::vector<double>& values) const {
    for (double& x : values) x = stored(x);
  }
};

/// One side (q or k) of one sequence: row i lies at flat row first + i; rows [begin, end) count.
struct Side {
  int64_t first = 0, begin = 0, end = 0;
};

Side side_of(const Tensor& x, const Tensor& cu, const Tensor& used, const Tensor& start,
             int64_t b) {
  const auto entry = [](const Tensor& t, int64_t n) {
    return static_cast<int64_t>(read_element(t, n * t.strides[0]));
  };
  const int64_t first = x.rank == 3 ? entry(cu, b) : b * x.dims[1];
  const int64_t length = x.rank == 3 ? entry(cu, b + 1) - first : x.dims[1];
  return {first, start.present() ? entry(start, b) : 0, used.present() ? entry(used, b) : length};
}

/// One call: its inputs as contiguous doubles, and the row of scores that is being looked at.
struct Call {
  const AttentionTensors& t;
  const AttentionOptions& options;
  Arithmetic math;
  std::vector<double> q = read(t.q), k = read(t.k), v = read(t.v), bias = read(t.bias),
                      mask = read(t.mask), slopes = read(t.alibi_slopes), sink = read(t.sink);
  int64_t batch = t.q.rank == 3 ? t.cu_seqlens_q.dims[0] - 1 : t.q.dims[0];
  int64_t rows = t.q.dims[t.q.rank - 3], heads = t.q.dims[t.q.rank - 2];
  int64_t heads_k = t.k.dims[t.k.rank - 2];
  int64_t d_qk = t.q.dims[t.q.rank - 1], d_v = t.v.dims[t.v.rank - 1];
  double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(d_qk)));

  // The current row: query row i of head h in sequence b.
  int64_t b = 0, h = 0, i = 0;
  Side q_side{}, k_side{};
  struct Key {
    int64_t j;         // of the sequence
    double score, p;   // p: its probability
    double bend;       // d score / d (scale * product): softcap's derivative
    double keep;       // dropout's factor
    double magnitude;  // of the score's terms; 0 unless asked for
  };
  std::vector<Key> keys{};  // those that it sees
  double lse = 0, p_sink = 0, lse_magnitude = 0;

  int64_t q_row() const { return (q_side.first + i) * heads + h; }
  int64_t k_row(int64_t j) const { return (k_side.first + j) * heads_k + h / (heads / heads_k); }
  int64_t lse_index() const {
    return t.q.rank == 3 ? h * rows + q_side.first + i : (b * heads + h) * rows + i;
  }
  /// Where bias or mask, contiguous, keep element [b, h, i, j]: a dim of 1 broadcasts.
  int64_t place_in(const Tensor& x, int64_t j) const {
    const std::array<int64_t, 4> at = {b, h, i, j};
    int64_t place = 0;
    for (int n = 0; n < 4; ++n) place = place * x.dims[n] + (x.dims[n] == 1 ? 0 : at[n]);
    return place;
  }
  /// The key that row i stands at: the last ones face one another, or the first ones.
  int64_t diagonal() const {
    return options.causal == Causal::kTopLeft ? i - q_side.begin + k_side.begin
                                              : i - q_side.end + k_side.end;
  }
  bool hidden(int64_t j) const {
    const int64_t after = j - diagonal();
    return (options.causal != Causal::kNone && after > 0) ||
           (options.window.right && after > *options.window.right) ||
           (options.window.left && -after > *options.window.left) ||
           (!mask.empty() && mask[place_in(t.mask, j)] == 0) ||
           (!bias.empty() && bias[place_in(t.bias, j)] == -kInfinity);
  }
  double dropout(int64_t j) const {
    if (options.dropout_p == 0) return 1;
    const auto word = [](auto x) { return static_cast<uint32_t>(x); };
    const auto numbers = philox({word(j / 4), word(i), word(h), word(b)},
                                {word(options.dropout_seed), word(options.dropout_seed >> 32)});
    const double limit = std::floor(options.dropout_p * 4294967296.0);  // p in steps of 2^-32
    return numbers[j % 4] < limit ? 0 : 1 / (1 - limit / 4294967296.0);
  }

  Key score(int64_t j) const {
    const double *x = &q[q_row() * d_qk], *y = &k[k_row(j) * d_qk];
    double added = bias.empty() ? 0 : bias[place_in(t.bias, j)];
    if (!slopes.empty()) {
      added += slopes[t.alibi_slopes.rank == 2 ? b * heads + h : h] *
               static_cast<double>(j - diagonal());
    }
    Arithmetic m = math;  // even kMagnitude needs the true probabilities
    if (m.precision == Precision::kMagnitude) m.precision = Precision::kExact;
    double s = m.stored(scale * m.dot(x, y, d_qk)), bend = 1;
    if (options.softcap > 0) {
      const double ratio = m.stored(s / options.softcap), cosh = std::cosh(ratio);
      s = m.stored(options.softcap * std::tanh(ratio));
      bend = 1 / (cosh * cosh);  // 1 - tanh^2 would be 0 long before
    }
    const bool wanted = math.precision == Precision::kMagnitude;
    const double magnitude = wanted ? std::abs(scale) * math.dot(x, y, d_qk) + std::abs(added) : 0;
    return {j, m.stored(s + added), 0, bend, dropout(j), magnitude};
  }

  /// Fills the row's keys, lse and p_sink. False: it sees no key.
  bool look() {
    keys.clear();
    for (int64_t j = k_side.begin; j < k_side.end; ++j) {
      if (!hidden(j)) keys.push_back(score(j));
    }
    lse = sink.empty() ? -kInfinity : math.stored(sink[h]);
    lse_magnitude = std::isinf(lse) ? 0 : std::abs(lse);
    if (keys.empty()) return false;
    double top = lse;
    for (const Key& key : keys) top = std::max(top, key.score);
    double sum = p_sink = math.summed(std::exp(lse - top));
    for (Key& key : keys) {
      key.p = math.summed(std::exp(math.summed(key.score - top)));
      sum = math.summed(sum + key.p);
    }
    p_sink = math.stored(p_sink / sum);
    lse = math.summed(top + std::log(sum));
    lse_magnitude = std::abs(lse) + 1 + p_sink * lse_magnitude;
    for (Key& key : keys) {
      key.p = math.stored(key.p / sum);
      lse_magnitude += key.p * key.magnitude;
      // A score's rounding error is a relative error of p. It grows with the root of the product's
      // length: eight roundings, which the comparison allows, at 64.
      key.p *= 1 + std::max(0.5, std::sqrt(static_cast<double>(d_qk)) / 8) * key.magnitude;
    }
    return true;
  }

  /// The probabilities again, as a backward must compute them: from the lse that was stored.
  void look_back() {
    for (Key& key : keys) key.p = math.stored(std::exp(math.summed(key.score - lse)));
    if (!sink.empty()) p_sink = math.stored(std::exp(math.summed(math.stored(sink[h]) - lse)));
  }

  /// Calls body(sees a key) for each row that counts.
  template <class Body>
  void for_each_row(const Body& body) {
    for (b = 0; b < batch; ++b) {
      q_side = side_of(t.q, t.cu_seqlens_q, t.seqused_q, t.start_q, b);
      k_side = side_of(t.k, t.cu_seqlens_k, t.seqused_k, t.start_k, b);
      for (h = 0; h < heads; ++h) {
        for (i = q_side.begin; i < q_side.end; ++i) body(look());
      }
    }
  }
};

}  // namespace

Forward forward(const AttentionTensors& tensors, const AttentionOptions& options,
                Precision precision) {
  Call call{tensors, options, {precision, tensors.q.dtype}};
  const bool magnitude = precision == Precision::kMagnitude;
  const int64_t rows = read(tensors.q).size() / call.d_qk;
  Forward r{std::vector<double>(rows * call.d_v),
            std::vector<double>(rows, magnitude ? 0 : -kInfinity)};
  call.for_each_row([&](bool sees) {
    r.lse[call.lse_index()] = magnitude ? call.lse_magnitude : call.lse;
    for (size_t n = 0; sees && n < call.keys.size(); ++n) {
      const Call::Key& key = call.keys[n];
      call.math.add(&r.out[call.q_row() * call.d_v], key.p * key.keep,
                    &call.v[call.k_row(key.j) * call.d_v], call.d_v);
    }
  });
  call.math.store(r.out);
  return r;
}

Backward backward(const AttentionTensors& tensors, const AttentionGradients& gradients,
                  const AttentionOptions& options, Precision precision) {
  Call call{tensors, options, {precision, tensors.q.dtype}};
  const Arithmetic& math = call.math;
  const std::vector<double> dout = read(gradients.dout), dlse = read(gradients.dlse);
  const auto zeros = [](const auto& like) { return std::vector<double>(like.size()); };
  Backward r{zeros(call.q), zeros(call.k), zeros(call.v), zeros(call.bias), zeros(call.sink)};
  std::vector<double> dp, out;
  call.for_each_row([&](bool sees) {
    if (!sees) return;
    if (precision == Precision::kSameDtype) call.look_back();
    const double* dout_row = &dout[call.q_row() * call.d_v];
    const double dlse_row = dlse.empty() ? 0 : math.term(dlse[call.lse_index()]);
    dp.clear();
    out.assign(call.d_v, 0);
    for (const Call::Key& key : call.keys) {
      const int64_t v_at = call.k_row(key.j) * call.d_v;
      dp.push_back(key.keep * math.stored(math.dot(dout_row, &call.v[v_at], call.d_v)));
      math.add(out.data(), key.p * key.keep, &call.v[v_at], call.d_v);
      math.add(&r.dv[v_at], key.p * key.keep, dout_row, call.d_v);
    }
    math.store_out(out);  // a backward is given out as the forward stored it
    const double delta = math.dot(dout_row, out.data(), call.d_v);  // the sum of p * dp
    for (size_t n = 0; n < dp.size(); ++n) {
      const Call::Key& key = call.keys[n];
      const int64_t q_at = call.q_row() * call.d_qk, k_at = call.k_row(key.j) * call.d_qk;
      const double ds = math.stored(key.p * (math.difference(dp[n], delta) + dlse_row));
      if (!r.dbias.empty()) {
        double& sum = r.dbias[call.place_in(tensors.bias, key.j)];
        sum = math.summed(sum + ds);
      }
      const double dproduct = call.scale * math.stored(ds * key.bend);
      math.add(&r.dq[q_at], dproduct, &call.k[k_at], call.d_qk);
      math.add(&r.dk[k_at], dproduct, &call.q[q_at], call.d_qk);
    }
    if (r.dsink.empty()) return;
    double& sum = r.dsink[call.h];
    sum = math.summed(sum + call.p_sink * math.difference(dlse_row, delta));
  });
  for (auto* values : {&r.dq, &r.dk, &r.dv, &r.dbias, &r.dsink}) math.store(*values);
  return r;
}

}  // namespace fa4::oracle
