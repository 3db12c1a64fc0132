// SPDX-License-Identifier: BSD-3-Clause
// Work that completes later: copies and matrix products in flight. The worker's adversary decides
// when; an operation decides only what.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace fa4::emulator {

struct Cluster;

/// What a monitor keeps with an operation.
struct OpRecord {
  virtual ~OpRecord() = default;
};

/// One operation. Some take several steps, between which others may run (a copy reads its source
/// before it writes).
class AsyncOp {
 public:
  explicit AsyncOp(Cluster& owner, uint32_t site) : cluster(&owner), pc(site) {}
  virtual ~AsyncOp() = default;
  AsyncOp(const AsyncOp&) = delete;
  AsyncOp& operator=(const AsyncOp&) = delete;

  virtual bool ready() const { return true; }
  /// True if that was the last step.
  virtual bool step() = 0;

  Cluster* cluster;  ///< It outlives the operation.
  uint32_t pc;       ///< Of the instruction that started it.
  std::unique_ptr<OpRecord> record;
};

/// One step, the cluster's monitor looking on. True if that was the last.
bool run_step(AsyncOp& op);

/// Operations that complete in the order in which they were started.
struct AsyncQueue {
  std::deque<std::unique_ptr<AsyncOp>> ops;
};

/// All operations in flight of one worker.
class AsyncEngine {
 public:
  using Random = std::mt19937_64;

  /// Completes in any order with respect to all others.
  void start(std::unique_ptr<AsyncOp> op);
  /// Completes after those in the same queue.
  void start(AsyncQueue& queue, std::unique_ptr<AsyncOp> op);

  /// One step of one operation drawn among those that are ready. False if there is none.
  bool step(Random& random);
  bool empty() const { return free_.empty() && queues_.empty(); }

 private:
  void finish(const AsyncOp& op);

  std::vector<std::unique_ptr<AsyncOp>> free_;
  std::vector<AsyncQueue*> queues_;  ///< Those that are not empty.
};

/// Groups of operations that complete in order, as wgmma's and cp.async's do: counted, not listed.
struct OrderedGroups {
  uint64_t issued = 0;
  uint64_t done = 0;
  std::deque<uint64_t> ends;  ///< `issued` at each commit, oldest first.

  void commit() {
    while (!ends.empty() && ends.front() <= done) ends.pop_front();
    ends.push_back(issued);
  }
  /// Whether all but the youngest `pending` groups are done.
  bool reached(uint32_t pending) {
    while (ends.size() > pending) {
      if (done < ends.front()) return false;
      ends.pop_front();
    }
    return true;
  }
};

/// cp.async of a warp.
struct CopyGroups {
  AsyncQueue queue;
  OrderedGroups groups;
};

/// wgmma of a warp: its share of the warpgroup's products.
struct WgmmaState {
  OrderedGroups groups;
};

/// wgmma of a warpgroup, in order. A product is there once all four warps have issued it.
struct WgmmaQueue {
  AsyncQueue queue;
  uint64_t first = 0;  ///< Number of the oldest operation in the queue.
};

}  // namespace fa4::emulator
