// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/scores.h"

#include <cmath>
#include <limits>

namespace fa4::cpu {

Broadcast Broadcast::of(const Tensor& tensor) {
  Broadcast b;
  if (!tensor.present()) return b;
  b.data = tensor.data;
  b.dtype = tensor.dtype;
  for (int i = 0; i < 4; ++i) b.strides[i] = tensor.dims[i] == 1 ? 0 : tensor.strides[i];
  return b;
}

Matrix Broadcast::row(int64_t sequence, int64_t head, int64_t row, int64_t key) const {
  const int64_t offset =
      sequence * strides[0] + head * strides[1] + row * strides[2] + key * strides[3];
  auto* bytes = static_cast<char*>(const_cast<void*>(data));  // NOLINT: only read
  return {bytes + offset * size_of(dtype), dtype, 0, strides[3]};
}

template <class T>
ScoreModifiers<T>::ScoreModifiers(const Kernels<T>& kernels, const core::Problem& problem,
                                  const AttentionTensors& tensors)
    : kernels_(kernels),
      bias_(Broadcast::of(tensors.bias)),
      mask_(Broadcast::of(tensors.mask)),
      slopes_(tensors.alibi_slopes),
      scale_(static_cast<T>(problem.scale)),
      softcap_(static_cast<T>(problem.spec.options.softcap)) {
  active_ = may_hide() || slopes_.present() || softcap_ > 0 || !(scale_ > 0);
}

template <class T>
void ScoreModifiers<T>::apply(const Row& x, const Buffers& buffers, T* s, T* slope) const {
  constexpr DType kOwnType = sizeof(T) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;
  const auto [begin, end] = x.columns;
  ScoreRow<T> row;
  row.s = s;
  row.columns = x.columns;
  row.scale = scale_;
  row.softcap = softcap_;
  row.softcap_slope = slope;
  if (bias_.present()) {
    const Matrix bias = bias_.row(x.sequence.index, x.head, x.row, x.first_key + begin);
    if (bias.dtype == kOwnType && bias.col_stride == 1) {
      row.bias = static_cast<const T*>(bias.data) - begin;
    } else {
      kernels_.load_rows(bias, 1, end - begin, T{1}, buffers.bias + begin, 0);
      row.bias = buffers.bias;
    }
  }
  if (mask_.present()) {
    const Matrix mask = mask_.row(x.sequence.index, x.head, x.row, x.first_key + begin);
    const auto* bytes = static_cast<const uint8_t*>(mask.data);
    if (mask.col_stride == 1) {
      row.mask = bytes - begin;
    } else {
      for (int64_t c = begin; c < end; ++c) buffers.mask[c] = bytes[(c - begin) * mask.col_stride];
      row.mask = buffers.mask;
    }
  }
  if (slopes_.present()) {
    const int64_t offset =
        slopes_.rank == 1 ? x.head * slopes_.strides[0]
                          : x.sequence.index * slopes_.strides[0] + x.head * slopes_.strides[1];
    row.alibi_slope = static_cast<T>(static_cast<const float*>(slopes_.data)[offset]);
    row.alibi_first = static_cast<T>(x.first_key - (x.row + x.sequence.diagonal));
  }
  kernels_.finish_scores(row);
}

template <class T>
bool ScoreModifiers<T>::hides(const core::Sequence& sequence, int64_t head, int64_t row,
                              int64_t key) const {
  if (mask_.present()) {
    const Matrix mask = mask_.row(sequence.index, head, row, key);
    if (*static_cast<const uint8_t*>(mask.data) == 0) return true;
  }
  if (!bias_.present()) return false;
  T bias = 0;
  kernels_.load_rows(bias_.row(sequence.index, head, row, key), 1, 1, T{1}, &bias, 1);
  return bias == -std::numeric_limits<T>::infinity();
}

template <class T>
void apply_dropout(const core::Dropout& dropout, const typename ScoreModifiers<T>::Row& x, T* p) {
  const auto keep = static_cast<T>(dropout.keep_scale);
  const int64_t end = x.first_key + x.columns.end;
  for (int64_t key = x.first_key + x.columns.begin; key < end;) {
    const auto numbers = dropout.numbers(x.sequence.index, x.head, x.row, key / 4);
    for (int64_t lane = key % 4; lane < 4 && key < end; ++lane, ++key) {
      T& value = p[key - x.first_key];
      value = numbers[static_cast<size_t>(lane)] < dropout.threshold ? T{0} : value * keep;
    }
  }
}

template class ScoreModifiers<float>;
template class ScoreModifiers<double>;
template void apply_dropout(const core::Dropout&, const ScoreModifiers<float>::Row&, float*);
template void apply_dropout(const core::Dropout&, const ScoreModifiers<double>::Row&, double*);

}  // namespace fa4::cpu
