// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_reference.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "cli/demo_batch.h"
#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

// Besides twice the plain implementation's error a slice's results may be off by these shares of
// its largest value and of its largest sum of terms (eight roundings of float32).
constexpr double kOfLargest = 1e-5;
constexpr double kOfTerms = 5e-7;
constexpr int64_t kFewRows = 16;  // In fewer a plain implementation may be right by luck.

/// Fills one part (exact, plain or magnitude) of all references of a layer.
void fill(DemoReferences& references, const DemoFixture& fixture, const DemoBatch& packed,
          oracle::Precision precision, std::vector<double> DemoReference::*part) {
  oracle::Forward forward = oracle::forward(packed.tensors, {}, precision);
  oracle::Backward backward = oracle::backward(packed.tensors, packed.gradients, {}, precision);
  references.out.*part = std::move(forward.out);
  references.lse.*part = heads_last(forward.lse, fixture.heads, fixture.total());
  references.dq.*part = std::move(backward.dq);
  references.dk.*part = std::move(backward.dk);
  references.dv.*part = std::move(backward.dv);
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

}  // namespace

std::vector<float> make_demo_dout(const DemoFixture& fixture, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> dout(static_cast<size_t>(fixture.total() * fixture.heads * fixture.head_dim));
  for (float& x : dout) x = to_float(to_float16(to_float(to_bfloat16(normal(random)))));
  return dout;
}

std::vector<DemoReferences> make_demo_references(const DemoFixture& fixture, int64_t layer,
                                                 const std::vector<DType>& dtypes,
                                                 const std::vector<float>& dout) {
  using oracle::Precision;
  const int64_t heads = fixture.heads, total = fixture.total();
  const int64_t outs = total * heads * fixture.head_dim, lses = total * heads;
  const auto out = fixture.torch_out.begin() + layer * outs;
  const auto lse = fixture.torch_lse.begin() + layer * lses;
  DemoReferences shared;  // What all dtypes have in common.
  shared.torch_out.assign(out, out + outs);
  shared.torch_lse = heads_last(std::vector<double>(lse, lse + lses), heads, total);
  const DemoBatch unrounded(fixture, layer, DType::kFloat32, DemoLayout::kPacked, dout);
  fill(shared, fixture, unrounded, Precision::kMagnitude, &DemoReference::magnitude);
  fill(shared, fixture, unrounded, Precision::kExact, &DemoReference::exact);

  std::vector<DemoReferences> all;
  for (const DType dtype : dtypes) {
    all.push_back(shared);
    const DemoBatch packed(fixture, layer, dtype, DemoLayout::kPacked, dout);
    fill(all.back(), fixture, packed, Precision::kSameDtype, &DemoReference::plain);
    if (dtype == DType::kBFloat16) {  // The others hold the stored float16 exactly.
      fill(all.back(), fixture, packed, Precision::kExact, &DemoReference::exact);
    }
  }
  return all;
}

void DemoError::include(const DemoError& other) {
  error = std::max(error, other.error);
  plain = std::max(plain, other.plain);
  of_bound = std::max(of_bound, other.of_bound);
}

DemoError compare_demo(const DemoFixture& fixture, DType dtype, const std::vector<double>& x,
                       const std::vector<double>& right, const DemoReference& reference) {
  const int64_t heads = fixture.heads;
  const int64_t dim = static_cast<int64_t>(x.size()) / (fixture.total() * heads);
  DemoError all;
  for (int64_t slice = 0; slice < static_cast<int64_t>(fixture.texts.size()) * heads; ++slice) {
    const int64_t text = slice / heads, head = slice % heads;
    DemoError one;
    double largest = 0, terms = 0;
    for (int64_t t = fixture.cu_seqlens[text]; t < fixture.cu_seqlens[text + 1]; ++t) {
      for (int64_t i = (t * heads + head) * dim; i < (t * heads + head + 1) * dim; ++i) {
        const double error = std::abs(x[i] - right[i]);
        one.error = std::isnan(error) ? HUGE_VAL : std::max(one.error, error);
        one.plain = std::max(one.plain, std::abs(reference.plain[i] - right[i]));
        largest = std::max(largest, std::abs(right[i]));
        terms = std::max(terms, reference.magnitude[i]);
      }
    }
    double bound = 2 * one.plain + kOfLargest * largest + kOfTerms * terms;
    if (fixture.length(text) < kFewRows) bound += unit_roundoff(dtype) * (largest + terms / 4);
    one.of_bound = one.error == 0 ? 0 : one.error / bound;
    all.include(one);
  }
  return all;
}

}  // namespace fa4::cli
