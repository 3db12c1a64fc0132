// SPDX-License-Identifier: BSD-3-Clause
// Tensor memory: 128 lanes by 512 columns of 32-bit cells for each CTA, allocated by columns
// (PTX ISA 9.7.16.1, 9.7.16.7). An address is lane << 16 | column.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa4::emulator {

struct Cta;
class TensorLoad;
class TensorOp;

constexpr uint32_t kTensorLanes = 128;
constexpr uint32_t kTensorColumns = 512;
constexpr uint32_t kAllocationUnit = 32;  ///< Columns.

/// Lanes of one column, as bits.
struct LaneSet {
  std::array<uint64_t, 2> bits{};

  static LaneSet range(uint32_t first, uint32_t count);
  void add(const LaneSet& o) {
    for (size_t i = 0; i < 2; ++i) bits[i] |= o.bits[i];
  }
  void remove(const LaneSet& o) {
    for (size_t i = 0; i < 2; ++i) bits[i] &= ~o.bits[i];
  }
  bool contains(const LaneSet& o) const {
    return (o.bits[0] & ~bits[0]) == 0 && (o.bits[1] & ~bits[1]) == 0;
  }
  bool empty() const { return bits[0] == 0 && bits[1] == 0; }
  bool has(uint32_t lane) const { return (bits[lane / 64] >> (lane % 64) & 1) != 0; }
};

struct TensorAllocation {
  uint32_t column = 0;
  uint32_t columns = 0;
  bool given_back = false;  ///< cta_group::2: by this CTA, and not yet by its peer.
};

/// A warp that takes part in an allocation of a pair and waits for the other CTA's.
struct PairRequest {
  enum class State : uint8_t { kIdle, kWaiting, kGranted };
  State state = State::kIdle;
  uint32_t warp = 0;
  uint32_t columns = 0;
  uint32_t column = 0;  ///< Once granted.
};

/// Operations of the tensor core in flight, in the order in which they were issued: mma, cp, shift
/// and commit. A pair of CTAs has one pipe, its even CTA's.
struct TensorPipe {
  std::vector<TensorOp*> ops;
};

struct TensorMemory {
  TensorMemory();

  /// A column's 128 cells lie together: cells[column * kTensorLanes + lane].
  std::vector<uint32_t> cells;
  std::array<LaneSet, kTensorColumns> written{};
  std::vector<TensorAllocation> allocations;
  PairRequest request;
  TensorPipe pipe;
  uint32_t last_columns = kTensorColumns;  ///< Of the last allocation: later ones are no larger.
  uint32_t group = 0;                      ///< cta_group of the instructions so far; 0: none.
  bool relinquished = false;
  bool forgiving =
      false;  ///< Columns may be used once they are given back: they keep their values.
  std::vector<uint32_t> pending_stores;                 ///< tcgen05.st in flight, by warp.
  std::vector<std::vector<TensorLoad*>> pending_loads;  ///< tcgen05.ld, by warp.

  uint32_t* column(uint32_t c) { return cells.data() + size_t{c} * kTensorLanes; }
  bool is_allocated(uint32_t first, uint32_t count) const;
  /// The lowest free place for so many columns that is free in `other` as well, if that is given.
  std::optional<uint32_t> find_free(uint32_t columns, const TensorMemory* other = nullptr) const;
  void allocate(uint32_t first, uint32_t columns);
  void release(uint32_t first);
  TensorAllocation* find(uint32_t first);
  /// Throws Fault unless all of the columns are allocated.
  void check(uint32_t first, uint32_t count, const char* what) const;
  std::string describe_allocations() const;
};

/// The CTA's tensor memory, which comes into being at its first use.
TensorMemory& tensor_memory(Cta& cta);

/// The other CTA of the pair. Throws Fault if the cluster has none.
Cta& peer_of(Cta& cta);

/// Notes the cta_group of an instruction: a kernel uses one. Throws Fault at another.
void use_group(Cta& cta, uint32_t group);

/// When a CTA's last warp has exited: throws Fault if something was not deallocated.
void check_tensor_exit(Cta& cta);

}  // namespace fa4::emulator
