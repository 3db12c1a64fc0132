// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_reference.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "cli/demo_batch.h"
#include "oracle/judge.h"
#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

void fill_forward(DemoReferences& references, const DemoFixture& fixture, const DemoBatch& packed,
                  oracle::Precision precision, std::vector<double> DemoReference::*part) {
  oracle::Forward forward = oracle::forward(packed.tensors, {}, precision);
  references.out.*part = std::move(forward.out);
  references.lse.*part = heads_last(forward.lse, fixture.heads, fixture.total());
}

void fill_backward(DemoReferences& references, const DemoBatch& packed,
                   const AttentionGradients& gradients, oracle::Precision precision,
                   std::vector<double> DemoReference::*part) {
  oracle::Backward backward = oracle::backward(packed.tensors, gradients, {}, precision);
  references.dq.*part = std::move(backward.dq);
  references.dk.*part = std::move(backward.dk);
  references.dv.*part = std::move(backward.dv);
}

/// The plain implementation's gradients. The backward of the contract takes delta = sum(dout * out)
/// from an out that was rounded to the dtype; the plain one here does so too. Rounding out to 16
/// bits alone moves dq and dk by more than all other roundings of a plain implementation where a
/// row looks at a single key. The oracle has no such rounding, but a dlse of
/// sum(dout * (out - rounded out)) does the same: it is subtracted where delta is.
void fill_plain_backward(DemoReferences& references, const DemoFixture& fixture,
                         const DemoBatch& packed, const std::vector<float>& dout) {
  const int64_t heads = fixture.heads, dim = fixture.head_dim, total = fixture.total();
  Array dlse(DType::kFloat32, {heads, total});
  for (int64_t row = 0; row < total * heads; ++row) {  // A row of out is (token, head).
    double sum = 0;
    for (int64_t i = row * dim; i < (row + 1) * dim; ++i) {
      const double out = references.out.exact[i];
      sum += static_cast<double>(dout[i]) * (out - oracle::round_to(packed.tensors.out.dtype, out));
    }
    set(dlse, row % heads * total + row / heads, sum);
  }
  AttentionGradients gradients = packed.gradients;
  gradients.dlse = dlse.view();
  fill_backward(references, packed, gradients, oracle::Precision::kSameDtype,
                &DemoReference::plain);
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
  const AttentionGradients& gradients = unrounded.gradients;
  fill_forward(shared, fixture, unrounded, Precision::kMagnitude, &DemoReference::magnitude);
  fill_forward(shared, fixture, unrounded, Precision::kExact, &DemoReference::exact);
  fill_backward(shared, unrounded, gradients, Precision::kMagnitude, &DemoReference::magnitude);
  fill_backward(shared, unrounded, gradients, Precision::kExact, &DemoReference::exact);

  std::vector<DemoReferences> all;
  for (const DType dtype : dtypes) {
    DemoReferences& own = all.emplace_back(shared);
    const DemoBatch packed(fixture, layer, dtype, DemoLayout::kPacked, dout);
    if (dtype == DType::kBFloat16) {  // The others hold the stored float16 exactly.
      fill_forward(own, fixture, packed, Precision::kExact, &DemoReference::exact);
      fill_backward(own, packed, packed.gradients, Precision::kExact, &DemoReference::exact);
    }
    fill_forward(own, fixture, packed, Precision::kSameDtype, &DemoReference::plain);
    fill_plain_backward(own, fixture, packed, dout);
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
    const double bound = oracle::allowed_error({dtype, dtype, false, fixture.length(text)},
                                               {one.plain, largest, terms});
    one.of_bound = one.error == 0 ? 0 : one.error / bound;
    all.include(one);
  }
  return all;
}

}  // namespace fa4::cli
