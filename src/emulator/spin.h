// SPDX-License-Identifier: BSD-3-Clause
// Warps that wait by looking at memory again and again: how it is known that they look in vain.
//
// A split that goes round a loop of instructions that change nothing, and comes back to the same
// registers and predicates, will do so for ever, unless what it reads is changed by somebody else.
// If all splits that can run are so, and nothing is in flight, the clusters of a worker are in a
// deadlock; of several workers, if that holds for all of them at once.
#pragma once

#include <cstdint>
#include <mutex>

namespace fa4::emulator {

/// The workers agree that none of them can go on. A worker that only looks at memory waits here;
/// whatever changes who waits begins a new round, and when all have found nothing new within one
/// round, that is a deadlock.
class SpinVote {
 public:
  void start(uint32_t workers) { running_ = workers; }
  /// A worker has no clusters left, or was never started.
  void leave() { change(&running_, -1); }
  void wait() { change(&waiting_, 1); }
  void go_on() { change(&waiting_, -1); }
  /// The round, if all wait: what is found from now on counts for it. Else 0.
  uint64_t round();
  /// A worker has found nothing new since it asked for the round. `mine`: the last round it has
  /// confirmed. True if all have.
  bool confirm(uint64_t round, uint64_t& mine);

 private:
  void change(uint32_t* count, int by);

  std::mutex mutex_;
  uint32_t running_ = 1;
  uint32_t waiting_ = 0;
  uint32_t confirmed_ = 0;
  uint64_t round_ = 1;
};

}  // namespace fa4::emulator
