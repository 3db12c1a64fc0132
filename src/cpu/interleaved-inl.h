// SPDX-License-Identifier: BSD-3-Clause
// Eight query rows a head against keys and values: the rows are the lanes of a vector, an element
// of the cache is broadcast to them. Neither sums across lanes nor transposed keys are needed, and
// each element of the cache is loaded once for all rows. Included once per target.
#include "hwy/highway.h"

#if defined(FA4_CPU_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FA4_CPU_INTERLEAVED_INL_H_
#undef FA4_CPU_INTERLEAVED_INL_H_
#else
#define FA4_CPU_INTERLEAVED_INL_H_
#endif

#include "cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::cpu {
namespace HWY_NAMESPACE {

// Of the targets with vectors of eight floats or more; elsewhere rows stay apart.
#undef FA4_INTERLEAVED
#define FA4_INTERLEAVED (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)

template <class T>
inline constexpr bool kInterleaves = FA4_INTERLEAVED && sizeof(T) == sizeof(float);

/// 16-bit elements would have to be converted for each broadcast, which takes longer than it saves.
template <class T>
bool interleaves(DType cache, int64_t rows) {
  return kInterleaves<T> && cache == DType::kFloat32 && rows == kInterleavedRows;
}

#if FA4_INTERLEAVED

using Eight = hn::CappedTag<float, kInterleavedRows>;

/// lanes[c * 8 + r] = rows[r * stride + c]
HWY_INLINE void rows_to_lanes(const float* HWY_RESTRICT rows, int64_t stride, int64_t cols,
                              float* HWY_RESTRICT lanes) {
  constexpr int64_t kRows = kInterleavedRows;
  int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    transpose_block(Eight(), rows + c, stride, lanes + c * kRows, kRows);
  }
  for (; c < cols; ++c) {
    for (int64_t r = 0; r < kRows; ++r) lanes[c * kRows + r] = rows[r * stride + c];
  }
}

/// rows[r * stride + c] = lanes[c * 8 + r]
HWY_INLINE void lanes_to_rows(const float* HWY_RESTRICT lanes, int64_t cols,
                              float* HWY_RESTRICT rows, int64_t stride) {
  constexpr int64_t kRows = kInterleavedRows;
  int64_t c = 0;
  for (; c + kRows <= cols; c += kRows) {
    transpose_block(Eight(), lanes + c * kRows, kRows, rows + c, stride);
    transpose_block(Eight(), lanes + c * kRows + 4, kRows, rows + 4 * stride + c, stride);
  }
  for (; c < cols; ++c) {
    for (int64_t r = 0; r < kRows; ++r) rows[r * stride + c] = lanes[c * kRows + r];
  }
}

/// Eight rows become the lanes of `cols` vectors, where they lie; or, `back`, rows again.
HWY_INLINE void interleave(float* values, int64_t stride, int64_t cols, bool back) {
  float copy[kInterleavedRows * kMaxHeadDim];
  if (back) {
    std::copy_n(values, kInterleavedRows * cols, copy);
    return lanes_to_rows(copy, cols, values, stride);
  }
  rows_to_lanes(values, stride, cols, copy);
  std::copy_n(copy, kInterleavedRows * cols, values);
}

/// Keys that a kernel takes at once, of as many streams: with the accumulators of two columns of
/// each and room for what comes and goes they fill 16 registers.
constexpr int kKeysAtOnce = kStreamsOfInterleaved;

/// s[j * s_step] = the products of eight rows q with key j.
template <int kKeys>
HWY_INLINE void dot_keys(const float* HWY_RESTRICT q, int64_t depth, CacheRows<float> keys,
                         float* HWY_RESTRICT s, int64_t s_step) {
  const Eight d;
  hn::Vec<Eight> even[kKeys], odd[kKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; ++j) even[j] = odd[j] = hn::Zero(d);
  int64_t c = 0;
#pragma GCC unroll 2
  for (; c + 2 <= depth; c += 2) {
    const auto q0 = hn::Load(d, q + c * kInterleavedRows);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      even[j] = hn::MulAdd(q0, hn::Set(d, keys.row(j)[c]), even[j]);
    }
    const auto q1 = hn::Load(d, q + (c + 1) * kInterleavedRows);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      odd[j] = hn::MulAdd(q1, hn::Set(d, keys.row(j)[c + 1]), odd[j]);
    }
  }
  if (c < depth) {
    const auto last = hn::Load(d, q + c * kInterleavedRows);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      even[j] = hn::MulAdd(last, hn::Set(d, keys.row(j)[c]), even[j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; ++j) hn::StoreU(hn::Add(even[j], odd[j]), d, s + j * s_step);
}

/// out += the sum of p[j * p_step] * value j, for eight rows: one chain in the order of the keys.
template <int kKeys>
HWY_INLINE void add_keys(const float* HWY_RESTRICT p, int64_t p_step, CacheRows<float> values,
                         int64_t cols, float* HWY_RESTRICT out) {
  const Eight d;
  hn::Vec<Eight> weight[kKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; ++j) weight[j] = hn::LoadU(d, p + j * p_step);
#pragma GCC unroll 4
  for (int64_t c = 0; c < cols; ++c) {
    auto sum = hn::Load(d, out + c * kInterleavedRows);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; ++j) {
      sum = hn::MulAdd(weight[j], hn::Set(d, values.row(j)[c]), sum);
    }
    hn::Store(sum, d, out + c * kInterleavedRows);
  }
}

/// Calls run(i, now, rows) for rows [i, i + now) of `count` of a cache: kKeysAtOnce at a time, then
/// one by one. Rows that are not contiguous are copied first.
template <class Run>
HWY_INLINE void with_rows(CacheRows<float> from, int64_t col_stride, int64_t count, int64_t cols,
                          const Run& run) {
  HWY_ALIGN float buffer[kKeysAtOnce * kMaxHeadDim];
  for (int64_t i = 0, now; i < count; i += now) {
    now = count - i < kKeysAtOnce ? 1 : kKeysAtOnce;
    CacheRows<float> rows{from.row(i), from.stride};
    if (col_stride != 1) {
      load_rows_from(rows.data, rows.stride, col_stride, now, cols, 1.0F, buffer, kMaxHeadDim);
      rows = {buffer, kMaxHeadDim};
    }
    run(i, now, rows);
  }
}

HWY_NOINLINE inline void dot_interleaved(const DotRows<float>& x) {
  const auto* k = static_cast<const float*>(x.k.first.data);
  constexpr int64_t kRows = kInterleavedRows;
  const int64_t step = decode_stream_step(kRows, x.k.keys, true), stride = x.k.first.row_stride;
  // The scores of a head lie interleaved in place of its rows at first.
  in_turns(x.k, step, [&](int64_t head, int64_t key, int64_t count) HWY_ATTR {
    const float* q = x.q + head * kRows * x.q_stride;
    float* s = x.s + head * kRows * x.s_stride + key * kRows;
    const CacheRows<float> keys{k + head * x.k.head_stride + key * stride, step * stride};
    const auto run = [&](int64_t i, int64_t now, CacheRows<float> rows) HWY_ATTR {
      float* to = s + i * step * kRows;
      if (now == 1) return dot_keys<1>(q, x.depth, rows, to, 0);
      dot_keys<kKeysAtOnce>(q, x.depth, rows, to, step * kRows);
    };
    with_rows(keys, x.k.first.col_stride, count, x.depth, run);
  });
  float copy[kRows * kMostInterleavedKeys];
  for (int64_t head = 0; head < x.k.heads; ++head) {
    float* s = x.s + head * kRows * x.s_stride;
    std::copy_n(s, kRows * x.k.keys, copy);
    lanes_to_rows(copy, x.k.keys, s, x.s_stride);
  }
}

HWY_NOINLINE inline void add_interleaved(const AddRows<float>& x) {
  const auto* v = static_cast<const float*>(x.v.first.data);
  constexpr int64_t kRows = kInterleavedRows;
  const int64_t step = decode_stream_step(kRows, x.v.keys, true), stride = x.v.first.row_stride;
  float* weights = x.scratch;
  for (int64_t head = 0; head < x.v.heads; ++head) {
    const float* p = x.p + head * kRows * x.p_stride;
    float* to = weights + head * x.v.keys * kRows;
    if (x.p_step == 1) {
      rows_to_lanes(p, x.p_stride, x.v.keys, to);
      continue;
    }
    for (int64_t j = 0; j < x.v.keys; ++j) {
      for (int64_t r = 0; r < kRows; ++r) to[j * kRows + r] = p[r * x.p_stride + j * x.p_step];
    }
  }
  in_turns(x.v, step, [&](int64_t head, int64_t key, int64_t count) HWY_ATTR {
    const float* p = weights + (head * x.v.keys + key) * kRows;
    float* out = x.out + head * kRows * x.out_stride;
    const CacheRows<float> values{v + head * x.v.head_stride + key * stride, step * stride};
    const auto run = [&](int64_t i, int64_t now, CacheRows<float> rows) HWY_ATTR {
      const float* from = p + i * step * kRows;
      if (now == 1) return add_keys<1>(from, 0, rows, x.cols, out);
      add_keys<kKeysAtOnce>(from, step * kRows, rows, x.cols, out);
    };
    with_rows(values, x.v.first.col_stride, count, x.cols, run);
  });
}

#endif  // FA4_INTERLEAVED

template <class T>
void arrange(Matrix from, int64_t rows, int64_t count, int64_t cols, T* values, int64_t stride,
             bool back) {
  using D = hn::ScalableTag<T>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  if constexpr (kInterleaves<T>) {
    if (interleaves<T>(from.dtype, rows)) {
      for (int64_t r = 0; r + rows <= count; r += rows) {
        interleave(values + r * stride, stride, cols, back);
      }
      return;
    }
  }
  if (!kPairsAreSplit<true, D, BFloat16> || rows >= kManyDecodeRows) return;
  if (from.dtype != DType::kBFloat16 || from.col_stride != 1) return;
  T pair[2 * hn::MaxLanes(D())];
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c + 2 * lanes <= cols; c += 2 * lanes) {
      T* at = values + r * stride + c;
      std::copy_n(at, 2 * lanes, pair);
      for (int64_t i = 0; i < 2 * lanes; ++i) {
        const int64_t arranged = i % 2 * lanes + i / 2;
        at[back ? i : arranged] = pair[back ? arranged : i];
      }
    }
  }
}

template <class T>
void dot_rows(const DotRows<T>& x) {
  if constexpr (kInterleaves<T>) {
    if (interleaves<T>(x.k.first.dtype, x.rows)) return dot_interleaved(x);
  }
  with_element_type(x.k.first.dtype, [&](auto* type) HWY_ATTR {
    const auto k = static_cast<decltype(type)>(x.k.first.data);
    if constexpr (kManyShapes<T>) {
      if (x.rows == 1) return dot_streams<8>(x, k);
      if (x.rows < kManyDecodeRows) return dot_streams<4>(x, k);
    }
    dot_streams<3>(x, k);
  });
}

template <class T>
void add_rows(const AddRows<T>& x) {
  if constexpr (kInterleaves<T>) {
    if (interleaves<T>(x.v.first.dtype, x.rows)) return add_interleaved(x);
  }
  with_element_type(x.v.first.dtype, [&](auto* type) HWY_ATTR {
    const auto v = static_cast<decltype(type)>(x.v.first.data);
    if constexpr (kManyShapes<T>) {
      if (x.rows == 1) return add_streams<8>(x, v);
      if (x.rows < kManyDecodeRows) return add_streams<4>(x, v);
    }
    add_streams<3>(x, v);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::cpu
HWY_AFTER_NAMESPACE();

#endif
