// SPDX-License-Identifier: BSD-3-Clause
// Tiles of 16-bit elements in shared memory, as the copy engine writes them and wgmma reads them.
//
// A tile of kRows x kCols is cut into panels of 64 columns. A panel's row is 128 bytes; its eight
// 16-byte pieces are permuted by piece ^ (row % 8), the 128-byte swizzle, so that reading down a
// column meets every bank. Panels follow each other; each begins at a multiple of 1024 bytes.
#pragma once

#include "ptx/types.cuh"

namespace fa4 {

constexpr int kPanelCols = 64;

template <int kRowCount, int kColCount>
struct alignas(1024) SharedTile {
  static constexpr int kRows = kRowCount;
  static constexpr int kCols = kColCount;
  static constexpr int kPanels = ceil_div(kCols, kPanelCols);
  static constexpr int kPanelElements = kRows * kPanelCols;
  static constexpr int kBytes = kPanels * kPanelElements * 2;
  static_assert(kRows % 8 == 0);

  u16 elements[kPanels * kPanelElements];

  __device__ u16* panel(int index) { return elements + index * kPanelElements; }

  /// The 16-byte piece that holds columns 8 * piece ... of a row.
  __device__ u16* piece(int row, int piece_index) {
    const int in_panel = piece_index % 8;
    return panel(piece_index / 8) + row * kPanelCols + (in_panel ^ (row % 8)) * 8;
  }
};

// A wgmma matrix descriptor (PTX ISA 9.7.15.5.1.2.2), fields in units of 16 bytes:
//   bits  0-13  address of the first element
//   bits 16-29  leading offset:  MN-major: from one panel of 64 MN elements to the next
//   bits 32-45  stride offset:   from one group of 8 rows to the next
//   bits 62-63  swizzle: 1 = 128 bytes
__device__ constexpr u64 descriptor_field(u32 bytes) { return (bytes & 0x3ffff) >> 4; }

/// Describes a tile whose rows run along K (wgmma's "K-major"): Q and K of S = Q K^T.
template <class Tile>
__device__ inline u64 descriptor_k_major(const Tile& tile) {
  return descriptor_field(shared_address(&tile)) | (u64{1} << 16) |
         (descriptor_field(8 * 128) << 32) | (u64{1} << 62);
}

/// Bytes to add (as a descriptor_field) for columns 16 * step ... of a K-major tile.
template <class Tile>
__device__ constexpr u64 step_k_major(int step) {
  const int panel = step / 4;
  return descriptor_field(panel * Tile::kPanelElements * 2 + (step % 4) * 32);
}

/// Describes a tile whose rows run along N ("MN-major"): V of O = P V, one row a key.
template <class Tile>
__device__ inline u64 descriptor_mn_major(const Tile& tile) {
  return descriptor_field(shared_address(&tile)) |
         (descriptor_field(Tile::kPanelElements * 2) << 16) | (descriptor_field(8 * 128) << 32) |
         (u64{1} << 62);
}

/// Bytes to add for rows 16 * step ... of an MN-major tile.
__device__ constexpr u64 step_mn_major(int step) { return descriptor_field(step * 16 * 128); }

}  // namespace fa4
