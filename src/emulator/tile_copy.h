// SPDX-License-Identifier: BSD-3-Clause
// Boxes of a tensor between global and shared memory, as the copy engine moves them: PTX ISA 5.5,
// 9.7.9.27.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/memory.h"
#include "emulator/tensor_map.h"

namespace fa4::emulator {

struct Cluster;
class Monitor;

using Coordinates = std::array<int32_t, 5>;

enum class ReduceKind : uint8_t {
  kReplace,
  kAdd,
  kMin,
  kMax,
  kIncrement,
  kDecrement,
  kAnd,
  kOr,
  kXor
};

/// Bytes of a box in shared memory. Copies count all of them, those outside the tensor too.
uint32_t box_bytes(const TensorMapSpec& map);

/// The box at the coordinates, dense and unswizzled. What lies outside the tensor is filled.
std::vector<std::byte> read_box(const MemoryMap& memory, const TensorMapSpec& map,
                                const Coordinates& at, Monitor* monitor = nullptr);
/// Writes the part inside the tensor, or combines it with what is there: whole pieces of 16 bytes,
/// as an H200 does, those in which the tensor's rows end to their end.
void write_box(const MemoryMap& memory, const TensorMapSpec& map, const Coordinates& at,
               const std::vector<std::byte>& box, ReduceKind reduce, Monitor* monitor = nullptr);

/// A dense box to and from its swizzled place at a shared::cluster address.
void box_to_shared(Cluster& cluster, uint32_t address, const TensorMapSpec& map,
                   const std::vector<std::byte>& box);
std::vector<std::byte> box_from_shared(Cluster& cluster, uint32_t address,
                                       const TensorMapSpec& map);

/// to[i] = to[i] op from[i] of the elements in `bytes` bytes.
void reduce_bytes(std::byte* to, const std::byte* from, size_t bytes, MapType type,
                  ReduceKind kind);

}  // namespace fa4::emulator
