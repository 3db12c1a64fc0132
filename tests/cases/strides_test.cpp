// SPDX-License-Identifier: BSD-3-Clause
// Views: transposed, sliced, expanded, and biases and masks of every broadcast shape.
#include <random>

#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

/// The same values in a [batch, heads, seq, dim] buffer.
HostTensor heads_first(const HostTensor& x) {
  return x.with_strides(test::strides_in_order(x.dims(), {0, 2, 1, 3}));
}
/// The same values in a buffer whose columns are `step` apart.
HostTensor columns_apart(const HostTensor& x, int64_t step) {
  Dims strides = x.strides();
  for (int64_t& stride : strides) stride *= step;
  return x.with_strides(strides);
}
/// The same values with rows and columns swapped in memory: x.transpose(-1, -2) of a row layout.
HostTensor columns_first(const HostTensor& x) {
  return x.with_strides(test::strides_in_order(x.dims(), {0, 2, 3, 1}));
}
/// The same values as the first columns of a row `factor` times as wide.
HostTensor in_wider_rows(const HostTensor& x, int64_t factor) {
  Dims strides = x.strides();
  for (size_t i = 0; i + 1 < strides.size(); ++i) strides[i] *= factor;
  return x.with_strides(strides);
}

using Relayout = std::function<HostTensor(const HostTensor&)>;

void relayout_inputs(Case& c, const Relayout& relayout) {
  for (HostTensor* x : {&c.q, &c.k, &c.v, &c.dout}) *x = relayout(*x);
}
void relayout_outputs(Case& c, const Relayout& relayout) {
  for (HostTensor* x : {&c.out, &c.dq, &c.dk, &c.dv}) *x = relayout(*x);
}

// A transposed gradient of the output gave wrong gradients with shared K/V heads
// (flash-attention #355).
TEST(C46, TransposedOutputGradient) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.batch = 2, .s_q = 4, .s_k = 4, .heads_q = 32, .heads_k = 1, .d = 128}, dtype);
    test::expect_right(c);
    const Bits contiguous = bits_of(c);
    c.dout = heads_first(c.dout);
    run(c);
    expect_same_bits(contiguous, bits_of(c));
  }
}

// Gradients from a concatenation or a sum (a scalar expanded with strides 0) were refused or wrong
// (flash-attention #91, pytorch #138529).
TEST(C47, SlicedAndExpandedOutputGradient) {
  for (const DType dtype : kFloats) {
    Case c = probe({.batch = 2, .s_q = 70, .s_k = 66, .heads_q = 2}, dtype);
    run(c);
    const Bits contiguous = bits_of(c);
    c.dout = in_wider_rows(c.dout, 2);
    run(c);
    expect_same_bits(contiguous, bits_of(c));
    c.dout = HostTensor(dtype, c.out.dims(), {0, 0, 0, 0}).fill(1);
    run(c);
    expect_same_bits(contiguous, bits_of(c));
    expect_counts(c, [](int64_t, int64_t, int64_t, int64_t) { return true; });
  }
}

// Inputs with columns apart: the forward normalised them, the backward failed; a CPU kernel that
// assumed columns side by side was silently wrong (flash-attention PR #2777, pytorch PR #187506).
TEST(C49, ColumnsApart) {
  const std::array<Relayout, 4> layouts = {[](const auto& x) { return columns_apart(x, 2); },
                                           [](const auto& x) { return columns_apart(x, 7); },
                                           columns_first, heads_first};
  for (const DType dtype : kFloats) {
    for (const int64_t s : {1, 67}) {
      Case c = ref64(
          {.batch = 2, .s_q = s, .s_k = 67, .heads_q = 4, .heads_k = 2, .d = 24, .d_v = 40}, dtype);
      c.options.causal = Causal::kBottomRight;
      test::expect_right(c);
      const Bits contiguous = bits_of(c);
      for (const Relayout& layout : layouts) {
        Case other = c;
        relayout_inputs(other, layout);
        run(other);
        expect_same_bits(contiguous, bits_of(other));
      }
    }
  }
}

TEST(C50, EachTensorAlone) {
  Case c = ref64({.s_q = 67, .s_k = 70, .heads_q = 2, .d = 24}, DType::kBFloat16);
  run(c);
  const Bits contiguous = bits_of(c);
  for (HostTensor Case::*x :
       {&Case::q, &Case::k, &Case::v, &Case::dout, &Case::out, &Case::dq, &Case::dk, &Case::dv}) {
    for (const Relayout& layout : {Relayout(columns_first), Relayout(heads_first)}) {
      Case other = c;
      other.*x = layout(c.*x);
      run(other);
      expect_same_bits(contiguous, bits_of(other));
    }
  }
}

TEST(C50, StridedOutputs) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.batch = 2, .s_q = 67, .s_k = 70, .heads_q = 2, .d = 24}, dtype);
    run(c);
    const Bits contiguous = bits_of(c);
    for (const Relayout& layout :
         {Relayout(columns_first), Relayout([](const auto& x) { return in_wider_rows(x, 3); })}) {
      Case other = c;
      relayout_outputs(other, layout);
      other.lse = c.lse.with_strides(test::strides_in_order(c.lse.dims(), {2, 0, 1}));
      run(other);  // it also checks that nothing is written between the elements
      expect_same_bits(contiguous, bits_of(other));
    }
  }
}

// V came as a transposed view and was read as if contiguous (FlagGems #5896).
TEST(C52, OnlyVIsATransposedView) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.s_q = 65, .s_k = 65, .heads_q = 24, .heads_k = 4, .d = 256}, dtype);
    c.options.causal = Causal::kBottomRight;
    c.q = heads_first(c.q);
    c.k = heads_first(c.k);
    c.v = heads_first(c.v);
    run(c);
    const Bits plain = bits_of(c);
    c.v = c.v.with_strides(test::strides_in_order(c.v.dims(), {0, 1, 2, 3}));
    run(c);
    expect_same_bits(plain, bits_of(c));
    c.v = columns_first(c.v);
    run(c);
    expect_same_bits(plain, bits_of(c));
  }
}

// The contiguous copy was made on the first call of a shape alone (flash-attention #2886).
TEST(C53, SecondCallOfAShapeWithOtherStrides) {
  Case c = ref64({.s_q = 96, .s_k = 96, .heads_q = 4, .d = 256}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  run(c);
  const Bits contiguous = bits_of(c);
  Case transposed = c;
  relayout_inputs(transposed, heads_first);
  for (int call = 0; call < 2; ++call) {
    run(transposed);
    expect_same_bits(contiguous, bits_of(transposed));
  }
}

/// A configuration out of many, by number.
Case numbered_case(int number) {
  test::Random random(number);
  const auto pick = [&](std::initializer_list<int64_t> from) {
    return *(from.begin() + static_cast<int64_t>(random() % from.size()));
  };
  const DType dtype = kFloats[random() % kFloats.size()];
  const int64_t heads_k = pick({1, 2}), batch = pick({1, 2}), s_q = pick({1, 5, 40});
  const int64_t s_k = pick({1, 33, 40, 70});
  Case c = ref64({.batch = batch,
                  .s_q = s_q,
                  .s_k = s_k,
                  .heads_q = heads_k * pick({1, 3}),
                  .heads_k = heads_k,
                  .d = pick({8, 40, 64}),
                  .d_v = pick({8, 64})},
                 dtype);
  c.options.causal = static_cast<Causal>(pick({0, 1, 2}));
  if (pick({0, 1}) == 1) c.options.window.left = pick({0, 7, 100});
  if (pick({0, 1}) == 1) c.options.softcap = 3;
  if (pick({0, 1}) == 1) {  // what compilers produce for a batch of 1
    Dims strides = c.q.strides();
    strides[0] = 0;
    if (batch == 1) c.q = c.q.with_strides(strides);
  }
  if (pick({0, 1}) == 1) {
    c.mask = HostTensor(DType::kBool, {1, 1, s_q, s_k}).fill_with([](const Index& i) {
      return (i[2] + i[3]) % 3 == 0 ? 0.0 : 1.0;
    });
  }
  return c;
}

// A cache key missed a property, and a call got what was made for another one
// (flash-attention PR #2298, #2143).
TEST(C54, ShuffledConfigurationsTwice) {
  std::vector<int> order(50);
  std::iota(order.begin(), order.end(), 0);
  std::vector<Bits> first(order.size());
  for (int round = 0; round < 2; ++round) {
    std::shuffle(order.begin(), order.end(), test::Random(round));
    for (const int number : order) {
      Case c = numbered_case(number);
      SCOPED_TRACE(number);
      if (round == 0) test::expect_right(c);
      if (round == 1) run(c);
      if (round == 0) first[number] = bits_of(c);
      expect_same_bits(first[number], bits_of(c));
    }
  }
}

// Biases whose rows are no multiple of 8 were refused, and the suggested slice of a padded tensor
// broke (xformers #808, diffusers #9637).
TEST(C56, BiasRowsOfAnyLength) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t s_k : {1, 43, 77, 121, 498}) {
      Case c = ref64({.batch = 2, .s_q = 5, .s_k = s_k, .heads_q = 2, .d = 16}, dtype);
      test::Random random(56);
      c.bias = HostTensor(dtype, {1, 2, 5, s_k}).fill_normal(random);
      test::expect_right(c);
      const Bits tight = bits_of(c);
      c.bias = in_wider_rows(c.bias, 2);
      c.dbias = in_wider_rows(c.dbias, 2);
      run(c);
      expect_same_bits(tight, bits_of(c));
      EXPECT_EQ(c.judge_backward(), "");
    }
  }
}

/// `full` with a size of 1 wherever `bits` has one.
Dims broadcast_dims(Dims full, unsigned bits) {
  for (unsigned i = 0; i < 4; ++i) {
    if ((bits >> i & 1) != 0) full[i] = 1;
  }
  return full;
}
HostTensor expand(const HostTensor& x, const Dims& dims) {
  return HostTensor(x.dtype(), dims).fill_with([&](Index i) {
    for (size_t n = 0; n < 4; ++n) i[n] = x.dims()[n] == 1 ? 0 : i[n];
    return x.get(i);
  });
}

/// The sum of x over the dims that are 1 in `dims`.
HostTensor reduce(const HostTensor& x, const Dims& dims) {
  HostTensor sum(DType::kFloat64, dims);
  sum.fill(0);
  for (int64_t flat = 0; flat < x.size(); ++flat) {
    Index from{}, to{};
    int64_t rest = flat;
    for (size_t n = 4; n-- > 0; rest /= x.dims()[n]) {
      from[n] = rest % x.dims()[n];
      to[n] = dims[n] == 1 ? 0 : from[n];
    }
    sum.set(to, sum.get(to) + x.get(from));
  }
  return sum;
}

// Broadcast biases: shape errors, reads out of bounds where the last size is 1
// (jax #28974, pytorch PR #128816).
TEST(C57, BiasOfEveryBroadcastShape) {
  const Dims full = {2, 3, 37, 41};
  for (unsigned shape = 0; shape < 16; ++shape) {
    SCOPED_TRACE(shape);
    Case c = ref64({.batch = 2, .s_q = 37, .s_k = 41, .heads_q = 3, .d = 16});
    test::Random random(shape);
    c.bias = HostTensor(DType::kFloat32, broadcast_dims(full, shape)).fill_normal(random);
    test::expect_right(c);  // dbias, too, against the sum over what is broadcast
    Case expanded = c;
    expanded.bias = expand(c.bias, full);
    expanded.dbias = {};
    run(expanded);
    EXPECT_LE(distance(c.out, expanded.out), 1e-6);
    EXPECT_LE(distance(c.dq, expanded.dq), 1e-5);
    EXPECT_LE(distance(c.dbias, reduce(expanded.dbias, c.bias.dims())), 2e-5);
  }
}

TEST(C57, MaskOfEveryBroadcastShape) {
  const Dims full = {2, 3, 37, 41};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (unsigned shape = 0; shape < 16; ++shape) {
      SCOPED_TRACE(shape);
      Case c = ref64({.batch = 2, .s_q = 37, .s_k = 41, .heads_q = 3, .d = 16}, dtype);
      test::Random random(shape);
      c.mask = HostTensor(DType::kBool, broadcast_dims(full, shape)).fill_with([&](const Index&) {
        return random() % 4 == 0 ? 0.0 : 1.0;
      });
      if (dtype == DType::kFloat32) test::expect_right(c);
      run(c);
      const Bits narrow = bits_of(c);
      c.mask = expand(c.mask, full);
      run(c);
      expect_same_bits(narrow, bits_of(c));
    }
  }
}

// Expanded inputs (strides 0): one K/V head for all, one row of q for all.
TEST(Strides, ExpandedInputs) {
  for (const DType dtype : kFloats) {
    Case c = ref64({.batch = 2, .s_q = 33, .s_k = 40, .heads_q = 3, .d = 16}, dtype);
    // What is expanded takes the values of its first batch entry, head or row.
    const auto expand_over = [](const HostTensor& x, Dims strides) {
      const HostTensor expanded(x.dtype(), x.dims(), strides);
      return HostTensor(expanded).fill_with([&](Index i) {
        for (size_t n = 0; n < 4; ++n) i[n] = strides[n] == 0 ? 0 : i[n];
        return x.get(i);
      });
    };
    c.k = expand_over(c.k, {0, 16, 0, 1});
    c.v = expand_over(c.v, {640, 16, 0, 1});
    c.q = expand_over(c.q, {0, 0, 16, 1});
    test::expect_right(c);
    const Bits expanded = bits_of(c);
    Case dense = c;
    for (HostTensor* x : {&dense.q, &dense.k, &dense.v}) {
      *x = x->with_strides(test::strides_in_order(x->dims(), {0, 1, 2, 3}));
    }
    run(dense);
    expect_same_bits(expanded, bits_of(dense));
  }
}

/// The first complaint about a forward and backward with this change to the tensors.
std::string complaint(const std::function<void(AttentionTensors&, AttentionGradients&)>& change) {
  Case c = ref64({.s_q = 4, .s_k = 4});
  run(c);
  AttentionTensors t = c.tensors();
  AttentionGradients g = c.gradients();
  change(t, g);
  const Status forward = attention(t), backward = attention_backward(t, g);
  const Status& status = forward.ok() ? backward : forward;
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(Strides, NegativeOnesAndOverlappingOutputsAreErrors) {
  const auto expect_parts = [](const std::string& text, const char* name, const char* value) {
    EXPECT_EQ(text.rfind(std::string(name) + ":", 0), 0U) << text;
    EXPECT_NE(text.find(value), std::string::npos) << text;
  };
  expect_parts(complaint([](auto& t, auto&) { t.q.strides[1] = -8; }), "q", "-8");
  expect_parts(complaint([](auto& t, auto&) { t.v.strides[3] = -1; }), "v", "-1");
  expect_parts(complaint([](auto& t, auto&) { t.out.strides[1] = 0; }), "out", "0");
  expect_parts(complaint([](auto&, auto& g) { g.dk.strides[3] = 0; }), "dk", "0");
  expect_parts(complaint([](auto&, auto& g) { g.dout.strides[1] = -8; }), "dout", "-8");
  expect_parts(complaint([](auto& t, auto&) { t.k.strides[1] = INT64_MAX / 2; }), "k", "64 bits");
}

}  // namespace
}  // namespace fa4::cases
