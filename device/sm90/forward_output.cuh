// SPDX-License-Identifier: BSD-3-Clause
// The Hopper forward: what becomes of a finished tile. O / l and LSE.
#pragma once

#include "attention/softmax.cuh"
#include "ptx/math.cuh"
#include "ptx/tma.cuh"
#include "sm90/forward_config.cuh"

namespace fa4::sm90 {

/// A warpgroup's part of a tile of queries.
struct Part {
  i32 head;        ///< As in Work.
  i32 first;       ///< Position of its first row; below 0: it has none, see attention/schedule.cuh.
  RowRange count;  ///< Its rows that count.
};

/// What a row's O is multiplied by in the end, and its LSE; the sink is the row's last logit.
struct RowEnd {
  float factor;
  float lse;
};

/// Without branches: a thread's two rows then go side by side, and so do their latencies.
__device__ inline RowEnd end_row(float reference, float sum, float sink) {
  const float top = ptx::max(reference, sink);
  const float scale = ptx::exp2_approx(reference - top);
  const float all = ptx::fma(sum, scale, ptx::exp2_approx(sink - top));
  float inverse = ptx::reciprocal_approx(all);
  inverse = ptx::fma(inverse, ptx::fma(-all, inverse, 1.0f), inverse);
  const bool none = top == -kInfinity && sum == 0.0f;
  return {none ? 0.0f : scale * inverse, none ? -kInfinity : (top + ptx::log2_approx(all)) * kLn2};
}

/// The thread's row `half` (0 or 1) in its warpgroup's tile.
__device__ inline int row_of_thread(int half) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  return thread / kWarpThreads * kRowsPerWarp + thread % kWarpThreads / 4 + 8 * half;
}

/// Ends the thread's two rows.
template <ForwardConfig C>
__device__ inline void end_rows(const ForwardParams& p, const Part& part, const SoftmaxRows& rows,
                                RowEnd (&ends)[2]) {
  float sum[2], sink[2] = {-kInfinity, -kInfinity};
#pragma unroll
  for (int half = 0; half < 2; ++half) sum[half] = sum_of_row(rows.sum[half]);
  if (p.sink != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 head = head_of<C>(p, part.head, row_of_thread(half));
      sink[half] = load_scalar(p.sink_type, p.sink + head * p.sink_head) * kLog2E;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    ends[half] = end_row(rows.reference[half], sum[half], sink[half]);
  }
}

/// Whether a row counts that belongs to its sequence. Others become 0, with LSE -inf.
template <ForwardConfig C>
__device__ inline bool counts(const Part& part, i32 position) {
  return !C.varlen || (position >= part.count.first && position < part.count.end);
}

template <ForwardConfig C>
__device__ inline void store_lse(const ForwardParams& p, const Sequence& s, const Part& part,
                                 const RowEnd (&ends)[2]) {
  const int half = threadIdx.x % 4;  // of the four threads of two rows, two write one each
  if (p.lse == nullptr || half > 1) return;
  const int row = row_of_thread(half);
  const i32 position = position_of<C>(p, part.first, row);
  if (position >= (C.varlen ? s.q_rows : p.rows_q)) return;
  if (C.packed && row >= p.pack_rows * p.pack_heads) return;
  const i64 at = s.batch * p.lse_batch + head_of<C>(p, part.head, row) * p.lse_head +
                 ((C.varlen ? s.q_first : 0) + i64{position}) * p.lse_row;
  const float lse = half == 0 ? ends[0].lse : ends[1].lse;
  p.lse[at] = counts<C>(part, position) ? lse : -kInfinity;
}

/// Columns 64 * begin ... of a warp's sixteen rows of O, scaled, into shared memory.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void stage_rows(typename Shapes<C>::OTile& staged, int begin,
                                  const RowEnd (&ends)[2], const float (&output)[kOutputs]) {
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
  const int lane = threadIdx.x % kWarpThreads;
  const float low = ends[0].factor, high = ends[1].factor;
#pragma unroll
  for (int block = 0; block < 4 * staged.kPanels; ++block) {
    if (4 * begin + block >= C.dim_v / 16) break;
    const float* o = &output[8 * (4 * begin + block)];
    void* row = staged.piece(warp * kRowsPerWarp + lane % 16, 2 * block + lane / 16);
    ptx::store_matrix_x4(row, ptx::pack(Element{}, o[0] * low, o[1] * low),
                         ptx::pack(Element{}, o[2] * high, o[3] * high),
                         ptx::pack(Element{}, o[4] * low, o[5] * low),
                         ptx::pack(Element{}, o[6] * high, o[7] * high));
  }
}

/// Writes what is staged of a warp's rows one by one: rows of the sequence that do not count become
/// 0, rows beyond it belong to the next one.
template <ForwardConfig C>
__device__ inline void store_rows(const ForwardParams& p, const Sequence& s, const Part& part,
                                  typename Shapes<C>::OTile& staged, int begin) {
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
  const int lane = threadIdx.x % kWarpThreads;
  const int rows = C.packed ? p.pack_rows * p.pack_heads : kRowsPerWarpgroup;
  const int column = begin * kPanelCols + lane * 8;
  if (lane >= 8 * staged.kPanels || column >= p.dim_v) return;
  for (int row = warp * kRowsPerWarp; row < min_of(rows, (warp + 1) * kRowsPerWarp); ++row) {
    const i32 position = position_of<C>(p, part.first, row);
    if (position >= s.q_rows) break;
    u64x2 piece = {0, 0};
    if (counts<C>(part, position)) {
      piece = *reinterpret_cast<const u64x2*>(staged.piece(row, lane));
    }
    u16* out = static_cast<u16*>(p.out) + p.q_batched * s.batch * p.out_batch +
               (i64{s.q_first} + position) * p.out_row + head_of<C>(p, part.head, row) * p.out_head;
    *reinterpret_cast<u64x2*>(out + column) = piece;
  }
}

/// The same by the copy engine, where all of the warp's rows count. One thread.
template <ForwardConfig C>
__device__ inline void copy_rows(const ForwardParams& p, const Sequence& s, const Part& part,
                                 typename Shapes<C>::OTile& staged, int begin, i32 first) {
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
#pragma unroll
  for (int panel = 0; panel < staged.kPanels; ++panel) {
    if ((begin + panel) * kPanelCols >= C.dim_v) break;
    ptx::tma_store_5d(&p.o, staged.piece(warp * kRowsPerWarp, 8 * panel),
                      (begin + panel) * kPanelCols, 0, (C.varlen ? s.q_first : 0) + first,
                      part.head, p.q_batched * s.batch);
  }
  ptx::bulk_commit();
}

/// What becomes of a warpgroup's part of a tile: divides O by l and writes it, through shared
/// memory, and LSE. A warp writes its own rows: no warp waits for another.
template <class Element, ForwardConfig C, int kOutputs>
__device__ inline void finish(const ForwardParams& p, Shared<C>& shared, const Sequence& s,
                              const Part& part, const SoftmaxRows& rows,
                              const float (&output)[kOutputs], int warpgroup) {
  if (part.first < 0) return;
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpThreads;
  const bool leader = threadIdx.x % kWarpThreads == 0;
  RowEnd ends[2];
  end_rows<C>(p, part, rows, ends);
  const i32 box_rows = C.packed ? kRowsPerWarp * p.pack_inverse >> 16 : kRowsPerWarp;
  const i32 first = part.first + warp * box_rows;
  bool whole = !C.packed || box_rows * p.pack_heads == kRowsPerWarp;
  if (C.varlen) whole = whole && first >= part.count.first && first + box_rows <= part.count.end;
  auto& staged = shared.query[warpgroup].o;
#pragma unroll
  for (int begin = 0; begin < ceil_div(C.dim_v, kPanelCols); begin += staged.kPanels) {
    if (leader) ptx::bulk_wait_read();  // of what this warp has staged before
    __syncwarp();
    stage_rows<Element, C>(staged, begin, ends, output);
    ptx::fence_async_shared();
    __syncwarp();
    if (!whole) {
      store_rows<C>(p, s, part, staged, begin);
    } else if (leader) {
      copy_rows<C>(p, s, part, staged, begin, first);
    }
  }
  store_lse<C>(p, s, part, ends);
}

}  // namespace fa4::sm90
