// SPDX-License-Identifier: BSD-3-Clause
// tcgen05's shared-memory matrix descriptor (PTX ISA 9.7.16.3, 9.7.16.4.1): where the 16-byte
// chunks of a matrix lie, and what numbers they hold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fa4::emulator {

struct Cta;
struct TensorMemory;

/// Along which dimension neighbours in memory lie.
enum class MajorLayout : uint8_t { kK, kMN };

enum class SmemSwizzle : uint8_t { kPlain = 0, k128B32 = 1, k128B = 2, k64B = 4, k32B = 6 };

/// Types of A's and B's elements.
enum class TensorElement : uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kU8, kS8 };

constexpr uint32_t bits_of(TensorElement t) {
  switch (t) {
    case TensorElement::kF16:
    case TensorElement::kBF16:
      return 16;
    case TensorElement::kTF32:
      return 32;
    default:
      return 8;
  }
}

/// Bytes of one product's K extent, for every type.
constexpr uint32_t kDepthBytes = 32;
constexpr uint32_t kChunkBytes = 16;

struct TensorDescriptor {
  uint32_t start = 0;    ///< Offset in the CTA's shared memory.
  uint32_t leading = 0;  ///< Byte offsets.
  uint32_t stride = 0;
  SmemSwizzle swizzle = SmemSwizzle::kPlain;

  /// Throws Fault at what is reserved, invalid or not supported.
  static TensorDescriptor parse(uint64_t bits, const char* name);
  /// Offset of a chunk, swizzled. K-major: `line` is the row, `chunk` counts along K. MN-major:
  /// `line` is k, `chunk` counts along M or N.
  uint32_t offset(MajorLayout major, uint32_t line, uint32_t chunk) const;
  /// The chunk's bytes. Throws Fault if they are outside the CTA's shared memory.
  const std::byte* chunk(Cta& cta, MajorLayout major, uint32_t line, uint32_t chunk) const;
};

/// An operand as numbers: panel[k * stride + mn], for all k of one product.
struct Panel {
  float* values;
  size_t stride;
};

/// `rows` of them from shared memory.
void load_panel(const TensorDescriptor& matrix, Cta& cta, MajorLayout major, TensorElement type,
                uint32_t rows, const Panel& panel);
/// A from tensor memory, whose row m lies in lane first_lane + m. Throws Fault at cells that
/// nobody wrote.
void load_panel(const TensorMemory& memory, uint32_t column, uint32_t first_lane,
                TensorElement type, uint32_t rows, const Panel& panel);

}  // namespace fa4::emulator
