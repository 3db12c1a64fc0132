// SPDX-License-Identifier: BSD-3-Clause
// Brings clusters into being: their CTAs, shared memory, warps and what registers hold at first.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "emulator/machine.h"

namespace fa4::emulator {

class Pool {
 public:
  std::unique_ptr<Cluster> make_cluster(Worker& worker, uint64_t index);
  /// A finished cluster, whose memory the next ones use.
  void take_back(Cluster& cluster);

 private:
  std::unique_ptr<Cta> make_cta(Worker& worker, Cluster& cluster, uint32_t rank);
  std::unique_ptr<Warp> make_warp(Worker& worker, Cta& cta, uint32_t index);

  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

/// Lanes have left: barriers that waited for them alone are complete.
void barrier_lost_lanes(Cta& cta);

}  // namespace fa4::emulator
