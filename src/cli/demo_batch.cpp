// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "oracle/oracle.h"

namespace fa4::cli {
namespace {

void fill(Array& array, double x) {
  const size_t bytes = array.bytes();
  if (bytes == 0) return;
  set(array, 0, x);
  for (size_t done = static_cast<size_t>(size_of(array.dtype())); done < bytes; done *= 2) {
    std::memcpy(array.data() + done, array.data(), std::min(done, bytes - done));
  }
}

/// Makes every element NaN, so that whoever fails to write it, or reads it, is found out.
void poison(Array& array) { fill(array, std::numeric_limits<double>::quiet_NaN()); }

std::vector<float> layer_of(const DemoFixture& fixture, const std::vector<Float16>& x,
                            int64_t layer) {
  const int64_t count = fixture.total() * fixture.heads * fixture.head_dim;
  std::vector<float> rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) rows[i] = to_float(x[layer * count + i]);
  return rows;
}

}  // namespace

const char* to_string(DemoLayout layout) {
  switch (layout) {
    case DemoLayout::kPadded:
      return "padded";
    case DemoLayout::kPacked:
      return "packed";
    case DemoLayout::kMasked:
      return "masked";
  }
  return "?";
}

std::vector<double> heads_last(const std::vector<double>& lse, int64_t heads, int64_t total) {
  std::vector<double> rows(lse.size());
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < total; ++t) rows[t * heads + h] = lse[h * total + t];
  }
  return rows;
}

DemoBatch::DemoBatch(const DemoFixture& fixture, int64_t layer, DType dtype, DemoLayout layout,
                     const std::vector<float>& dout, Padding padding)
    : fixture_(fixture), dtype_(dtype), layout_(layout) {
  const auto texts = static_cast<int64_t>(fixture.texts.size());
  const bool packed = layout == DemoLayout::kPacked;
  used_.resize(static_cast<size_t>(packed ? fixture.total() : texts * fixture.longest()));
  for (int64_t text = 0; text < texts; ++text) {
    const int64_t first = packed ? fixture.cu_seqlens[text] : text * fixture.longest();
    for (int64_t i = 0; i < fixture.length(text); ++i) {
      place_.push_back(first + i);
      used_[first + i] = true;
    }
  }
  // Rows past a used length are never read, and neither are keys that no query sees. Under a mask,
  // though, queries of padding are queries like any other: they get numbers, as in a real model.
  const double hidden = padding == Padding::kNaN ? std::numeric_limits<double>::quiet_NaN() : 0;
  const double query_padding = layout == DemoLayout::kMasked ? 0 : hidden;
  q_ = make(query_padding, layer_of(fixture, fixture.q, layer));
  k_ = make(hidden, layer_of(fixture, fixture.k, layer));
  v_ = make(hidden, layer_of(fixture, fixture.v, layer));
  dout_ = make(query_padding, dout);
  out_ = make_output();
  dq_ = make_output();
  dk_ = make_output();
  dv_ = make_output();
  lse_ = packed ? Array(DType::kFloat32, {fixture.heads, fixture.total()})
                : Array(DType::kFloat32, {texts, fixture.heads, fixture.longest()});
  poison(lse_);

  tensors.q = q_.view();
  tensors.k = k_.view();
  tensors.v = v_.view();
  tensors.out = out_.view();
  tensors.lse = lse_.view();
  gradients.dout = dout_.view();
  gradients.dq = dq_.view();
  gradients.dk = dk_.view();
  gradients.dv = dv_.view();
  add_lengths();
}

Array DemoBatch::make_output() const {
  const int64_t heads = fixture_.heads, dim = fixture_.head_dim;
  const auto texts = static_cast<int64_t>(fixture_.texts.size());
  Array array = layout_ == DemoLayout::kPacked
                    ? Array(dtype_, {fixture_.total(), heads, dim})
                    : Array(dtype_, {texts, fixture_.longest(), heads, dim});
  poison(array);
  return array;
}

Array DemoBatch::make(double padding, const std::vector<float>& packed) const {
  Array array = make_output();
  fill(array, padding);
  const int64_t row = fixture_.heads * fixture_.head_dim;
  for (int64_t t = 0; t < fixture_.total(); ++t) {
    for (int64_t i = 0; i < row; ++i)
      set(array, place_[t] * row + i, static_cast<double>(packed[t * row + i]));
  }
  return array;
}

void DemoBatch::add_lengths() {
  const auto texts = static_cast<int64_t>(fixture_.texts.size());
  if (layout_ == DemoLayout::kPacked) {
    cu_seqlens_ = Array(DType::kInt32, {texts + 1});
    for (int64_t i = 0; i <= texts; ++i) set(cu_seqlens_, i, fixture_.cu_seqlens[i]);
    tensors.cu_seqlens_q = tensors.cu_seqlens_k = cu_seqlens_.view();
  } else if (layout_ == DemoLayout::kPadded) {
    seqused_ = Array(DType::kInt32, {texts});
    for (int64_t i = 0; i < texts; ++i) {
      set(seqused_, i, static_cast<double>(fixture_.length(i)));
    }
    tensors.seqused_q = tensors.seqused_k = seqused_.view();
  } else {
    mask_ = Array(DType::kBool, {texts, 1, 1, fixture_.longest()});
    for (size_t i = 0; i < used_.size(); ++i) {
      set(mask_, static_cast<int64_t>(i), used_[i] ? 1 : 0);
    }
    tensors.mask = mask_.view();
  }
}

std::vector<double> DemoBatch::rows(const Tensor& tensor) const {
  const std::vector<double> all = oracle::read(tensor);
  const int64_t row = fixture_.heads * fixture_.head_dim;
  std::vector<double> packed;
  packed.reserve(static_cast<size_t>(fixture_.total() * row));
  for (const int64_t place : place_) {
    packed.insert(packed.end(), all.begin() + place * row, all.begin() + (place + 1) * row);
  }
  return packed;
}

std::vector<double> DemoBatch::lse() const {
  const std::vector<double> all = oracle::read(lse_.view());
  const int64_t heads = fixture_.heads, s = fixture_.longest();
  if (layout_ == DemoLayout::kPacked) return heads_last(all, heads, fixture_.total());
  std::vector<double> packed;
  for (const int64_t place : place_) {
    for (int64_t h = 0; h < heads; ++h) {
      packed.push_back(all[(place / s * heads + h) * s + place % s]);
    }
  }
  return packed;
}

bool DemoBatch::is_zero_in_padding(const Tensor& tensor) const {
  const std::vector<double> all = oracle::read(tensor);
  const int64_t row = fixture_.heads * fixture_.head_dim;
  for (size_t place = 0; place < used_.size(); ++place) {
    const auto begin = all.begin() + static_cast<int64_t>(place) * row;
    if (!used_[place] && !std::all_of(begin, begin + row, [](double x) { return x == 0; })) {
      return false;
    }
  }
  return true;
}

bool DemoBatch::outputs_clean() const {
  if (layout_ != DemoLayout::kPadded) return true;
  const std::vector<double> lse = oracle::read(lse_.view());
  const int64_t heads = fixture_.heads, s = fixture_.longest();
  for (size_t i = 0; i < lse.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const int64_t place = index / (heads * s) * s + index % s;
    if (!used_[place] && lse[i] != -std::numeric_limits<double>::infinity()) return false;
  }
  return is_zero_in_padding(out_.view());
}

bool DemoBatch::gradients_clean() const {
  return is_zero_in_padding(dq_.view()) && is_zero_in_padding(dk_.view()) &&
         is_zero_in_padding(dv_.view());
}

}  // namespace fa4::cli
