// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/forward.h"

#include <atomic>

#include "cpu/forward_context.h"
#include "cpu/forward_schedule.h"
#include "cpu/parallel.h"

namespace fa4::cpu {
namespace {

/// Calls run(i, worker) for each i in [0, count); workers take the next one when they are done.
template <class Run>
void share(int64_t count, int threads, const Run& run) {
  std::atomic<int64_t> next{0};
  const auto workers = static_cast<int>(std::min<int64_t>(threads, count));
  run_workers(workers, [&](int worker) {
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) run(i, worker);
  });
}

/// Rows that belong to no sequence or are not used.
template <class T>
void clear_slack(const ForwardContext<T>& context, int threads) {
  const core::Problem& p = context.problem;
  const AttentionTensors& t = context.tensors;
  if (t.seqused_q.present() || t.start_q.present()) {
    share(p.batch, threads, [&](int64_t b, int) {
      const core::SequenceRows side = core::sequence_of(p, t, b).q;
      clear_rows(context, side, {0, side.used.begin});
      clear_rows(context, side, {side.used.end, side.capacity});
    });
  }
  if (p.packed_q) {
    clear_rows(context, {}, {core::read_index(t.cu_seqlens_q, p.batch), p.rows_q});
  }
}

template <class T>
void run(const core::Problem& problem, const AttentionTensors& tensors, const Target& target,
         void* workspace, int threads) {
  const Kernels<T>& kernels = target.kernels<T>();
  const ForwardTiling tiling = make_forward_tiling(kernels, problem, threads);
  Carver carver(workspace);
  const auto space = ForwardWorkspace<T>::carve(carver, kernels, tiling, problem, threads, true);
  const ForwardContext<T> context(kernels, problem, tensors, tiling);

  clear_slack(context, threads);
  const int64_t count = schedule_forward(problem, tensors, tiling, space.tasks);
  share(count, threads, [&](int64_t i, int worker) {
    const Task& task = space.tasks[i];
    if (task.decode) {
      run_decode_task(context, task, space.partials, space.scratch[worker]);
    } else {
      run_tile_task(context, task, space.partials, space.scratch[worker]);
    }
  });
  bool any_split = false;
  for (int64_t i = 0; i < count && !any_split; ++i) any_split = space.tasks[i].chunks > 0;
  if (!any_split) return;
  share(count, threads, [&](int64_t i, int worker) {
    const Task& task = space.tasks[i];
    if (task.chunks > 0) {
      combine_chunks(context, task, space.partials, space.scratch[worker]);
    }
  });
}

template <class T>
std::optional<size_t> workspace_bytes(const core::Problem& problem, const Target& target,
                                      int threads) {
  const Kernels<T>& kernels = target.kernels<T>();
  const ForwardTiling tiling = make_forward_tiling(kernels, problem, threads);
  Carver carver;
  ForwardWorkspace<T>::carve(carver, kernels, tiling, problem, threads, false);
  return carver.bytes();
}

template <class T>
std::string describe(const core::Problem& problem, const Target& target, int threads) {
  const ForwardTiling t = make_forward_tiling(target.kernels<T>(), problem, threads);
  const auto text = [](int64_t x) { return std::to_string(x); };
  std::string s = "tiles: " + text(t.tile_keys) + " keys packed for up to " + text(t.task_rows) +
                  " query rows, " + text(t.block_rows) + " rows of scores at a time\n" +
                  "tasks: at most " + text(max_forward_tasks(t, problem).value_or(INT64_MAX)) +
                  ", longest first\n";
  if (t.decode_rows == 0) {
    s += "path: tiles for every sequence, since batch_invariant asks for one order of sums\n";
    return s;
  }
  const auto sequences_of = [&](int64_t rows) {
    return "sequences of at most " + text(rows / problem.group) + " query rows";
  };
  if (problem.group <= t.decode_rows) {
    s += "path: decode (no packing) for " + sequences_of(t.decode_rows) +
         ", since packing would cost more than it saves there; tiles for longer ones\n";
  } else {
    s += "path: tiles, since a head of k serves " + text(problem.group) +
         " query heads (decode: at most " + text(t.decode_rows) + " query rows a head of k)\n";
  }
  if (problem.group <= t.split_rows) {
    s += "split: keys in chunks of " + text(t.chunk_keys(problem.group)) + " or more for " +
         sequences_of(t.split_rows) + "\n";
  }
  return s;
}

}  // namespace

std::optional<size_t> forward_workspace_bytes(const core::Problem& problem, const Target& target,
                                              int threads) {
  return problem.is_double() ? workspace_bytes<double>(problem, target, threads)
                             : workspace_bytes<float>(problem, target, threads);
}

void run_forward(const core::Problem& problem, const AttentionTensors& tensors,
                 const Target& target, void* workspace, int threads) {
  if (problem.is_double()) return run<double>(problem, tensors, target, workspace, threads);
  run<float>(problem, tensors, target, workspace, threads);
}

std::string describe_forward(const core::Problem& problem, const Target& target, int threads) {
  return problem.is_double() ? describe<double>(problem, target, threads)
                             : describe<float>(problem, target, threads);
}

}  // namespace fa4::cpu
