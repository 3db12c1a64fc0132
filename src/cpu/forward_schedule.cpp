// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/forward_schedule.h"

#include <algorithm>
#include <tuple>

namespace fa4::cpu {
namespace {

/// Appends tasks to a list in the workspace.
class Scheduler {
 public:
  Scheduler(const core::Problem& problem, const AttentionTensors& tensors,
            const ForwardTiling& tiling, Task* tasks)
      : problem_(problem),
        tiling_(tiling),
        tasks_(tasks),
        heads_are_neighbours_(head_stride(tensors.k) < row_stride(tensors.k)) {}

  void add(const core::Sequence& sequence) {
    const int64_t rows = sequence.q.used.size();
    if (rows == 0) return;
    if (rows * problem_.group <= tiling_.split_rows) {
      add_chunks(sequence);
    } else {
      add_tiles(sequence);
    }
  }
  int64_t count() const { return count_; }

 private:
  static int64_t row_stride(const Tensor& k) { return k.strides[k.rank - 3]; }
  static int64_t head_stride(const Tensor& k) { return k.strides[k.rank - 2]; }

  /// Heads of k of a decode task. Where heads are neighbours in memory it reads them in turns, as
  /// they lie, which the processor's own prefetching likes best.
  int64_t heads_together(int64_t rows) const {
    if (rows > tiling_.decode_rows || !heads_are_neighbours_) return 1;
    return std::min({kDecodeTaskRows / rows, tiling_.decode_heads, problem_.heads_k});
  }

  /// Few rows: all heads of a group together, and keys in chunks.
  void add_chunks(const core::Sequence& s) {
    const int64_t rows = s.q.used.size() * problem_.group;
    const int64_t size = tiling_.chunk_keys(rows);
    const core::Range keys = s.keys_of_rows(s.q.used);
    // The grid of chunks begins at the first used key, wherever a window begins.
    const auto boundary = [&](int64_t i) { return s.k.used.begin + i * size; };
    const int64_t first = keys.empty() ? 0 : (keys.begin - s.k.used.begin) / size;
    const int64_t last = keys.empty() ? 1 : ceil_div(keys.end - s.k.used.begin, size);
    const bool split = last - first > 1;
    const int64_t together = heads_together(rows);
    for (int64_t head_k = 0; head_k < problem_.heads_k; head_k += together) {
      const int64_t heads_k = std::min(together, problem_.heads_k - head_k);
      for (int64_t i = first; i < last; ++i) {
        Task task = make(s, head_k, 0, heads_k * problem_.group, s.q.used);
        task.decode = rows <= tiling_.decode_rows;
        task.keys = core::intersect(keys, {boundary(i), boundary(i + 1)});
        task.slot = split ? slots_ : -1;
        task.chunks = split && i == first ? static_cast<int32_t>(last - first) : 0;
        if (split) slots_ += rows * heads_k;
        task.cost = heads_k * (rows + 8) * task.keys.size() + 64;
        push(task);
      }
    }
  }

  void add_tiles(const core::Sequence& s) {
    const int64_t rows = s.q.used.size();
    const int64_t parts = ceil_div(rows, tiling_.task_rows);
    const int64_t step =
        parts == 1 ? rows
                   : ceil_div(ceil_div(rows, parts), tiling_.block_rows) * tiling_.block_rows;
    const int64_t most_heads = std::max<int64_t>(tiling_.task_rows / step, 1);
    const int64_t head_parts = ceil_div(problem_.group, std::min(problem_.group, most_heads));
    const int64_t heads = ceil_div(problem_.group, head_parts);
    for (int64_t head_k = 0; head_k < problem_.heads_k; ++head_k) {
      for (int64_t head = 0; head < problem_.group; head += heads) {
        for (int64_t row = s.q.used.begin; row < s.q.used.end; row += step) {
          const core::Range range{row, std::min(row + step, s.q.used.end)};
          Task task = make(s, head_k, head, std::min(heads, problem_.group - head), range);
          task.cost = tile_cost(s, task);
          push(task);
        }
      }
    }
  }

  static Task make(const core::Sequence& s, int64_t head_k, int64_t head, int64_t heads,
                   core::Range rows) {
    Task task;
    task.sequence = s.index;
    task.head_k = static_cast<int32_t>(head_k);
    task.first_head = static_cast<int32_t>(head);
    task.heads = static_cast<int32_t>(heads);
    task.rows = rows;
    return task;
  }

  /// Scores, plus what packing the keys costs in units of a score.
  static int64_t tile_cost(const core::Sequence& s, const Task& task) {
    const int64_t ends =
        s.keys_of_row(task.rows.begin).size() + s.keys_of_row(task.rows.end - 1).size();
    return task.heads * task.rows.size() * (ends / 2 + 1) + 8 * s.keys_of_rows(task.rows).size();
  }

  void push(const Task& task) { tasks_[count_++] = task; }

  const core::Problem& problem_;
  const ForwardTiling& tiling_;
  Task* tasks_;
  const bool heads_are_neighbours_;
  int64_t count_ = 0;
  int64_t slots_ = 0;
};

}  // namespace

int64_t schedule_forward(const core::Problem& problem, const AttentionTensors& tensors,
                         const ForwardTiling& tiling, Task* tasks) {
  if (problem.total_q() == 0) return 0;
  Scheduler scheduler(problem, tensors, tiling, tasks);
  for (int64_t b = 0; b < problem.batch; ++b) {
    scheduler.add(core::sequence_of(problem, tensors, b));
  }
  const int64_t count = scheduler.count();
  // Where costs are equal, tasks of one head stay neighbours, since they share keys in the cache;
  // for chunks, heads of one, since their keys share pages of memory.
  const auto order = [](const Task& task) {
    return std::tuple(-task.cost, task.sequence, task.keys.begin, task.head_k, task.first_head,
                      task.rows.begin);
  };
  std::sort(tasks, tasks + count,
            [&](const Task& a, const Task& b) { return order(a) < order(b); });
  return count;
}

}  // namespace fa4::cpu
