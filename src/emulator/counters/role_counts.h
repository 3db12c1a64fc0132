// SPDX-License-Identifier: BSD-3-Clause
// What the warps of a role did: the numbers that a model of a chip's units wants.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/program.h"

namespace fa4::emulator {

struct Counts {
  uint64_t instructions = 0;         ///< Of warps.
  uint64_t thread_instructions = 0;  ///< Of their lanes that took part.
  std::array<uint64_t, kClasses> classes{};
  uint64_t fma = 0;           ///< Fused ones among `classes[kFloat]`; those of pairs count twice.
  uint64_t special = 0;       ///< Results of ex2, lg2, rcp, rsqrt, sin, cos, tanh, sqrt: lanes.
  uint64_t matrix_flops = 0;  ///< Of wgmma, mma and tcgen05.mma.
  uint64_t copied_bytes = 0;  ///< By bulk and tensor copies.
  // Bytes that instructions touch, lane by lane.
  uint64_t shared_read = 0, shared_written = 0;
  uint64_t global_read = 0, global_written = 0;
  // Bytes that operations touch which the role started: copies, products, tcgen05.ld and st.
  uint64_t async_shared_read = 0, async_shared_written = 0;
  uint64_t tensor_read = 0, tensor_written = 0;
  uint64_t waits = 0;    ///< Waits at mbarriers, named and cluster barriers that ended.
  uint64_t blocked = 0;  ///< Of those, how many had to wait. Depends on the schedule.

  void add(const Counts& o);
};

/// A function of the kernel's source that some of a block's warps execute, or a range of warps.
struct RoleCounts {
  std::string name;
  uint64_t warps = 0;  ///< Indexes of warps in their CTA, as bits.
  Counts counts;
};

/// Adds roles to those of the same name.
void add_roles(std::vector<RoleCounts>& all, const std::vector<RoleCounts>& more);

/// Names and values, in the order in which they are shown. The classes are not among them.
struct NamedCount {
  const char* name;  ///< For programs: "shared_read".
  const char* text;  ///< For people.
  uint64_t Counts::*value;
};
const std::vector<NamedCount>& named_counts();

}  // namespace fa4::emulator
