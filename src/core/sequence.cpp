// SPDX-License-Identifier: BSD-3-Clause
#include "core/sequence.h"

namespace fa4::core {
namespace {

SequenceRows rows_of(bool packed, int64_t rows, const Tensor& cu_seqlens, const Tensor& seqused,
                     const Tensor& start, int64_t b) {
  SequenceRows side;
  side.batch_index = packed ? 0 : b;
  side.first_row = packed ? read_index(cu_seqlens, b) : 0;
  side.capacity = packed ? read_index(cu_seqlens, b + 1) - side.first_row : rows;
  side.used = {start.present() ? read_index(start, b) : 0,
               seqused.present() ? read_index(seqused, b) : side.capacity};
  return side;
}

}  // namespace

int64_t read_index(const Tensor& tensor, int64_t i) {
  const int64_t offset = i * tensor.strides[0];
  return tensor.dtype == DType::kInt32 ? static_cast<const int32_t*>(tensor.data)[offset]
                                       : static_cast<const int64_t*>(tensor.data)[offset];
}

Sequence sequence_of(const Problem& problem, const AttentionTensors& t, int64_t b) {
  const AttentionOptions& options = problem.spec.options;
  Sequence s;
  s.index = b;
  s.q = rows_of(problem.packed_q, problem.rows_q, t.cu_seqlens_q, t.seqused_q, t.start_q, b);
  s.k = rows_of(problem.packed_k, problem.rows_k, t.cu_seqlens_k, t.seqused_k, t.start_k, b);
  s.diagonal = options.causal == Causal::kTopLeft ? s.k.used.begin - s.q.used.begin
                                                  : s.k.used.end - s.q.used.end;
  // Further than both lengths together nothing can be hidden: clamping keeps sums far from
  // overflow.
  const int64_t unlimited = s.q.capacity + s.k.capacity;
  s.left = std::min(options.window.left.value_or(unlimited), unlimited);
  s.right = std::min(options.window.right.value_or(unlimited), unlimited);
  if (options.causal != Causal::kNone) s.right = std::min<int64_t>(s.right, 0);
  return s;
}

}  // namespace fa4::core
