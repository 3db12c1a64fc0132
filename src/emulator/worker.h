// SPDX-License-Identifier: BSD-3-Clause
// One host thread that runs clusters of a grid, and the adversary that chooses the order.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/counters/role_counts.h"
#include "emulator/judge/report.h"
#include "emulator/machine.h"
#include "emulator/residency.h"

namespace fa4::emulator {

/// What a worker saw.
struct Tally {
  uint64_t instructions = 0;  ///< Warp-instructions.
  std::array<uint64_t, kClasses> classes{};
  uint64_t matrix_flops = 0;
  uint64_t copied_bytes = 0;  ///< By bulk and tensor copies.
  double cpu_seconds = 0;     ///< Of the workers' threads.
  std::vector<Report> warnings;
  std::vector<RoleCounts> roles;  ///< With RunOptions::counters.

  void add(const Tally& other);
};

class Worker {
 public:
  Worker(Grid& grid, uint64_t seed, Monitor* monitor = nullptr);
  ~Worker();

  /// Runs clusters until the grid has none left. Throws Fault: what happened, where, to whom.
  void run();

  Grid& grid() { return grid_; }
  AsyncEngine& async() { return async_; }
  Monitor* monitor() { return monitor_; }
  Tally& tally() { return tally_; }
  std::mt19937_64& random() { return random_; }
  uint64_t executed() const { return executed_; }  ///< Instructions so far, about.

  /// resolve_global() with the last range remembered.
  std::byte* global_at(uint64_t address, uint32_t bytes, Access access) {
    if (range_ == nullptr || address < range_->begin || address >= range_->end ||
        bytes > range_->end - address || (access != Access::kRead && !range_->writable)) {
      resolve_global(grid_.memory, address, bytes, access);
      range_ = grid_.memory.find(address);
    }
    return reinterpret_cast<std::byte*>(address);
  }

  /// Starts an operation; with the earliest timing it is done when this returns.
  void start(std::unique_ptr<AsyncOp> op);
  void start(AsyncQueue& queue, std::unique_ptr<AsyncOp> op);
  /// Starts an operation of one step and completes it, whatever the timing.
  void run_now(AsyncOp& op);

  /// An operation in flight has become ready: with the earliest timing it is done now.
  void nudge() {
    if (grid_.options.timing == Timing::kEarliest) settle_async();
  }

  /// Memory has another value than before: atomic instructions say so, others need not.
  void changed() { changed_ = true; }

  /// Puts a warp that can run among those that will.
  void enqueue(Warp& warp);

 private:
  void refill();
  bool retire();
  Warp* choose();
  uint32_t slice();
  void turn(Warp& warp);
  void run_turn(Warp& warp, uint32_t budget);
  Step watched_step(Warp& warp, const Inst& inst, uint32_t lanes);
  template <bool kWatched>
  void run_slice(Warp& warp, uint32_t budget);
  void finish(Warp& warp);
  void dequeue(Warp& warp);
  bool step_async();
  void settle_async();
  std::string deadlock_report() const;
  // spin.cpp
  bool comes_round(Warp& warp);
  bool spins(Warp& warp);
  bool all_spin();
  /// Whether nothing will ever change, although warps can run: all of them wait by looking.
  bool is_deadlocked();

  Grid& grid_;
  Monitor* monitor_;
  std::mt19937_64 random_;
  AsyncEngine async_;
  Tally tally_;
  Pool pool_;
  const MemoryRange* range_ = nullptr;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Warp*> runnable_;
  uint64_t executed_ = 0;
  uint64_t progress_ = 0;  ///< `executed_` when a warp last began to wait, or an operation went on.
  bool changed_ = false;   ///< Memory, by an atomic instruction.
  uint64_t next_change_ = 0;  ///< kPriority: when the running warp drops to the lowest.
  uint64_t lowest_priority_ = 0;
  uint32_t async_rate_ = 1;  ///< kRandom: one step in so many turns.
};

/// ", in consume: softmax": the functions of the source that an instruction belongs to.
std::string functions_of(const Kernel& kernel, const Site& site);
/// "warp 3 of CTA (0, 0, 0), PTX line 123 (forward.cuh:45, in consume: softmax): bar.sync".
std::string place_of(const Warp& warp, uint32_t pc);
std::string describe(const Wait& wait);
/// What is awaited, as it stands: ", pending 3 of 4, 512 bytes to come"; empty if nothing is known.
std::string state_of(const Cta& cta, const Wait& wait);

}  // namespace fa4::emulator
