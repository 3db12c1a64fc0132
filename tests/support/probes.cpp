// SPDX-License-Identifier: BSD-3-Clause
// The builders of case.h.
#include <numeric>

#include "support/case.h"

namespace fa4::test {
namespace {

Dims operand_dims(const std::vector<int64_t>& lengths, int64_t batch, int64_t s, int64_t heads,
                  int64_t d) {
  if (lengths.empty()) return {batch, s, heads, d};
  return {std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), heads, d};
}

/// q, k, v and dout of the shape, not filled, and cu_seqlens.
Case make_case(const Shape& shape, DType dtype) {
  const int64_t heads_k = shape.heads_k > 0 ? shape.heads_k : shape.heads_q;
  const int64_t d_v = shape.d_v > 0 ? shape.d_v : shape.d;
  Case c;
  c.q = {dtype, operand_dims(shape.lengths_q, shape.batch, shape.s_q, shape.heads_q, shape.d)};
  c.k = {dtype, operand_dims(shape.lengths_k, shape.batch, shape.s_k, heads_k, shape.d)};
  c.v = {dtype, operand_dims(shape.lengths_k, shape.batch, shape.s_k, heads_k, d_v)};
  c.dout = {dtype, operand_dims(shape.lengths_q, shape.batch, shape.s_q, shape.heads_q, d_v)};
  if (!shape.lengths_q.empty()) c.cu_seqlens_q = cu_seqlens_of(shape.lengths_q);
  if (!shape.lengths_k.empty()) c.cu_seqlens_k = cu_seqlens_of(shape.lengths_k);
  return c;
}

}  // namespace

Case probe(const Shape& shape, DType dtype) {
  Case c = make_case(shape, dtype);
  c.name = std::string("probe in ") + to_string(dtype);
  c.options.scale = 1;
  Random random(1);
  c.q.fill(0);
  c.k.fill_normal(random);
  const size_t row = c.v.dims().size() - 3;
  c.v.fill_with([&](const Index& index) { return static_cast<double>(index[row] + 1); });
  c.dout.fill(1);
  return c;
}

Case onehot(const Shape& shape, DType dtype, uint64_t seed) {
  Shape with_keys = shape;
  with_keys.d_v = shape.s_k;
  if (!shape.lengths_k.empty()) {
    with_keys.d_v = std::accumulate(shape.lengths_k.begin(), shape.lengths_k.end(), int64_t{0});
  }
  Case c = ref64(with_keys, dtype, seed);
  c.name = std::string("onehot in ") + to_string(dtype) + ", seed " + std::to_string(seed);
  c.options.scale = 1;
  const size_t row = c.v.dims().size() - 3, column = c.v.dims().size() - 1;
  c.v.fill_with([&](const Index& index) { return index[row] == index[column] ? 1.0 : 0.0; });
  return c;
}

Case ref64(const Shape& shape, DType dtype, uint64_t seed) {
  Case c = make_case(shape, dtype);
  c.name = std::string("random in ") + to_string(dtype) + ", seed " + std::to_string(seed);
  Random random(seed);
  for (HostTensor* tensor : {&c.q, &c.k, &c.v, &c.dout}) tensor->fill_normal(random);
  return c;
}

HostTensor indices(const std::vector<int64_t>& values, DType dtype) {
  return HostTensor::of(dtype, {static_cast<int64_t>(values.size())},
                        std::vector<double>(values.begin(), values.end()));
}

HostTensor cu_seqlens_of(const std::vector<int64_t>& lengths, DType dtype) {
  std::vector<int64_t> ends{0};
  for (int64_t length : lengths) ends.push_back(ends.back() + length);
  return indices(ends, dtype);
}

}  // namespace fa4::test
