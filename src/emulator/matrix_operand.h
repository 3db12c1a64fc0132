// SPDX-License-Identifier: BSD-3-Clause
// Matrix operands in shared memory, as wgmma and tcgen05.mma find them through a descriptor: PTX
// ISA 9.7.15.5.1, 9.7.16.3 to 9.7.16.5.
#pragma once

#include <cstdint>

#include "emulator/tensor_map.h"

namespace fa4::emulator {

struct Cluster;

/// A descriptor's fields, in bytes.
struct MatrixDescriptor {
  uint32_t start = 0;    ///< Offset in the CTA's shared memory.
  uint32_t leading = 0;  ///< Leading-dimension byte offset.
  uint32_t stride = 0;   ///< Stride-dimension byte offset.
  uint32_t base = 0;     ///< Base offset, 0 to 7.
  Swizzle swizzle = Swizzle::kOff;
};

/// wgmma's 64 bits: start 0-13, leading 16-29, stride 32-45 (16-byte units), base 49-51, swizzle
/// 62-63 (1: 128 bytes, 2: 64, 3: 32).
MatrixDescriptor decode_wgmma_descriptor(uint64_t bits);

enum class ElementType : uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kS8, kU8 };
constexpr uint32_t size_of(ElementType t) {
  return t == ElementType::kTF32 ? 4 : t <= ElementType::kBF16 ? 2 : 1;
}
/// Elements in the 32 bytes of K that one product takes.
constexpr uint32_t k_of(ElementType t) { return 32 / size_of(t); }

/// One element as a float: exact for all these types.
float element_value(const std::byte* at, ElementType type);

/// out[k * rows + row] = element (row, k) of an operand of `rows` (M or N, a multiple of 8) by
/// k_of(type), in the
/// shared memory of the CTA of that rank. `k_major`: rows of K lie together, else rows of M or N.
/// Throws Fault.
void fetch_operand(Cluster& cluster, uint32_t rank, const MatrixDescriptor& descriptor,
                   bool k_major, ElementType type, uint32_t rows, float* out);

}  // namespace fa4::emulator
