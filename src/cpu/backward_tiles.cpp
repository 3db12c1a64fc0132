// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward_tiles.h"

#include <cmath>
#include <limits>

namespace fa4::cpu {
namespace {

using core::Range;

/// The lse of a row that sees no key.
template <class T>
constexpr T kSeesNothing = -std::numeric_limits<T>::infinity();

char* address(const Tensor& tensor, int64_t offset) {
  return static_cast<char*>(tensor.data) + offset * size_of(tensor.dtype);
}

/// An element of lse or dlse, [b, h, s] or [h, total].
template <class T>
T lse_element(const Tensor& lse, const core::SequenceRows& side, int64_t head, int64_t row) {
  const int first = lse.rank - 2;
  int64_t offset = head * lse.strides[first] + (side.first_row + row) * lse.strides[first + 1];
  if (lse.rank == 3) offset += side.batch_index * lse.strides[0];
  return *reinterpret_cast<const T*>(address(lse, offset));
}

template <class T>
Matrix scratch_matrix(T* rows, int64_t ld) {
  return {rows, sizeof(T) == sizeof(float) ? DType::kFloat32 : DType::kFloat64, ld, 1};
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  T sums[8] = {};  // independent chains, so that the compiler can use vectors
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  T total = 0;
  for (const T sum : sums) total += sum;
  return total;
}

/// Whether row i sees no key at all. Without a sink its lse says so.
template <class T>
bool sees_nothing(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                  int64_t i, T lse) {
  const Range keys = sequence.keys_of_row(i);
  if (keys.empty() || lse == kSeesNothing<T>) return true;
  const Tensor& sinks = context.tensors.sink;
  if (!sinks.present() || !context.modifiers.may_hide()) return false;
  // With one, the lse of such a row is the sink; that of others may round to it.
  T sink = 0;
  const int64_t offset = head * sinks.strides[0];
  context.kernels.load_rows({address(sinks, offset), sinks.dtype, 0, 0}, 1, 1, T{1}, &sink, 1);
  if (lse > sink + std::abs(sink) * T(1e-3) + T(1e-3)) return false;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    if (!context.modifiers.hides(sequence, head, i, j)) return false;
  }
  return true;
}

template <class T>
void modify_scores(const BackwardContext<T>& context, const Block& block,
                   const WorkerScratch<T>& scratch) {
  const int64_t ld = context.tiling.ld_s;
  const bool softcap = context.problem.spec.options.softcap > 0;
  for (int64_t r = 0; r < block.rows.size(); ++r) {
    context.modifiers.apply(
        {block.sequence, block.head, block.rows.begin + r, block.keys.begin, scratch.visible[r]},
        {scratch.bias, scratch.mask}, scratch.scores + r * ld,
        softcap ? scratch.slopes + r * ld : nullptr);
  }
}

/// Dropout factors of the block's rows: 0, or 1 / (1 - p).
template <class T>
void fill_keep(const BackwardContext<T>& context, const Block& block,
               const WorkerScratch<T>& scratch) {
  for (int64_t r = 0; r < block.rows.size(); ++r) {
    T* row = scratch.keep + r * context.tiling.ld_s;
    std::fill_n(row, block.keys.size(), T{1});
    apply_dropout<T>(context.dropout,
                     {block.sequence,
                      block.head,
                      block.rows.begin + r,
                      block.keys.begin,
                      {0, block.keys.size()}},
                     row);
  }
}

/// to = the block's rows of `a` times the columns packed in `b`.
template <class T>
void multiply_rows(const BackwardContext<T>& context, const Block& block, const T* a, int64_t ld,
                   const T* b, int64_t depth, T* to) {
  Product<T> product;
  product.a = a;
  product.a_row_stride = ld;
  product.b = b;
  product.depth = product.panel_depth = depth;
  product.c = to;
  product.c_stride = context.tiling.ld_s;
  product.rows = block.rows.size();
  product.cols = block.keys.size();
  context.kernels.multiply(product);
}

/// Which columns of the block each row sees.
void fill_visible(const Block& block, Columns* visible) {
  for (int64_t r = 0; r < block.rows.size(); ++r) {
    const Range keys =
        core::intersect(block.sequence.keys_of_row(block.rows.begin + r), block.keys);
    const int64_t begin = std::min(keys.begin, block.keys.end) - block.keys.begin;
    visible[r] = {begin, std::max(keys.end - block.keys.begin, begin)};
  }
}

/// The block's scores, modified, and its dp, with all that turns them into gradients.
template <class T>
GradientTile<T> make_scores(const BackwardContext<T>& context, const Block& block,
                            const BlockOperands<T>& operands, const WorkerScratch<T>& scratch) {
  const core::Problem& problem = context.problem;
  multiply_rows(context, block, operands.q_rows, context.tiling.ld_qk, operands.k_columns,
                problem.dim_qk, scratch.scores);
  multiply_rows(context, block, operands.do_rows, context.tiling.ld_v, operands.v_columns,
                problem.dim_v, scratch.gradients);

  const Range common = block.sequence.keys_common_to_rows(block.rows);
  const bool whole = common.begin <= block.keys.begin && common.end >= block.keys.end;
  const bool modified = context.modifiers.active();
  if (!whole || modified) fill_visible(block, scratch.visible);
  if (modified) modify_scores(context, block, scratch);
  if (context.has_dropout) fill_keep(context, block, scratch);

  GradientTile<T> tile;
  tile.s = scratch.scores;
  tile.dp = scratch.gradients;
  tile.stride = context.tiling.ld_s;
  tile.rows = block.rows.size();
  tile.cols = block.keys.size();
  tile.visible = whole ? nullptr : scratch.visible;
  tile.scale = modified ? T{1} : static_cast<T>(problem.scale);
  tile.lse = operands.lse;
  tile.delta = operands.delta;
  tile.slopes = problem.spec.options.softcap > 0 ? scratch.slopes : nullptr;
  tile.keep = context.has_dropout ? scratch.keep : nullptr;
  tile.approximate = size_of(problem.dtype) == 2;
  return tile;
}

}  // namespace

template <class T>
BackwardContext<T>::BackwardContext(const Kernels<T>& its_kernels, const core::Problem& its_problem,
                                    const AttentionTensors& its_tensors,
                                    const AttentionGradients& its_gradients)
    : kernels(its_kernels),
      problem(its_problem),
      tensors(its_tensors),
      gradients(its_gradients),
      tiling(make_tiling(its_kernels, its_problem)),
      modifiers(its_kernels, its_problem, its_tensors),
      dropout(core::Dropout::make(its_problem.spec.options.dropout_p,
                                  its_problem.spec.options.dropout_seed)),
      has_dropout(its_problem.spec.options.dropout_p > 0),
      exact_delta(has_exact_delta(its_problem)) {}

Matrix head_rows(const Tensor& tensor, const core::SequenceRows& side, int64_t head, int64_t row) {
  const int first = tensor.rank - 3;
  int64_t offset =
      (side.first_row + row) * tensor.strides[first] + head * tensor.strides[first + 1];
  if (tensor.rank == 4) offset += side.batch_index * tensor.strides[0];
  return {address(tensor, offset), tensor.dtype, tensor.strides[first], tensor.strides[first + 2]};
}

template <class T>
T& stored_delta(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                int64_t row) {
  const core::Problem& problem = context.problem;
  const int64_t before = problem.packed_q ? sequence.q.first_row : sequence.index * problem.rows_q;
  return context.deltas[head * problem.total_q() + before + row];
}

template <class T>
void load_deltas(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                 Range rows, DeltaSource source, T* do_rows, T* lse, T* delta,
                 const WorkerScratch<T>& scratch) {
  const int64_t dim = context.problem.dim_v, ld = context.tiling.ld_v;
  const Tensor& dlse = context.gradients.dlse;
  context.kernels.load_rows(head_rows(context.gradients.dout, sequence.q, head, rows.begin),
                            rows.size(), dim, T{1}, do_rows, ld);
  if (source == DeltaSource::kOut) {
    context.kernels.load_rows(head_rows(context.tensors.out, sequence.q, head, rows.begin),
                              rows.size(), dim, T{1}, scratch.rows, ld);
  }
  for (int64_t r = 0; r < rows.size(); ++r) {
    const int64_t i = rows.begin + r;
    lse[r] = lse_element<T>(context.tensors.lse, sequence.q, head, i);
    delta[r] = 0;
    if (sees_nothing(context, sequence, head, i, lse[r])) {
      lse[r] = kSeesNothing<T>;
      continue;
    }
    if (source == DeltaSource::kStored) {
      delta[r] = stored_delta(context, sequence, head, i);
      continue;
    }
    if (source == DeltaSource::kOut) delta[r] = dot(do_rows + r * ld, scratch.rows + r * ld, dim);
    if (dlse.present()) delta[r] -= lse_element<T>(dlse, sequence.q, head, i);
  }
}

template <class T>
void load_queries(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head,
                  Range rows, DeltaSource source, const QueryTile<T>& to,
                  const WorkerScratch<T>& scratch) {
  const core::Problem& problem = context.problem;
  const BackwardTiling& tiling = context.tiling;
  const Kernels<T>& kernels = context.kernels;
  const int64_t n = rows.size();
  load_deltas(context, sequence, head, rows, source, to.do_rows, to.lse, to.delta, scratch);
  kernels.load_rows(head_rows(context.tensors.q, sequence.q, head, rows.begin), n, problem.dim_qk,
                    T{1}, to.q_rows, tiling.ld_qk);
  for (int64_t r = 0; r < n; ++r) {
    if (to.lse[r] != kSeesNothing<T>) continue;
    std::fill_n(to.q_rows + r * tiling.ld_qk, problem.dim_qk, T{0});
    std::fill_n(to.do_rows + r * tiling.ld_v, problem.dim_v, T{0});
  }
  if (to.q_panels != nullptr) {
    kernels.pack(scratch_matrix(to.q_rows, tiling.ld_qk), n, problem.dim_qk, tiling.tile_q,
                 to.q_panels);
  }
  if (to.do_panels != nullptr) {
    kernels.pack(scratch_matrix(to.do_rows, tiling.ld_v), n, problem.dim_v, tiling.tile_q,
                 to.do_panels);
  }
  for (int64_t r = 0; to.apart != nullptr && r < n; ++r) {
    to.apart[r] = kernels.all_finite(to.q_rows + r * tiling.ld_qk, problem.dim_qk) &&
                          kernels.all_finite(to.do_rows + r * tiling.ld_v, problem.dim_v)
                      ? 0
                      : 1;
    if (to.apart[r] == 0) continue;
    clear_packed_row(kernels, to.q_panels, tiling.tile_q, problem.dim_qk, r);
    clear_packed_row(kernels, to.do_panels, tiling.tile_q, problem.dim_v, r);
  }
}

template <class T>
void load_keys(const BackwardContext<T>& context, const core::Sequence& sequence, int64_t head_k,
               Range keys, const KeyTile<T>& to, const WorkerScratch<T>& scratch) {
  const core::Problem& problem = context.problem;
  const Kernels<T>& kernels = context.kernels;
  const BackwardTiling& tiling = context.tiling;
  const int64_t n = keys.size();
  kernels.load_rows(head_rows(context.tensors.k, sequence.k, head_k, keys.begin), n, problem.dim_qk,
                    T{1}, scratch.rows, tiling.ld_qk);
  const Matrix k = scratch_matrix(scratch.rows, tiling.ld_qk);
  kernels.pack(k.transposed(), problem.dim_qk, n, problem.dim_qk, to.k_columns);
  if (to.k_panels != nullptr) kernels.pack(k, n, problem.dim_qk, tiling.tile_k, to.k_panels);
  for (int64_t j = 0; to.apart != nullptr && j < n; ++j) {
    to.apart[j] = kernels.all_finite(scratch.rows + j * tiling.ld_qk, problem.dim_qk) ? 0 : 1;
    if (to.apart[j]) clear_packed_row(kernels, to.k_panels, tiling.tile_k, problem.dim_qk, j);
  }
  kernels.load_rows(head_rows(context.tensors.v, sequence.k, head_k, keys.begin), n, problem.dim_v,
                    T{1}, scratch.rows, tiling.ld_v);
  kernels.pack(scratch_matrix(scratch.rows, tiling.ld_v).transposed(), problem.dim_v, n,
               problem.dim_v, to.v_columns);
}

template <class T>
void score_gradients(const BackwardContext<T>& context, const Block& block,
                     const BlockOperands<T>& operands, bool of_bias,
                     const WorkerScratch<T>& scratch) {
  GradientTile<T> tile = make_scores(context, block, operands, scratch);
  if (of_bias) tile.slopes = nullptr;
  context.kernels.gradients(tile);
}

template <class T>
void add_row_sums(const BackwardContext<T>& context, const Block& block,
                  const BlockOperands<T>& operands, T* sums, const WorkerScratch<T>& scratch) {
  GradientTile<T> tile = make_scores(context, block, operands, scratch);
  tile.sums = sums;
  context.kernels.gradients(tile);
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type.
#define FA4_INSTANTIATE(T)                                                                         \
  template struct BackwardContext<T>;                                                              \
  template T& stored_delta(const BackwardContext<T>&, const core::Sequence&, int64_t, int64_t);    \
  template void load_deltas(const BackwardContext<T>&, const core::Sequence&, int64_t, Range,      \
                            DeltaSource, T*, T*, T*, const WorkerScratch<T>&);                     \
  template void load_queries(const BackwardContext<T>&, const core::Sequence&, int64_t, Range,     \
                             DeltaSource, const QueryTile<T>&, const WorkerScratch<T>&);           \
  template void load_keys(const BackwardContext<T>&, const core::Sequence&, int64_t, Range,        \
                          const KeyTile<T>&, const WorkerScratch<T>&);                             \
  template void score_gradients(const BackwardContext<T>&, const Block&, const BlockOperands<T>&,  \
                                bool, const WorkerScratch<T>&);                                    \
  template void add_row_sums(const BackwardContext<T>&, const Block&, const BlockOperands<T>&, T*, \
                             const WorkerScratch<T>&);
FA4_INSTANTIATE(float)
FA4_INSTANTIATE(double)
#undef FA4_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace fa4::cpu
