// SPDX-License-Identifier: BSD-3-Clause
// Operands of tensor-core products in shared memory: the canonical layouts of PTX ISA 9.7.16.3.3
// and their descriptors, worked out here and not with the emulator's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa4::emulator::test {

enum class Element : uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kU8, kS8 };
enum class Swizzle : uint8_t { kNone, k32B, k64B, k128B, k128BBy32 };

uint32_t bytes_of(Element e);
const char* name_of(Element e);
const char* name_of(Swizzle s);
/// Bits of a small whole number. (Of tf32 the bits that must not matter are set.)
uint32_t encode(Element e, int x);

/// An operand's values: rows of A, or of B's transpose.
struct Matrix {
  uint32_t rows = 0, depth = 0;
  std::vector<int> values;
  int& at(uint32_t row, uint32_t k) { return values[std::size_t{row} * depth + k]; }
  int at(uint32_t row, uint32_t k) const { return values[std::size_t{row} * depth + k]; }
};
/// Small numbers that the type holds exactly.
Matrix make_matrix(uint32_t rows, uint32_t depth, Element e, uint32_t seed);

/// Where one CTA's rows lie in its shared memory, from an address that is a multiple of 1024.
struct SharedLayout {
  uint32_t rows = 0, depth = 0;
  uint32_t size = 2;  ///< Of an element, in bytes.
  bool mn_major = false;
  Swizzle swizzle = Swizzle::kNone;

  uint32_t bytes() const { return rows * depth * size; }
  uint32_t offset_of(uint32_t row, uint32_t k) const;
  /// The descriptor of the product `step`, 32 bytes of K each; the matrix begins at address 0.
  uint64_t descriptor(uint32_t step) const;
};
/// The layout's bytes, with rows from first_row on.
std::vector<uint8_t> image_of(const Matrix& m, uint32_t first_row, const SharedLayout& layout,
                              Element e);

}  // namespace fa4::emulator::test
