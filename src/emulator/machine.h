// SPDX-License-Identifier: BSD-3-Clause
// The machine's state: grid, workers, clusters, CTAs, warps. Plain structs; what happens to them is
// in warp.cpp (divergence), worker.cpp (schedule), memory.cpp (address spaces), async.cpp (what
// completes later) and in the handlers, exec_*.cpp.
//
// A worker is one host thread. It owns the clusters that it runs: nothing of theirs is touched by
// another. Workers share the grid, which they only read, and global memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/async.h"
#include "emulator/judge/rules.h"
#include "emulator/mbarrier.h"
#include "emulator/memory.h"
#include "emulator/options.h"
#include "emulator/program.h"
#include "emulator/spin.h"

namespace fa4::emulator {

struct Cluster;
struct Cta;
struct TensorMemory;
class Monitor;
class Worker;

/// A program did what it may not. Thrown by handlers; the worker adds who and where.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  Fault(Rule rule, const std::string& what)
      : std::runtime_error(std::string(text_of(rule).name) + ": " + what) {}
};

// ---- waiting -----------------------------------------------------------------------------------

enum class WaitKind : uint8_t {
  kNothing,
  kConverge,        ///< For the other lanes of the warp. value: the lanes that are wanted.
  kMbarrier,        ///< address: of the barrier. value: the parity awaited.
  kNamedBarrier,    ///< address: its number. value: its generation at arrival.
  kClusterBarrier,  ///< value: its generation at arrival.
  kBulkGroup,       ///< value: groups that may stay pending. address: 1 if .read.
  kCopyGroup,       ///< value: groups that may stay pending.
  kWgmma,           ///< value: groups that may stay pending.
  kTensorLoad,
  kTensorStore,
  kTensorAlloc,    ///< value: columns.
  kTensorDealloc,  ///< For the other CTA of the pair. value: columns.
  kRegisters,      ///< setmaxnreg. value: registers of a thread.
  kGridDependency,
};

struct Wait {
  WaitKind kind = WaitKind::kNothing;
  uint32_t value = 0;
  uint64_t address = 0;
};

// ---- warps -------------------------------------------------------------------------------------

/// Lanes of a warp that are at the same instruction.
struct Split {
  uint32_t pc = 0;
  uint32_t mask = 0;
  bool blocked = false;
  Wait wait;
};

/// Bulk copies of one thread in groups: what has not yet read its source, and not yet written.
struct BulkGroups {
  struct Group {
    uint32_t unread = 0;
    uint32_t unwritten = 0;
  };
  uint64_t first = 0;               ///< Number of the front group.
  std::deque<Group> groups = {{}};  ///< The last one is open.

  uint64_t open() const { return first + groups.size() - 1; }
  Group& at(uint64_t number) { return groups[number - first]; }
  /// Whether all committed groups but the youngest `pending` have read, or written.
  bool reached(uint32_t pending, bool read_only);
  /// Groups at the front that have read and written, but for the open one, are no more.
  void forget_done();
};

struct Warp {
  // The split that runs, or that would run next.
  std::byte* registers = nullptr;
  uint32_t* predicates = nullptr;
  const Inst* code = nullptr;
  uint32_t pc = 0;
  uint32_t mask = 0;  ///< Its lanes.
  /// Other splits wait at or behind this pc: from there on look at them. kNone if there are none.
  uint32_t meeting_pc = kNone;
  bool blocked = false;
  Wait wait;
  std::vector<Split> others;
  bool stays =
      false;  ///< The running split goes on as long as it can, be its pc the lowest or not.

  Cta* cta = nullptr;
  Worker* worker = nullptr;
  const Kernel* kernel = nullptr;
  uint32_t index = 0;        ///< In its CTA.
  uint32_t alive = 0;        ///< Lanes that have not exited.
  uint32_t born = 0;         ///< Lanes that there were.
  int32_t queue_place = -1;  ///< In the worker's list of runnable warps.
  uint64_t priority = 0;
  uint32_t turns = 0;

  std::vector<std::byte> local;  ///< [lane][local_bytes]
  WgmmaState wgmma;
  CopyGroups copies;
  std::array<std::unique_ptr<BulkGroups>, kLanes> bulk;
  uint32_t registers_owned = 0;      ///< Of a thread, for setmaxnreg.
  uint32_t cluster_arrival = kNone;  ///< Generation of the cluster barrier it has arrived at,
  uint32_t cluster_lanes = 0;        ///< and its lanes that have.
  std::array<uint64_t, kClasses> counts{};
  std::unique_ptr<std::byte[]> storage;  ///< Registers and predicates.
  void* watch = nullptr;                 ///< The monitor's.

  uint32_t lanes_of(PredicateRef p) const { return predicates[p >> 1] ^ (0u - (p & 1)); }
  /// A predicate's lanes of `lanes`; its others stay.
  void set_lanes(PredicateRef p, uint32_t value, uint32_t lanes) const {
    uint32_t& all = predicates[p >> 1];
    all = (all & ~lanes) | (value & lanes);
  }
  template <class T>
  T* reg(uint32_t slot) const {
    return reinterpret_cast<T*>(registers + slot);
  }
  /// Value of a register that must be the same in all lanes of `lanes`: of the lowest one.
  template <class T>
  T first(uint32_t slot, uint32_t lanes) const {
    return reg<T>(slot)[__builtin_ctz(lanes)];
  }
  const Kernel& program() const { return *kernel; }

  /// Blocks the running split, for a handler's `return warp.block({...})`.
  Step block(Wait w) {
    wait = w;
    return Step::kBlock;
  }
  Step pass() {
    wait = {};
    return Step::kNext;
  }

  // warp.cpp
  /// The running split's lanes of `taken` go to `target`, its others to pc + 1.
  Step branch(uint32_t target, uint32_t taken);
  /// Lanes end. False if the warp has no more.
  Step exit(uint32_t lanes);
  /// Merges splits at equal places, and chooses the one that runs: of those not blocked the one
  /// with the lowest pc, so that lanes meet again, unless one `stays`. `rotate`: any of them.
  void reschedule(std::optional<uint32_t> rotate = std::nullopt);
  /// The next of its splits becomes the running one; nothing else changes.
  void turn_splits();
  bool is_done() const { return alive == 0; }
  /// Whether lanes have arrived at the cluster barrier in the generation that has not ended.
  bool at_cluster_barrier(uint32_t lanes) const;
  bool can_run() const;
  /// Lets blocked splits whose wait is `kind` (and `address`, if given) try again.
  bool wake(WaitKind kind, std::optional<uint64_t> address);
};

// ---- CTAs, clusters ----------------------------------------------------------------------------

/// NamedBarrier::expected: all threads that have not exited.
constexpr uint32_t kEveryThread = 0xffffffff;

struct NamedBarrier {
  uint32_t expected = 0;  ///< Threads; 0 while nobody has come.
  uint32_t arrived = 0;
  uint32_t generation = 0;
  uint32_t reduced_and = 1, reduced_or = 0, reduced_count = 0;  ///< bar.red, being collected.
  uint32_t result_and = 0, result_or = 0, result_count = 0;     ///< Of the last generation.
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;  ///< In the cluster.
  std::array<uint32_t, 3> id{};
  std::vector<std::byte> shared;  ///< From offset 0; the first kSharedStart bytes are nobody's.
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, 16> barriers;
  MbarrierTable mbarriers;
  uint32_t live_warps = 0;
  uint32_t registers_free = 0;  ///< setmaxnreg's pool, in registers of a warp's threads each.
  std::vector<std::unique_ptr<WgmmaQueue>> wgmma;  ///< One for each warpgroup.
  std::unique_ptr<TensorMemory, void (*)(TensorMemory*)> tensor{nullptr, nullptr};
  void* watch = nullptr;  ///< The monitor's.

  /// 32-bit address of its shared memory's byte 0: the rank stands in bits 24 and up.
  uint32_t shared_base() const { return rank << 24; }
  void wake(WaitKind kind, std::optional<uint64_t> address = std::nullopt);
  uint32_t living_threads() const;
};

struct Cluster {
  Worker* worker = nullptr;
  uint64_t index = 0;  ///< In the grid, x fastest.
  std::array<uint32_t, 3> id{};
  std::vector<std::unique_ptr<Cta>> ctas;
  uint32_t live_warps = 0;
  uint32_t pending_ops = 0;      ///< Asynchronous operations in flight.
  uint32_t barrier_arrived = 0;  ///< Threads.
  uint32_t barrier_generation = 0;
  void* watch = nullptr;  ///< The monitor's.

  /// Threads that the cluster barrier waits for.
  uint32_t living_threads() const;
};

// ---- grid --------------------------------------------------------------------------------------

/// A launch, as its workers see it.
struct Grid {
  std::shared_ptr<const Kernel> kernel;
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> params;
  MemoryMap memory;  ///< Global memory and the module's variables.
  RunOptions options;

  uint64_t clusters = 1;
  std::atomic<uint64_t> next_cluster{0};
  std::atomic<bool> stop{false};
  std::mutex print_mutex;
  SpinVote vote;

  uint32_t block_threads() const { return threads[0] * threads[1] * threads[2]; }
  uint32_t block_warps() const { return (block_threads() + kLanes - 1) / kLanes; }
  uint32_t cluster_ctas() const { return cluster[0] * cluster[1] * cluster[2]; }
  uint32_t shared_bytes() const {
    return dynamic_shared == 0 ? kernel->static_shared_end
                               : kernel->dynamic_start() + dynamic_shared;
  }
};

}  // namespace fa4::emulator
