// SPDX-License-Identifier: BSD-3-Clause
// How a forward run's rows end: normalised, rounded, written; or empty.
#include <array>
#include <cmath>
#include <limits>

#include "cpu/forward_context.h"

namespace fa4::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Element (row, head) of lse.
char* lse_element(const Tensor& lse, const core::SequenceRows& side, int64_t head, int64_t row) {
  const int64_t* stride = lse.strides.data();
  const int64_t offset = lse.rank == 3
                             ? side.batch_index * stride[0] + head * stride[1] + row * stride[2]
                             : head * stride[0] + (side.first_row + row) * stride[1];
  return static_cast<char*>(lse.data) + offset * size_of(lse.dtype);
}

void write_lse(const Tensor& lse, const core::SequenceRows& side, int64_t head, int64_t row,
               double value) {
  if (!lse.present()) return;
  char* element = lse_element(lse, side, head, row);
  if (lse.dtype == DType::kFloat64) {
    *reinterpret_cast<double*>(element) = value;
  } else {
    *reinterpret_cast<float*>(element) = static_cast<float>(value);
  }
}

}  // namespace

template <class T>
ForwardContext<T>::ForwardContext(const Kernels<T>& table, const core::Problem& p,
                                  const AttentionTensors& t, const ForwardTiling& tiles)
    : kernels(table),
      problem(p),
      tensors(t),
      tiling(tiles),
      modifiers(table, p, t),
      dropout(core::Dropout::make(p.spec.options.dropout_p, p.spec.options.dropout_seed)),
      has_dropout(p.spec.options.dropout_p > 0),
      approximate(size_of(p.dtype) == 2),
      scale(modifiers.active() ? 1.0 : p.scale) {}

template <class T>
double ForwardContext<T>::sink(int64_t head) const {
  const Tensor& t = tensors.sink;
  if (!t.present()) return -kInfinity;
  T value = 0;
  kernels.load_rows(Matrix{t.data, t.dtype, 0, t.strides[0]}.at(0, head), 1, 1, T{1}, &value, 1);
  return static_cast<double>(value);
}

Matrix rows_of_head(const Tensor& t, const core::SequenceRows& side, int64_t head, int64_t row) {
  const int64_t* stride = t.strides.data() + (t.rank - 3);
  const int64_t batch = t.rank == 4 ? side.batch_index * t.strides[0] : 0;
  const int64_t offset = batch + (side.first_row + row) * stride[0] + head * stride[1];
  return {static_cast<char*>(t.data) + offset * size_of(t.dtype), t.dtype, stride[0], stride[2]};
}

template <class T>
void finish_rows(const ForwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                 core::Range rows, const RowState<T>& state) {
  const int64_t dim_v = context.problem.dim_v;
  const double sink = context.sink(head);
  for (int64_t r = 0; r < rows.size(); ++r) {
    const double max = static_cast<double>(state.max[r]) * context.scale;
    double sum = static_cast<double>(state.sum[r]);
    double top = max;  // what sum and out are relative to
    double factor = 1;
    if (sink > max) {
      top = sink;
      factor = std::exp(max - sink);
      sum = sum * factor + 1;
    } else if (sink != -kInfinity) {
      sum += std::exp(sink - max);
    }
    write_lse(context.tensors.lse, sequence.q, head, rows.begin + r,
              sum == 0 ? -kInfinity : top + std::log(sum));
    const auto scale = static_cast<T>(factor / sum);
    T* out = state.out + r * state.out_stride;
    for (int64_t c = 0; c < dim_v; ++c) out[c] = sum == 0 ? T{0} : out[c] * scale;
  }
  context.kernels.store_rows(state.out, state.out_stride, rows.size(), dim_v, T{1},
                             rows_of_head(context.tensors.out, sequence.q, head, rows.begin));
}

template <class T>
void clear_rows(const ForwardContext<T>& context, const core::SequenceRows& side,
                core::Range rows) {
  static constexpr std::array<T, 256> kZeros{};  // as many as the largest head has columns
  if (rows.empty()) return;
  for (int64_t head = 0; head < context.problem.heads_q; ++head) {
    context.kernels.store_rows(kZeros.data(), 0, rows.size(), context.problem.dim_v, T{1},
                               rows_of_head(context.tensors.out, side, head, rows.begin));
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      write_lse(context.tensors.lse, side, head, row, -kInfinity);
    }
  }
}

template struct ForwardContext<float>;
template struct ForwardContext<double>;
template void finish_rows(const ForwardContext<float>&, const core::Sequence&, int64_t, core::Range,
                          const RowState<float>&);
template void finish_rows(const ForwardContext<double>&, const core::Sequence&, int64_t,
                          core::Range, const RowState<double>&);
template void clear_rows(const ForwardContext<float>&, const core::SequenceRows&, core::Range);
template void clear_rows(const ForwardContext<double>&, const core::SequenceRows&, core::Range);

}  // namespace fa4::cpu
