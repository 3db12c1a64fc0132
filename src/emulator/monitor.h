// SPDX-License-Identifier: BSD-3-Clause
// Hooks for checks. A worker without a monitor pays one comparison for a memory access or a
// synchronisation, and nothing for anything else; with one it steps through
// Worker::run_slice<true>.
#pragma once

#include <cstdint>

#include "emulator/memory.h"

namespace fa4::emulator {

struct Inst;
struct Warp;
struct Cta;
struct Cluster;
struct Mbarrier;
class AsyncOp;

/// What happens to an mbarrier.
enum class BarrierEvent : uint8_t { kInit, kInvalidate, kArrive, kComplete, kPhase };

/// Lanes of tensor memory that lie together, in some columns.
struct TensorBlock {
  uint32_t lane = 0;
  uint32_t lanes = 0;
  uint32_t column = 0;
  uint32_t columns = 0;
};

class Monitor {
 public:
  virtual ~Monitor() = default;

  virtual void cluster_begins(Cluster& cluster) = 0;
  virtual void cluster_ends(Cluster& cluster) = 0;
  /// The warp's last lane has exited; the CTA counts it no more.
  virtual void warp_ends(Warp& warp) = 0;

  /// Before an instruction, with the lanes that execute it. An instruction that waits comes again.
  virtual void before(Warp& warp, uint32_t pc, uint32_t lanes) = 0;
  /// After it. Not `done`: it waits.
  virtual void after(Warp& warp, uint32_t pc, uint32_t lanes, bool done) = 0;

  // Memory. Whose access it is: that of `lane` of the warp whose instruction runs, or of the
  // operation between op_begins() and op_ends().
  virtual void shared_access(Cta& cta, uint32_t offset, uint32_t bytes, Access access,
                             Proxy proxy) = 0;
  virtual void global_access(uint64_t address, uint64_t bytes, Access access) = 0;
  /// A lane uses the tensor map at an address for a copy; or its fence acquires it.
  virtual void tensor_map(uint64_t address, bool used) = 0;
  virtual void local_access(Warp& warp, uint64_t offset, uint32_t bytes, Access access) = 0;
  virtual void tensor_access(Cta& cta, const TensorBlock& block, Access access) = 0;

  // Asynchronous operations. `joined`: a warp has added its share.
  virtual void op_starts(AsyncOp& op) = 0;
  virtual void op_joined(AsyncOp& op) = 0;
  virtual void op_begins(AsyncOp& op) = 0;
  virtual void op_ends(AsyncOp& op) = 0;
  /// A tcgen05.ld has brought a register: lanes that hold something defined.
  virtual void tensor_loaded(Warp& warp, uint32_t slot, uint32_t defined) = 0;

  // Barriers.
  virtual void mbarrier(Cta& cta, const Mbarrier& barrier, BarrierEvent event) = 0;
  /// Lanes test for the parity: whether its phase is complete.
  virtual void mbarrier_test(Warp& warp, uint32_t address, uint32_t parity, uint32_t lanes,
                             bool complete) = 0;
  virtual void named_barrier_complete(Cta& cta, uint32_t number) = 0;
  virtual void cluster_barrier_complete(Cluster& cluster) = 0;
  /// Tensor memory columns are taken, or given back.
  virtual void tensor_allocation(Cta& cta, uint32_t column, uint32_t columns, bool taken) = 0;

  /// Of the access or arrival that comes next.
  uint32_t lane = 0;
  /// By pc: instructions that before() and after() need not be told of.
  const uint8_t* quiet = nullptr;
};

}  // namespace fa4::emulator
