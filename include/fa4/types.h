// SPDX-License-Identifier: BSD-3-Clause
// Element types, tensor views and the enums of attention.
#pragma once

#include <fa4/device.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace fa4 {

enum class DType : int {
  kFloat32 = 0,
  kFloat64 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kBool = 6,  ///< One byte; 0 is false, anything else true.
};

/// "float32", "bfloat16", ...
const char* to_string(DType dtype);
/// Bytes of one element.
int64_t size_of(DType dtype);

/// bfloat16 and IEEE half as bits. Conversion from float rounds to nearest even; what is too large
/// becomes infinity; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
};
struct Float16 {
  uint16_t bits = 0;
};
float to_float(BFloat16 x);
float to_float(Float16 x);
BFloat16 to_bfloat16(float x);
Float16 to_float16(float x);

// Tells GCC that a view does not read what it points to: outputs need no value before the call.
#if defined(__GNUC__) && !defined(__clang__)
#define FA4_POINTER_IS_NOT_READ [[gnu::access(none, 1)]]
#else
#define FA4_POINTER_IS_NOT_READ
#endif

/// A view of a tensor: it owns nothing. Strides count elements; 0 broadcasts, negative ones are an
/// error. A default Tensor (rank 0) means "absent".
struct Tensor {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};
  Device device{};

  bool present() const { return rank != 0; }

  /// Row-major view of `dims`. Inputs may be given as pointers to const: they are never written.
  FA4_POINTER_IS_NOT_READ static Tensor contiguous(const void* data, DType dtype,
                                                   std::span<const int64_t> dims,
                                                   Device device = {});
  FA4_POINTER_IS_NOT_READ static Tensor contiguous(const void* data, DType dtype,
                                                   std::initializer_list<int64_t> dims,
                                                   Device device = {}) {
    return contiguous(data, dtype, std::span(dims.begin(), dims.size()), device);
  }
  /// View with explicit strides, in elements, one for each dim; with more or fewer of them every
  /// stride becomes -1, which calls refuse.
  FA4_POINTER_IS_NOT_READ static Tensor strided(const void* data, DType dtype,
                                                std::span<const int64_t> dims,
                                                std::span<const int64_t> strides,
                                                Device device = {});
  FA4_POINTER_IS_NOT_READ static Tensor strided(const void* data, DType dtype,
                                                std::initializer_list<int64_t> dims,
                                                std::initializer_list<int64_t> strides,
                                                Device device = {}) {
    return strided(data, dtype, std::span(dims.begin(), dims.size()),
                   std::span(strides.begin(), strides.size()), device);
  }
};

/// Where the causal triangle stands when there are more keys than queries, or fewer.
enum class Causal : int {
  kNone = 0,
  kBottomRight =
      1,  ///< The last query sees the last key (FlashAttention >= 2.1, Python's causal=True).
  kTopLeft = 2,  ///< The first query sees the first key (torch's is_causal=True).
};

/// Keys from `left` before to `right` after the diagonal, both inclusive; absent = no limit. A
/// window of W tokens that end at the query is left = W - 1, right = 0. The diagonal is causal's:
/// bottom-right unless Causal::kTopLeft is asked for.
struct Window {
  std::optional<int64_t> left{};
  std::optional<int64_t> right{};
};

}  // namespace fa4
