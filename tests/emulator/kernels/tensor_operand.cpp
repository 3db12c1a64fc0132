// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/kernels/tensor_operand.h"

#include <bit>
#include <cstring>

namespace fa4::emulator::test {
namespace {

/// Bytes of an atom's line, and its lines: 8, but 4 for the swizzle that moves 32 bytes.
struct Atom {
  uint32_t span;
  uint32_t lines;
  uint32_t bytes() const { return span * lines; }
};

Atom atom_of(const SharedLayout& l) {
  switch (l.swizzle) {
    case Swizzle::kNone:
      return {16, 8};
    case Swizzle::k32B:
      return {32, 8};
    case Swizzle::k64B:
      return {64, 8};
    case Swizzle::k128B:
      return {128, 8};
    case Swizzle::k128BBy32:
      return {128, l.mn_major ? 4u : 8u};
  }
  return {16, 8};
}

/// Atoms follow each other across first: bytes from an atom to its neighbour along the lines.
uint32_t along_stride(const SharedLayout& l) {
  const Atom atom = atom_of(l);
  return (l.mn_major ? l.depth : l.rows) / atom.lines * atom.bytes();
}

/// `along` in bytes, `across` in lines.
uint32_t offset(const SharedLayout& l, uint32_t along, uint32_t across) {
  const Atom atom = atom_of(l);
  const uint32_t line = across % atom.lines;
  uint32_t unit = along % atom.span / 16;
  switch (l.swizzle) {
    case Swizzle::kNone:
      break;
    case Swizzle::k32B:
      unit ^= line / 4 % 2;
      break;
    case Swizzle::k64B:
      unit ^= line / 2 % 4;
      break;
    case Swizzle::k128B:
      unit ^= line;
      break;
    case Swizzle::k128BBy32:
      unit ^= line % 4 * 2;
      break;
  }
  return along / atom.span * along_stride(l) + across / atom.lines * atom.bytes() +
         line * atom.span + unit * 16 + along % 16;
}

}  // namespace

uint32_t bytes_of(Element e) {
  switch (e) {
    case Element::kF16:
    case Element::kBF16:
      return 2;
    case Element::kTF32:
      return 4;
    default:
      return 1;
  }
}

const char* name_of(Element e) {
  constexpr const char* kNames[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8"};
  return kNames[static_cast<int>(e)];
}

const char* name_of(Swizzle s) {
  constexpr const char* kNames[] = {"plain", "32B", "64B", "128B", "128Bby32"};
  return kNames[static_cast<int>(s)];
}

uint32_t encode(Element e, int x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  const auto small = [&](int exponent_bits, int mantissa_bits) {
    if (x == 0) return 0u;
    const int exponent = static_cast<int>(bits >> 23 & 255) - 127;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    return bits >> 31 << (exponent_bits + mantissa_bits) |
           static_cast<uint32_t>(exponent + bias) << mantissa_bits |
           (bits & 0x7fffff) >> (23 - mantissa_bits);
  };
  switch (e) {
    case Element::kF16:
      return small(5, 10);
    case Element::kBF16:
      return bits >> 16;
    case Element::kTF32:
      return bits | 0x1fff;
    case Element::kE4M3:
      return small(4, 3);
    case Element::kE5M2:
      return small(5, 2);
    default:
      return static_cast<uint32_t>(x) & 0xff;
  }
}

Matrix make_matrix(uint32_t rows, uint32_t depth, Element e, uint32_t seed) {
  Matrix m{rows, depth, std::vector<int>(size_t{rows} * depth)};
  uint32_t state = seed * 2654435761u + 1;
  for (int& x : m.values) {
    state = state * 1664525u + 1013904223u;
    const int draw = static_cast<int>(state >> 24);
    switch (e) {
      case Element::kU8:
        x = draw;
        break;
      case Element::kS8:
        x = draw - 128;
        break;
      case Element::kE5M2:
        x = draw % 9 - 4;
        break;
      default:
        x = draw % 17 - 8;
        break;
    }
  }
  return m;
}

uint32_t SharedLayout::offset_of(uint32_t row, uint32_t k) const {
  return mn_major ? offset(*this, row * size, k) : offset(*this, k * size, row);
}

uint64_t SharedLayout::descriptor(uint32_t step) const {
  const Atom atom = atom_of(*this);
  const uint32_t first_byte = 32 * step;
  uint32_t start = 0;
  if (mn_major) {
    start = first_byte / size / atom.lines * atom.bytes();
  } else {
    start = first_byte / atom.span * along_stride(*this) + first_byte % atom.span;
  }
  uint32_t leading = along_stride(*this), stride = atom.bytes();
  // MN-major without a swizzle, the two change names; K-major with one, the first is not used.
  if (mn_major && swizzle == Swizzle::kNone) std::swap(leading, stride);
  if (!mn_major && swizzle != Swizzle::kNone) leading = 16;
  constexpr uint64_t kModes[] = {0, 6, 4, 2, 1};
  return start >> 4 | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         uint64_t{1} << 46 | kModes[static_cast<int>(swizzle)] << 61;
}

std::vector<uint8_t> image_of(const Matrix& m, uint32_t first_row, const SharedLayout& layout,
                              Element e) {
  std::vector<uint8_t> bytes(layout.bytes());
  for (uint32_t row = 0; row < layout.rows; ++row) {
    for (uint32_t k = 0; k < layout.depth; ++k) {
      const uint32_t bits = encode(e, m.at(first_row + row, k));
      // .at(): a matrix narrower than its swizzle has places beyond its bytes.
      std::memcpy(&bytes.at(layout.offset_of(row, k) + layout.size - 1) - (layout.size - 1), &bits,
                  layout.size);
    }
  }
  return bytes;
}

}  // namespace fa4::emulator::test
