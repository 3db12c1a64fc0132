// SPDX-License-Identifier: BSD-3-Clause
// The order of the backward pass.
//
// A unit is a sequence and a key head with its group of query heads. Its query rows (of all heads
// of the group, one head after the other) and its keys are cut into chunks. A task is one pair of
// chunks: it adds to dq of its query chunk and to dk, dv of its key chunk. Tasks are claimed in one
// fixed order; those that share a chunk run one after the other in that order, so every sum is made
// in the same order by any number of threads, with no atomic adds and no partial copies.
//
// The order goes around the square of pairs diagonal by diagonal, so that neighbours in it share no
// chunk and can run at once:
//
//        key chunks            step 0: the pairs marked 0, step 1: those marked 1, ...
//    q   0 3 2 1
//        1 0 3 2               Pairs that causal or a window leaves empty are left out.
//        2 1 0 3
//        3 2 1 0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/problem.h"
#include "core/sequence.h"

namespace fa4::cpu {

/// Rows of a query chunk, keys of a key chunk.
struct ChunkSizes {
  int64_t q = 0;
  int64_t k = 0;
};

/// A unit, resolved: which rows and keys take part. Rows that see no key and keys that no row may
/// see are outside.
struct BackwardUnit {
  core::Sequence sequence;
  int64_t head_k = 0;
  core::Range rows;
  core::Range keys;
  int64_t q_chunks_per_head = 0;
  int64_t q_chunks = 0;
  int64_t k_chunks = 0;
  int64_t first_diagonal = 0;  ///< The key chunk that query chunk 0 begins with.

  int64_t head_of_chunk(int64_t q_chunk) const { return q_chunk / q_chunks_per_head; }
  core::Range rows_of_chunk(int64_t q_chunk, ChunkSizes sizes) const;
  core::Range keys_of_chunk(int64_t k_chunk, ChunkSizes sizes) const;
};

/// Rows of `sequence` that see a key, and keys that a row sees.
core::Range visible_rows(const core::Sequence& sequence);
core::Range visible_keys(const core::Sequence& sequence);

/// Progress of one chunk of a unit in flight.
struct ChunkState {
  int64_t first = 0;  ///< Partners of a query chunk: the key chunks [first, end).
  int64_t end = 0;
  uint32_t total = 0;             ///< Tasks that touch the chunk,
  uint32_t claimed = 0;           ///< claimed so far (guarded by the schedule's mutex),
  std::atomic<uint32_t> done{0};  ///< finished so far.
};

/// A unit in flight. The chunk states are arrays in the workspace.
struct UnitState {
  ChunkState* q_chunks = nullptr;
  ChunkState* k_chunks = nullptr;
  BackwardUnit unit;
  uint32_t total = 0;             ///< Key chunks that have tasks,
  std::atomic<uint32_t> done{0};  ///< and those whose tasks have all finished.
};

struct BackwardTask {
  UnitState* state = nullptr;
  int64_t slot = 0;
  int64_t q_chunk = 0;
  int64_t k_chunk = 0;
  uint32_t q_turn = 0;  ///< The task's number among those of its query chunk,
  uint32_t k_turn = 0;  ///< and among those of its key chunk.

  bool first_of_q() const { return q_turn == 0; }
  bool first_of_k() const { return k_turn == 0; }
  bool last_of_q() const { return q_turn + 1 == state->q_chunks[q_chunk].total; }
  bool last_of_k() const { return k_turn + 1 == state->k_chunks[k_chunk].total; }
};

/// Hands out the tasks of all units. Thread-safe; allocates nothing.
class BackwardSchedule {
 public:
  /// `order` names the sequences in the order in which they run. `slots` are `slot_count` unit
  /// states, each with room for the chunks of the longest sequence.
  BackwardSchedule(const core::Problem& problem, const AttentionTensors& tensors, ChunkSizes sizes,
                   const int64_t* order, UnitState* const* slots, int64_t slot_count)
      : problem_(problem),
        tensors_(tensors),
        sizes_(sizes),
        order_(order),
        slots_(slots),
        slot_count_(slot_count) {}

  /// The next task, or false if there is none left. May wait for a unit's scratch to become free.
  bool claim(BackwardTask& task);
  /// Waits until the tasks before this one that share a chunk with it have finished. Those were
  /// claimed earlier, so some worker is running them.
  static void wait_for_turn(const BackwardTask& task);
  static void finish(const BackwardTask& task);

 private:
  bool next_unit();
  void begin_unit(UnitState& state, int64_t unit_index);
  bool next_pair(int64_t& q_chunk, int64_t& k_chunk);

  const core::Problem& problem_;
  const AttentionTensors& tensors_;
  const ChunkSizes sizes_;
  const int64_t* const order_;
  UnitState* const* const slots_;
  const int64_t slot_count_;

  std::mutex mutex_;  // guards what follows, and ChunkState::claimed
  UnitState* current_ = nullptr;
  int64_t units_begun_ = 0;
  int64_t step_ = 0;
  int64_t next_q_chunk_ = 0;
};

}  // namespace fa4::cpu
