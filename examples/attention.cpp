// SPDX-License-Identifier: BSD-3-Clause
// Causal attention of one batch: 8 query heads share 2 key heads.
#include <fa4/attention.h>

#include <cstdio>
#include <vector>

int main() {
  const int64_t b = 2, s = 128, h_q = 8, h_k = 2, d = 64;
  std::vector<float> q(b * s * h_q * d), k(b * s * h_k * d, 0.5F), v(k.size()), out(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) / 13;
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / (h_k * d) % s);

  fa4::AttentionOptions options;
  options.causal = fa4::Causal::kBottomRight;
  const auto view = [](const auto& x, std::initializer_list<int64_t> dims) {
    return fa4::Tensor::contiguous(x.data(), fa4::DType::kFloat32, dims);
  };
  const fa4::Status status =
      fa4::attention(view(q, {b, s, h_q, d}), view(k, {b, s, h_k, d}), view(v, {b, s, h_k, d}),
                     view(out, {b, s, h_q, d}), /*lse=*/{}, options);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;

  // All keys are alike, so each row is the mean of the values up to it: the last, of 0 .. 127.
  std::printf("the last row is %.3f, and should be 63.500\n", out.back());
}
