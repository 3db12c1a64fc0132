// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward_schedule.h"

#include <algorithm>
#include <new>

namespace fa4::cpu {
namespace {

using core::Range;

int64_t chunk_count(Range range, int64_t size) { return (range.size() + size - 1) / size; }

Range chunk_range(Range whole, int64_t chunk, int64_t size) {
  const int64_t begin = whole.begin + chunk * size;
  return {begin, std::min(begin + size, whole.end)};
}

BackwardUnit make_unit(const core::Sequence& sequence, int64_t head_k, int64_t group,
                       ChunkSizes sizes) {
  BackwardUnit unit;
  unit.sequence = sequence;
  unit.head_k = head_k;
  unit.rows = visible_rows(sequence);
  unit.keys = visible_keys(sequence);
  unit.q_chunks_per_head = chunk_count(unit.rows, sizes.q);
  unit.q_chunks = unit.q_chunks_per_head * group;
  unit.k_chunks = chunk_count(unit.keys, sizes.k);
  if (unit.k_chunks > 0) {
    const int64_t diagonal_key = unit.rows.begin + sequence.diagonal;
    const int64_t key = std::clamp(diagonal_key, unit.keys.begin, unit.keys.end - 1);
    unit.first_diagonal = (key - unit.keys.begin) / sizes.k;
  }
  return unit;
}

void wait_until(const std::atomic<uint32_t>& counter, uint32_t value) {
  for (uint32_t seen = counter.load(std::memory_order_acquire); seen != value;
       seen = counter.load(std::memory_order_acquire)) {
    counter.wait(seen, std::memory_order_acquire);
  }
}

void add_one(std::atomic<uint32_t>& counter) {
  counter.fetch_add(1, std::memory_order_acq_rel);
  counter.notify_all();
}

}  // namespace

Range visible_rows(const core::Sequence& sequence) {
  return sequence.rows_of_keys(sequence.k.used);
}

Range visible_keys(const core::Sequence& sequence) {
  const Range rows = visible_rows(sequence);
  return rows.empty() ? Range{} : sequence.keys_of_rows(rows);
}

Range BackwardUnit::rows_of_chunk(int64_t q_chunk, ChunkSizes sizes) const {
  return chunk_range(rows, q_chunk % q_chunks_per_head, sizes.q);
}

Range BackwardUnit::keys_of_chunk(int64_t k_chunk, ChunkSizes sizes) const {
  return chunk_range(keys, k_chunk, sizes.k);
}

/// Resolves the unit and counts the tasks of each of its chunks.
void BackwardSchedule::begin_unit(UnitState& state, int64_t unit_index) {
  const int64_t b = order_[unit_index / problem_.heads_k];
  const core::Sequence sequence = core::sequence_of(problem_, tensors_, b);
  const BackwardUnit unit =
      make_unit(sequence, unit_index % problem_.heads_k, problem_.group, sizes_);
  state.unit = unit;
  state.total = 0;
  state.done.store(0, std::memory_order_relaxed);
  for (int64_t j = 0; j < unit.k_chunks; ++j) new (&state.k_chunks[j]) ChunkState();
  for (int64_t c = 0; c < unit.q_chunks; ++c) {
    ChunkState* chunk = new (&state.q_chunks[c]) ChunkState();
    const Range keys = sequence.keys_of_rows(unit.rows_of_chunk(c, sizes_));
    chunk->first = (keys.begin - unit.keys.begin) / sizes_.k;
    chunk->end = chunk_count({unit.keys.begin, keys.end}, sizes_.k);
    chunk->total = static_cast<uint32_t>(chunk->end - chunk->first);
    for (int64_t j = chunk->first; j < chunk->end; ++j) ++state.k_chunks[j].total;
  }
  for (int64_t j = 0; j < unit.k_chunks; ++j) state.total += state.k_chunks[j].total > 0;
}

/// Makes the next unit that has tasks the current one.
bool BackwardSchedule::next_unit() {
  const int64_t units = problem_.batch * problem_.heads_k;
  while (units_begun_ < units) {
    UnitState& state = *slots_[units_begun_ % slot_count_];
    wait_until(state.done, state.total);
    begin_unit(state, units_begun_++);
    if (state.total == 0) continue;
    current_ = &state;
    step_ = next_q_chunk_ = 0;
    return true;
  }
  current_ = nullptr;
  return false;
}

/// The next pair of the current unit that is not empty.
bool BackwardSchedule::next_pair(int64_t& q_chunk, int64_t& k_chunk) {
  const BackwardUnit& unit = current_->unit;
  for (; step_ < unit.k_chunks; ++step_, next_q_chunk_ = 0) {
    while (next_q_chunk_ < unit.q_chunks) {
      q_chunk = next_q_chunk_++;
      k_chunk = (q_chunk + unit.first_diagonal + unit.k_chunks - step_) % unit.k_chunks;
      const ChunkState& chunk = current_->q_chunks[q_chunk];
      if (k_chunk >= chunk.first && k_chunk < chunk.end) return true;
    }
  }
  return false;
}

bool BackwardSchedule::claim(BackwardTask& task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_ == nullptr && !next_unit()) return false;
  while (!next_pair(task.q_chunk, task.k_chunk)) {
    if (!next_unit()) return false;
  }
  task.state = current_;
  task.slot = (units_begun_ - 1) % slot_count_;
  task.q_turn = current_->q_chunks[task.q_chunk].claimed++;
  task.k_turn = current_->k_chunks[task.k_chunk].claimed++;
  return true;
}

void BackwardSchedule::wait_for_turn(const BackwardTask& task) {
  wait_until(task.state->q_chunks[task.q_chunk].done, task.q_turn);
  wait_until(task.state->k_chunks[task.k_chunk].done, task.k_turn);
}

void BackwardSchedule::finish(const BackwardTask& task) {
  UnitState* state = task.state;
  const bool last_of_k = task.last_of_k();
  add_one(state->q_chunks[task.q_chunk].done);
  add_one(state->k_chunks[task.k_chunk].done);
  // After the last one of these the unit's scratch may be taken for another unit.
  if (last_of_k) add_one(state->done);
}

}  // namespace fa4::cpu
