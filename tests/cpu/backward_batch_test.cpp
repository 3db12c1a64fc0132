// SPDX-License-Identifier: BSD-3-Clause
// batch_invariant: a sequence's gradients do not know what else is in the batch.
#include <fa4/attention.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace fa4 {
namespace {

constexpr int64_t kLength = 400, kDim = 16;

/// dq, dk and dv of `sequences` packed sequences of kLength rows, all of the same generator.
std::vector<float> gradients(int64_t sequences) {
  const int64_t rows = sequences * kLength;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> in(4 * rows * kDim), out(rows * kDim), lse(rows), d(3 * rows * kDim);
  // Sequence by sequence, so that the first one's numbers do not depend on how many follow.
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t x = 0; x < 4; ++x) {
      float* part = &in[(x * rows + s * kLength) * kDim];
      for (int64_t i = 0; i < kLength * kDim; ++i) part[i] = normal(random);
    }
  }
  std::vector<int32_t> cu(sequences + 1);
  for (int64_t s = 0; s <= sequences; ++s) cu[s] = static_cast<int32_t>(s * kLength);
  const auto view = [&](const std::vector<float>& x, int64_t part) {
    return Tensor::contiguous(&x[part * rows * kDim], DType::kFloat32, {rows, 1, kDim});
  };
  AttentionTensors t{view(in, 0), view(in, 1), view(in, 2), view(out, 0)};
  t.lse = Tensor::contiguous(lse.data(), DType::kFloat32, {1, rows});
  t.cu_seqlens_q = t.cu_seqlens_k = Tensor::contiguous(cu.data(), DType::kInt32, {sequences + 1});
  const AttentionGradients g{view(in, 3), {}, view(d, 0), view(d, 1), view(d, 2)};
  const AttentionOptions options{.batch_invariant = true};
  attention(t, options).check();
  attention_backward(t, g, options).check();
  std::vector<float> first;
  for (int64_t x = 0; x < 3; ++x) {
    const float* part = &d[x * rows * kDim];
    first.insert(first.end(), part, part + kLength * kDim);
  }
  return first;
}

TEST(CpuBackwardBatch, NeighboursChangeNoBit) { EXPECT_EQ(gradients(1), gradients(32)); }

}  // namespace
}  // namespace fa4
