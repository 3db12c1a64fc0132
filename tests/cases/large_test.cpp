// SPDX-License-Identifier: BSD-3-Clause
// Offsets past 2^31 elements, in memory that is never touched, and counts past 65,535.
#include "cases/case_helpers.h"
#include "cases/mapped_memory.h"

namespace fa4::cases {
namespace {

constexpr int64_t k2To31 = int64_t{1} << 31;
__extension__ using Wide = __int128;

AttentionProblem backward_problem(const Dims& q, DType dtype) {
  AttentionProblem p;
  p.pass = Pass::kBackward;
  for (TensorSpec* x : {&p.q, &p.k, &p.v}) *x = {dtype, 4, {q[0], q[1], q[2], q[3]}};
  return p;
}
/// Bytes that a backward needs, in numbers too wide to wrap.
Wide workspace_of(const Dims& q, DType dtype = DType::kBFloat16) {
  const Result<Plan> plan = Plan::make(backward_problem(q, dtype));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? static_cast<Wide>(plan->workspace_bytes()) : 0;
}
/// Scratch must grow evenly with the batch: a wrapped size doesn't. Give batches of 64 times
/// something, so that alignment rounds nothing.
void expect_even_growth(Dims q) {
  const Wide whole = workspace_of(q);
  q[0] /= 2;
  const Wide half = workspace_of(q);
  q[0] /= 2;
  const Wide quarter = workspace_of(q);
  EXPECT_TRUE(whole - half == 2 * (half - quarter)) << "batch " << 4 * q[0] << " rows " << q[1];
  EXPECT_TRUE(whole >= half && half >= quarter);
}

// Tensors below 2^31 elements whose padded scratch is above: offsets wrapped in the backward
// (flash-attention #1311, #2214).
TEST(C60, ScratchOfHugeBatches) {
  for (const Dims& q : {Dims{28800, 15, 16, 72}, Dims{1600, 729, 16, 72}, Dims{14976, 64, 16, 64},
                        Dims{4, 262144, 48, 128}}) {
    expect_even_growth(q);
  }
}

// The workspace's size was computed in 32 bits (FlashMLA PR #91).
TEST(C64, WorkspaceSizeNeverWraps) { expect_even_growth({4096, 8192, 128, 256}); }

TEST(C64, SizesPast64BitsAreErrors) {
  for (const Dims& q : {Dims{k2To31, k2To31, 1, 1}, Dims{1, int64_t{1} << 61, 1, 8},
                        Dims{INT64_MAX, 1, 1, 1}, Dims{k2To31, 4, k2To31, 1}}) {
    const Result<Plan> plan = Plan::make(backward_problem(q, DType::kFloat32));
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::kOutOfMemory);
    EXPECT_NE(plan.status().message().find("64 bits"), std::string::npos);
  }
}

/// Moves one tensor of a call into virtual memory with a stride of more than 2^31 elements.
class FarApart {
 public:
  FarApart(const HostTensor& x, size_t dim) : view_(x.view()), mapping_(bytes_for(x, dim)) {
    view_.data = mapping_.data();
    view_.strides[dim] = kStride;
    if (mapping_.data() != nullptr) scatter(x.bytes(), view_);
  }
  bool exists() const { return mapping_.data() != nullptr; }
  const Tensor& view() const { return view_; }

 private:
  static constexpr int64_t kStride = k2To31 + 24;
  static size_t bytes_for(const HostTensor& x, size_t dim) {
    return ((x.dims()[dim] - 1) * kStride + x.size() + 1) * size_of(x.dtype());
  }
  Tensor view_;
  Mapping mapping_;
};

/// A case with every tensor that a dense call can have, two or three of everything.
Case small_case(DType dtype) {
  Case c = ref64({.batch = 2, .s_q = 3, .s_k = 3, .heads_q = 2, .d = 8}, dtype);
  test::Random random(61);
  c.bias = HostTensor(dtype, {2, 2, 3, 3}).fill_normal(random);
  c.mask = HostTensor(DType::kBool, {2, 2, 3, 3}).fill_with([](const Index& i) {
    return (i[0] + i[1] + i[2] + 2 * i[3]) % 4 == 3 ? 0.0 : 1.0;
  });
  c.dlse = HostTensor(dtype == DType::kFloat64 ? dtype : DType::kFloat32, {2, 2, 3});
  c.dlse.fill_normal(random);
  c.options.causal = Causal::kBottomRight;
  return c;
}

struct Place {
  const char* name;
  HostTensor Case::*host;
  Tensor AttentionTensors::*tensor;
  Tensor AttentionGradients::*gradient;
};
const std::array<Place, 13> kPlaces = {{
    {"q", &Case::q, &AttentionTensors::q, nullptr},
    {"k", &Case::k, &AttentionTensors::k, nullptr},
    {"v", &Case::v, &AttentionTensors::v, nullptr},
    {"out", &Case::out, &AttentionTensors::out, nullptr},
    {"lse", &Case::lse, &AttentionTensors::lse, nullptr},
    {"bias", &Case::bias, &AttentionTensors::bias, nullptr},
    {"mask", &Case::mask, &AttentionTensors::mask, nullptr},
    {"dout", &Case::dout, nullptr, &AttentionGradients::dout},
    {"dlse", &Case::dlse, nullptr, &AttentionGradients::dlse},
    {"dq", &Case::dq, nullptr, &AttentionGradients::dq},
    {"dk", &Case::dk, nullptr, &AttentionGradients::dk},
    {"dv", &Case::dv, nullptr, &AttentionGradients::dv},
    {"dbias", &Case::dbias, nullptr, &AttentionGradients::dbias},
}};

/// Runs `c` with one tensor far apart in one dim; all results must be those of `c`.
void expect_same_far_apart(Case c, const Place& place, size_t dim) {
  SCOPED_TRACE(testing::Message() << place.name << " dim " << dim);
  const Bits expected = bits_of(c);
  const std::vector<std::byte> dbias = c.dbias.bytes();
  for (HostTensor* x : {&c.dq, &c.dk, &c.dv, &c.dbias}) x->poison();
  const FarApart far(c.*place.host, dim);
  if (!far.exists()) GTEST_SKIP() << "this machine gives no virtual memory of that size";
  AttentionTensors t = c.tensors();
  AttentionGradients g = c.gradients();
  if (place.tensor != nullptr) t.*place.tensor = far.view();
  if (place.gradient != nullptr) g.*place.gradient = far.view();
  must(attention(t, c.options));
  must(attention_backward(t, g, c.options));
  EXPECT_TRUE(gather(t.out) == expected.out) << "out";
  EXPECT_TRUE(gather(t.lse) == expected.lse) << "lse";
  EXPECT_TRUE(gather(g.dq) == expected.dq) << "dq";
  EXPECT_TRUE(gather(g.dk) == expected.dk) << "dk";
  EXPECT_TRUE(gather(g.dv) == expected.dv) << "dv";
  EXPECT_TRUE(gather(g.dbias) == dbias) << "dbias";
}

// Strides of more than 2^31 elements in each dim of each tensor (flash-attention #767, #1054).
TEST(C60, EachTensorWithEachStridePast2To31) {
  for (const DType dtype : kFloats) {
    Case c = small_case(dtype);
    test::expect_right(c);
    for (const Place& place : kPlaces) {
      for (size_t dim = 0; dim < (c.*place.host).dims().size(); ++dim) {
        expect_same_far_apart(c, place, dim);
      }
    }
  }
}

// A gradient of the output with row stride 9728: row 225,304 wrapped 32 bits, and dq, dk, dv were
// corrupt (flash-attention #2611). Segment 0 has rows but no keys.
TEST(C61, OutputGradientWithALargeRowStride) {
  constexpr int64_t kRows = 225340, kRowStride = 9728, kDim = 8;
  const Mapping memory(kRows * kRowStride * sizeof(float));
  if (memory.data() == nullptr) GTEST_SKIP() << "this machine gives no 9 GB of virtual memory";
  Case c = ref64({.d = kDim, .lengths_q = {225300, 10, 30}, .lengths_k = {0, 10, 30}});
  c.dout.fill_with([&](const Index& i) { return i[0] < 225300 ? 0 : c.dout.get(i); });
  must(c.forward());
  must(c.backward());
  AttentionGradients g = c.gradients();
  g.dout.data = memory.data();
  g.dout.strides = {kRowStride, kDim, 1};
  Tensor tail = g.dout, tail_source = c.dout.view();
  tail.dims[0] = tail_source.dims[0] = 40;
  tail.data = static_cast<float*>(tail.data) + 225300 * kRowStride;
  tail_source.data = static_cast<float*>(tail_source.data) + 225300 * kDim;
  scatter(gather(tail_source), tail);
  const Bits contiguous = bits_of(c);
  for (HostTensor* x : {&c.dq, &c.dk, &c.dv}) x->poison();
  must(attention_backward(c.tensors(), g, c.options));
  expect_same_bits(contiguous, bits_of(c));
  EXPECT_GT(distance(c.dv, HostTensor(DType::kFloat32, c.dv.dims()).fill(0)), 0.01);
}

// Mask offsets read as 32-bit numbers at a context of 512k (llama.cpp #24912).
TEST(C63, MaskWithStridesPast2To31) {
  for (const size_t dim : {0, 2}) {
    Case c = small_case(DType::kFloat32);
    c.bias = {};
    run(c);
    const FarApart mask(c.mask, dim);
    if (!mask.exists()) GTEST_SKIP() << "this machine gives no virtual memory of that size";
    const Bits near = bits_of(c);
    AttentionTensors t = c.tensors();
    t.mask = mask.view();
    c.out.poison();
    must(attention(t, c.options));
    EXPECT_TRUE(c.out.bytes() == near.out);
    for (HostTensor* x : {&c.dq, &c.dk, &c.dv}) x->poison();
    must(attention_backward(t, c.gradients(), c.options));
    expect_same_bits(near, bits_of(c));
  }
}

/// All elements of a causal probe with two rows and keys.
void expect_two_rows(const Case& c, size_t row_dim) {
  const std::vector<double> out = c.out.values(), dv = c.dv.values();
  int64_t below = 1;
  for (size_t i = row_dim + 1; i < c.out.dims().size(); ++i) below *= c.out.dims()[i];
  for (size_t flat = 0; flat < out.size(); ++flat) {
    const bool second = flat / below % 2 == 1;
    ASSERT_EQ(out[flat], second ? 1.5 : 1.0) << flat;
    ASSERT_EQ(dv[flat], second ? 0.5 : 1.5) << flat;
  }
}

// A batch of 65,536 and more mapped to a grid's y failed, or was skipped and left stale output
// (pytorch #142228, flashinfer #3125).
TEST(C65, BatchOf65537) {
  Case c = probe({.batch = 65537, .s_q = 2, .s_k = 2, .d = 16});
  c.options.causal = Causal::kBottomRight;
  run(c);
  expect_two_rows(c, 1);
}

TEST(C65, Heads65537) {
  Case c = probe({.s_q = 2, .s_k = 2, .heads_q = 65537, .d = 4});
  c.options.causal = Causal::kBottomRight;
  run(c);
  expect_two_rows(c, 1);
}

TEST(C65, Sequences65537) {
  const std::vector<int64_t> lengths(65537, 2);
  Case c = probe({.d = 4, .lengths_q = lengths, .lengths_k = lengths});
  c.v.fill_with([](const Index& i) { return i[0] % 2 == 0 ? 1.0 : 2.0; });
  c.options.causal = Causal::kBottomRight;
  run(c);
  expect_two_rows(c, 0);
}

}  // namespace
}  // namespace fa4::cases
