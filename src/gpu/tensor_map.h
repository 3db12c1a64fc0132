// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps: how the copy engine (TMA) sees a tensor.
#pragma once

#include <fa4/types.h>

#include <array>
#include <cstdint>

namespace fa4::gpu {

/// How 16-byte pieces of a box are permuted in shared memory: over rows of so many bytes.
enum class Swizzle { kNone, k32, k64, k128 };

/// A tensor, innermost dimension first, and the box of it that one copy moves. What lies outside
/// the tensor reads as 0 and is not written. Default: 4 dims, rows of 128 swizzled bytes.
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;

  const void* data = nullptr;  ///< Aligned to 16 bytes.
  DType dtype = DType::kBFloat16;
  int rank = 4;
  std::array<uint64_t, kMaxRank> dims{};         ///< Elements, 1 to 2^32.
  std::array<uint64_t, kMaxRank - 1> strides{};  ///< Bytes, of dims 1 and up: multiples of 16 below
                                                 ///< 2^40.
  std::array<uint32_t, kMaxRank> box{};          ///< Elements, 1 to 256.
  Swizzle swizzle = Swizzle::k128;

  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

/// The hardware's own 128 bytes (CUtensorMap): the same whoever encoded them.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> opaque{};
};

}  // namespace fa4::gpu
