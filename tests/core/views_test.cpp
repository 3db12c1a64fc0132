// SPDX-License-Identifier: BSD-3-Clause
// Views that a caller got wrong, and outputs that share memory.
#include <fa4/attention.h>
#include <gtest/gtest.h>

#include <vector>

namespace fa4 {
namespace {

constexpr int64_t kRows = 5, kDim = 4;

struct Buffers {
  std::vector<float> q = std::vector<float>(kRows * kDim, 1), k = q, v = q, out = q, lse = q;
  std::vector<float> dq = q, dk = q, dv = q;
};

Tensor view(const std::vector<float>& x) {
  return Tensor::contiguous(x.data(), DType::kFloat32, {1, kRows, 1, kDim});
}
Tensor rows(const std::vector<float>& x) {
  return Tensor::contiguous(x.data(), DType::kFloat32, {1, 1, kRows});
}

TEST(Views, MoreDimsThanATensorHasAreRefused) {
  const Buffers b;
  const Tensor q = Tensor::contiguous(b.q.data(), DType::kFloat32, {1, 1, kRows, 1, kDim});
  const Status status = attention(q, q, q, view(b.out));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("q: rank is 5; allowed: rank 4"), std::string::npos)
      << status.message();
}

TEST(Views, DimsMayComeFromAnyRange) {
  const Buffers b;
  const std::vector<int64_t> dims = {1, kRows, 1, kDim}, strides = {0, kDim, 0, 1};
  const Tensor listed = Tensor::contiguous(b.q.data(), DType::kFloat32, {1, kRows, 1, kDim});
  const Tensor ranged = Tensor::contiguous(b.q.data(), DType::kFloat32, dims);
  EXPECT_EQ(ranged.dims, listed.dims);
  EXPECT_EQ(ranged.strides, listed.strides);
  const Tensor strided = Tensor::strided(b.q.data(), DType::kFloat32, dims, strides);
  EXPECT_EQ(strided.dims, listed.dims);
  EXPECT_EQ(strided.strides, (std::array<int64_t, 4>{0, kDim, 0, 1}));
}

TEST(Views, AForgottenTensorIsAbsent) {
  const Buffers b;
  const Status status = attention({}, view(b.k), view(b.v), view(b.out));
  EXPECT_NE(status.message().find("q: absent; allowed: rank 4"), std::string::npos)
      << status.message();
}

TEST(Views, AsManyStridesAsDims) {
  const Buffers b;
  for (const auto strides : {std::initializer_list<int64_t>{kDim, kDim, 1},
                             std::initializer_list<int64_t>{kDim, kDim, kDim, kDim, 1}}) {
    const Tensor q = Tensor::strided(b.q.data(), DType::kFloat32, {1, kRows, 1, kDim}, strides);
    const Status status = attention(q, view(b.k), view(b.v), view(b.out));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("q: stride 0 is -1"), std::string::npos) << status.message();
  }
}

TEST(Views, OutputsHaveMemoryOfTheirOwn) {
  const Buffers b;
  const auto refused = [](const Status& status, const char* message) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  refused(attention(view(b.q), view(b.k), view(b.v), view(b.k)), "out: begins where k does");
  refused(attention(view(b.q), view(b.k), view(b.v), view(b.out), rows(b.out)),
          "lse: begins where out does");
  AttentionTensors t{view(b.q), view(b.k), view(b.v), view(b.out), rows(b.lse)};
  AttentionGradients g{view(b.out), {}, view(b.dq), view(b.dq), view(b.dv)};
  refused(attention_backward(t, g), "dk: begins where dq does");
  // Inputs may share theirs: keys that are values too, dout that is out.
  t = {view(b.q), view(b.q), view(b.q), view(b.out), rows(b.lse)};
  g = {view(b.out), {}, view(b.dq), view(b.dk), view(b.dv)};
  EXPECT_TRUE(attention(t).ok());
  EXPECT_TRUE(attention_backward(t, g).ok());
}

// q, k, v and out in one buffer, one after the other, each `step` elements behind the one before.
Status in_one_buffer(int64_t step, int64_t row_stride) {
  std::vector<float> memory(size_t{8} * kRows * kDim);
  const auto part = [&](int64_t index) {
    return Tensor::strided(memory.data() + index * step, DType::kFloat32, {1, kRows, 1, kDim},
                           {kRows * row_stride, row_stride, kDim, 1});
  };
  return attention(part(0), part(1), part(2), part(3));
}

TEST(Views, OutputsOverlapNothing) {
  constexpr int64_t kAll = kRows * kDim;
  EXPECT_TRUE(in_one_buffer(kAll, kDim).ok());
  const Status late = in_one_buffer(kAll - 1, kDim);  // out's first element is v's last
  EXPECT_EQ(late.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(late.message().find("out: begins " + std::to_string(4 * (kAll - 1)) +
                                " bytes behind the first of v, and shares memory with it"),
            std::string::npos)
      << late.message();
  // Rows of four tensors that take turns share nothing.
  EXPECT_TRUE(in_one_buffer(kDim, 4 * kDim).ok());
  // An output without gaps around an input's first element.
  const Buffers b;
  const Tensor k = Tensor::strided(b.out.data() + 1, DType::kFloat32, {1, kRows, 1, 1},
                                   {kRows * kDim, kDim, 1, 1});
  const Tensor q =
      Tensor::strided(b.q.data(), DType::kFloat32, {1, kRows, 1, 1}, {kRows * kDim, kDim, 1, 1});
  const Status around = attention(q, k, view(b.v), view(b.out));
  EXPECT_NE(around.message().find("out: begins 4 bytes before the first of k"), std::string::npos)
      << around.message();
}

TEST(Views, EmptyOnesWithTheirOwnStridesAreFine) {
  const std::vector<float> none(1);
  const auto packed = [&](int64_t d) {
    return Tensor::contiguous(none.data(), DType::kFloat32, {0, 2, d});
  };
  const std::vector<int32_t> cu(2, 0);
  AttentionTensors t{packed(4), packed(4), packed(8), {}, {}};
  t.out = packed(8);
  t.lse = Tensor::contiguous(nullptr, DType::kFloat32, {2, 0});
  t.q.data = t.k.data = t.v.data = t.out.data = nullptr;
  t.cu_seqlens_q = t.cu_seqlens_k = Tensor::contiguous(cu.data(), DType::kInt32, {2});
  const Status status = attention(t);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Options, NumbersThatFloat32CannotHoldAreRefused) {
  const Buffers b;
  const auto run = [&](const AttentionOptions& options) {
    return attention(view(b.q), view(b.k), view(b.v), view(b.out), {}, options);
  };
  EXPECT_EQ(run({.softcap = 1e-50}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run({.softcap = 1e39}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run({.scale = -3e38}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(run({.scale = -3e8, .softcap = 1e-20}).ok());
}

}  // namespace
}  // namespace fa4
