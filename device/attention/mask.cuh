// SPDX-License-Identifier: BSD-3-Clause
// Masks that are bands: row i sees keys [i + diagonal - left, i + diagonal + right], cut to the
// keys that count. Causal is right = 0.
#pragma once

#include "ptx/types.cuh"

namespace fa4 {

struct KeyRange {
  i32 begin;
  i32 end;
};

/// The band as a kernel knows it; an absent side costs nothing. kStart: the keys that count may
/// begin after key 0.
template <bool kLeft, bool kRight, bool kStart>
struct Band {
  static constexpr bool kBegins = kLeft || kStart;

  KeyRange keys;  ///< Keys that count.
  i32 diagonal;
  i32 left;
  i32 right;

  __device__ i32 begin_of(i32 row) const {
    const i32 first = kStart ? keys.begin : 0;
    return kLeft ? max_of(first, row + diagonal - left) : first;
  }
  __device__ i32 end_of(i32 row) const {
    return kRight ? min_of(keys.end, row + diagonal + right + 1) : keys.end;
  }
  /// Keys that some row of [first, last] sees; may be empty.
  __device__ KeyRange seen_by_any(i32 first, i32 last) const {
    return {begin_of(first), max_of(0, end_of(last))};
  }
  /// Keys that every row of [first, last] sees; may be empty.
  __device__ KeyRange seen_by_all(i32 first, i32 last) const {
    return {begin_of(last), max_of(0, end_of(first))};
  }
};

/// Puts `hidden` where a row may not see a key. `scores` is a 64 x N product's registers; the
/// thread's two rows stand at `rows` of their sequence, its first column at `key`.
template <int kCount, class BandType>
__device__ inline void apply_band(float (&scores)[kCount], const BandType& band,
                                  const i32 (&rows)[2], i32 key, float hidden) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i32 begin = band.begin_of(rows[half]) - key;
    const i32 end = band.end_of(rows[half]) - key;
#pragma unroll
    for (int block = 0; block < kCount / 4; ++block) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int column = 8 * block + odd;
        float& score = scores[4 * block + 2 * half + odd];
        const bool seen = (!BandType::kBegins || column >= begin) && column < end;
        score = seen ? score : hidden;
      }
    }
  }
}

}  // namespace fa4
