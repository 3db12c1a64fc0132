// SPDX-License-Identifier: BSD-3-Clause
// The 128 bytes that describe a tensor to the copy engine, in the hardware's own format: maps made
// by a driver, by a compiler's runtime or by encode_tensor_map() are read alike. The fields agree
// with those of an H200's driver (9,720 maps compared).
#pragma once

#include <fa4/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/program.h"

namespace fa4::emulator {

/// Element types by the hardware's number.
enum class MapType : uint8_t {
  kU8 = 0,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF32Flush,
  kF64,
  kBF16,
};
uint32_t size_of(MapType type);

/// By the driver's number. Within 128 bytes, pieces of 16, 32 or 64 bytes stay together.
enum class Swizzle : uint8_t { kOff = 0, k32, k64, k128, k128Atom32, k128Atom32Flip, k128Atom64 };
/// Bytes of a row of a box, at most.
constexpr uint32_t row_span(Swizzle s) {
  if (s == Swizzle::kOff) return 256 * 8;
  return s < Swizzle::k128 ? 16u << static_cast<int>(s) : 128;
}

struct TensorMapSpec {
  uint64_t address = 0;
  MapType type = MapType::kBF16;
  uint32_t rank = 1;
  std::array<uint64_t, 5> dims{1, 1, 1, 1, 1};     ///< Elements, innermost first.
  std::array<uint64_t, 5> strides{0, 0, 0, 0, 0};  ///< Bytes; of dimension 0 the element's size.
  std::array<uint32_t, 5> box{1, 1, 1, 1, 1};
  std::array<uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  Swizzle swizzle = Swizzle::kOff;
  bool nan_fill = false;
};

using TensorMapBytes = std::array<std::byte, 128>;

/// Refuses what cuTensorMapEncodeTiled refuses.
Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& spec);
/// Throws Fault if the bytes describe nothing that the emulator knows.
TensorMapSpec decode_tensor_map(std::span<const std::byte, 128> bytes);

/// What tensormap.replace changes, in PTX's order (9.7.9.28).
enum class TensorMapField : uint8_t {
  kGlobalAddress,
  kRank,
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElementType,  ///< From here on values are numbers of PTX's table.
  kInterleave,
  kSwizzle,
  kAtomicity,
  kFill,
};
constexpr bool is_of_dimension(TensorMapField f) {
  return f >= TensorMapField::kBoxDim && f <= TensorMapField::kElementStride;
}
/// The highest number that PTX's table has for the field.
constexpr uint32_t most_of(TensorMapField f) {
  constexpr uint32_t kMost[] = {15, 2, 4, 3, 1};
  return kMost[static_cast<int>(f) - static_cast<int>(TensorMapField::kElementType)];
}

/// Writes a field as ptxas's code does. `dimension`: of kGlobalStride, 0 is that of dimension 1.
/// Throws Fault at a value that the field cannot hold.
void replace_field(std::span<std::byte, 128> bytes, TensorMapField field, uint32_t dimension,
                   uint64_t value);

/// Address of a byte of a swizzled tile (PTX ISA 5.5.7): pieces change places by the number of the
/// 128-byte line that they lie in. The flip exchanges the halves of 16 bytes in every other line.
constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  constexpr uint32_t kMasks[] = {0, 1, 3, 7, 3, 3, 1}, kShifts[] = {4, 4, 4, 4, 5, 5, 6};
  const auto i = static_cast<size_t>(swizzle);
  const uint32_t line = address >> 7;
  const uint32_t flip = swizzle == Swizzle::k128Atom32Flip ? (line & 1) << 3 : 0;
  return address ^ ((line & kMasks[i]) << kShifts[i]) ^ flip;
}

}  // namespace fa4::emulator
