// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/backward.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "cpu/backward_extras.h"
#include "cpu/backward_layout.h"
#include "cpu/backward_schedule.h"
#include "cpu/backward_task.h"
#include "cpu/backward_tiles.h"
#include "cpu/parallel.h"

namespace fa4::cpu {
namespace {

using core::Range;

/// Multiply-adds below which one more thread costs more than it saves.
constexpr double kWorkPerThread = 5e5;

int64_t unit_count(const core::Problem& problem) { return problem.batch * problem.heads_k; }

/// Sequences that may have a row which sees a key.
int64_t busy_sequences(const core::Problem& problem) {
  return std::min({problem.batch, problem.total_q(), problem.total_k()});
}

/// No run has more units than this in flight.
int64_t most_slots(const core::Problem& problem, int threads) {
  return std::min<int64_t>(unit_count(problem), int64_t{threads} + 1);
}

/// Units of the longest lengths possible that the workspace has room for. Packed sequences are
/// mostly much shorter than all rows together, so that room for two of those is room for many.
int64_t planned_slots(const core::Problem& problem, const BackwardTiling& tiling, int threads) {
  if (problem.packed_q || problem.packed_k) return std::min<int64_t>(2, unit_count(problem));
  const int64_t q_chunks = divide_up(problem.rows_q, tiling.chunks.q) * problem.group;
  const int64_t k_chunks = divide_up(problem.rows_k, tiling.chunks.k);
  const int64_t width = std::max<int64_t>(1, std::min(q_chunks, k_chunks));
  return std::min(divide_up(threads, width) + 1, most_slots(problem, threads));
}

template <class T>
std::optional<size_t> slot_bytes(const BackwardTiling& tiling, const core::Problem& problem,
                                 int64_t rows_q, int64_t rows_k) {
  Carver carver;
  UnitScratch<T>::carve(carver, tiling, problem, rows_q, rows_k);
  return carver.bytes();
}

/// The workspace but for the units' scratch, which comes last.
template <class T>
struct Parts {
  int64_t* order;      ///< [batch], or nothing without rows or keys: sequences, most work first
  double* work;        ///< as order: pairs of a row and a key that it may see
  std::byte* workers;  ///< [threads] of `worker_bytes` each
  T* deltas;           ///< BackwardContext::deltas; null if not needed
  UnitScratch<T>* slots;
  UnitState** states;
  std::byte* units;

  static Parts carve(Carver& carver, const BackwardTiling& tiling, const core::Problem& problem,
                     int threads) {
    Parts p;
    const int64_t ordered = busy_sequences(problem) > 0 ? problem.batch : 0;
    p.order = carver.take<int64_t>(ordered);
    p.work = carver.take<double>(ordered);
    p.slots = carver.take<UnitScratch<T>>(most_slots(problem, threads));
    p.states = carver.take<UnitState*>(most_slots(problem, threads));
    p.workers = carver.take<std::byte>(threads, worker_bytes(tiling, problem));
    const bool keep_deltas =
        has_exact_delta(problem) && (problem.spec.has_dbias || problem.spec.has_dsink);
    p.deltas = carver.take<T>(keep_deltas ? problem.total_q() : 0, problem.heads_q);
    if (!keep_deltas) p.deltas = nullptr;
    p.units = carver.take<std::byte>(0);
    return p;
  }
  static int64_t worker_bytes(const BackwardTiling& tiling, const core::Problem& problem) {
    Carver carver;
    WorkerScratch<T>::carve(carver, tiling, problem);
    return static_cast<int64_t>(carver.bytes().value());  // a few tiles: never too large
  }
};

template <class T>
std::optional<size_t> workspace_bytes(const Kernels<T>& kernels, const core::Problem& problem,
                                      int threads) {
  const BackwardTiling tiling = make_tiling(kernels, problem);
  const auto slot = slot_bytes<T>(tiling, problem, problem.max_rows_q(), problem.max_rows_k());
  if (!slot) return std::nullopt;
  Carver carver;
  Parts<T>::carve(carver, tiling, problem, threads);
  carver.take<std::byte>(planned_slots(problem, tiling, threads), static_cast<int64_t>(*slot));
  return carver.bytes();
}

/// What the lengths of a run say.
struct Lengths {
  int64_t rows_q = 0;  ///< The most rows of a sequence that take part,
  int64_t rows_k = 0;  ///< and keys.
  int64_t all_q = 0;   ///< The sums over the batch.
  int64_t all_k = 0;
  double work = 0;
};

double visible_pairs(const core::Sequence& sequence, Range rows, int64_t step) {
  double pairs = 0;
  for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
    const Range part{begin, std::min(begin + step, rows.end)};
    pairs +=
        static_cast<double>(part.size()) * static_cast<double>(sequence.keys_of_rows(part).size());
  }
  return pairs;
}

/// Sorts the sequences, most work first: a long one that starts last would run alone.
template <class T>
Lengths order_sequences(const BackwardContext<T>& context, const Parts<T>& parts) {
  Lengths lengths;
  if (busy_sequences(context.problem) == 0) return lengths;
  for (int64_t b = 0; b < context.problem.batch; ++b) {
    const core::Sequence sequence = core::sequence_of(context.problem, context.tensors, b);
    const Range rows = visible_rows(sequence);
    const int64_t keys = visible_keys(sequence).size();
    lengths.rows_q = std::max(lengths.rows_q, rows.size());
    lengths.rows_k = std::max(lengths.rows_k, keys);
    lengths.all_q += rows.size();
    lengths.all_k += keys;
    parts.order[b] = b;
    parts.work[b] = visible_pairs(sequence, rows, context.tiling.tile_q);
    lengths.work += parts.work[b];
  }
  std::sort(parts.order, parts.order + context.problem.batch, [&](int64_t a, int64_t b) {
    return parts.work[a] > parts.work[b] || (parts.work[a] == parts.work[b] && a < b);
  });
  return lengths;
}

template <class T>
class Run {
 public:
  Run(const BackwardContext<T>& context, std::byte* workspace, int threads)
      : context_(context), threads_(threads) {
    Carver carver(workspace);
    parts_ = Parts<T>::carve(carver, context.tiling, context.problem, threads);
    context_.deltas = parts_.deltas;
  }

  void run() {
    const core::Problem& problem = context_.problem;
    const Lengths lengths = order_sequences(context_, parts_);
    const double operations = lengths.work * static_cast<double>(problem.heads_q) *
                              static_cast<double>(3 * problem.dim_qk + 2 * problem.dim_v);
    workers_ = static_cast<int>(std::clamp(operations / kWorkPerThread, 1.0, 1.0 * threads_));
    run_extras(clearing_jobs(context_, lengths.all_q < problem.total_q(),
                             lengths.all_k < problem.total_k()));
    if (lengths.work > 0) run_units(lengths);
    run_extras(sink_and_bias_jobs(context_));
  }

 private:
  WorkerScratch<T> scratch_of(int worker) const {
    const int64_t bytes = Parts<T>::worker_bytes(context_.tiling, context_.problem);
    Carver carver(parts_.workers + worker * bytes);
    return WorkerScratch<T>::carve(carver, context_.tiling, context_.problem);
  }

  void run_extras(const ExtraJobs& jobs) const {
    if (jobs.count() == 0) return;
    std::atomic<int64_t> next{0};
    run_workers(static_cast<int>(std::min<int64_t>(workers_, jobs.count())), [&](int worker) {
      const WorkerScratch<T> scratch = scratch_of(worker);
      for (int64_t job = next++; job < jobs.count(); job = next++) {
        run_extra_job(context_, jobs, job, scratch);
      }
    });
  }

  /// Lays out the slots for this run's lengths and returns how many there are.
  int64_t make_slots(const Lengths& lengths) {
    const core::Problem& problem = context_.problem;
    const BackwardTiling& tiling = context_.tiling;
    const size_t room = static_cast<size_t>(planned_slots(problem, tiling, threads_)) *
                        *slot_bytes<T>(tiling, problem, problem.max_rows_q(), problem.max_rows_k());
    const size_t each = *slot_bytes<T>(tiling, problem, lengths.rows_q, lengths.rows_k);
    const int64_t count =
        std::min(most_slots(problem, threads_), static_cast<int64_t>(room / each));
    Carver carver(parts_.units);
    for (int64_t i = 0; i < count; ++i) {
      parts_.slots[i] =
          UnitScratch<T>::carve(carver, tiling, problem, lengths.rows_q, lengths.rows_k);
      parts_.states[i] = new (parts_.slots[i].state) UnitState();
      parts_.states[i]->q_chunks = parts_.slots[i].q_chunks;
      parts_.states[i]->k_chunks = parts_.slots[i].k_chunks;
    }
    return count;
  }

  void run_units(const Lengths& lengths) {
    const int64_t slots = make_slots(lengths);
    BackwardSchedule schedule(context_.problem, context_.tensors, context_.tiling.chunks,
                              parts_.order, parts_.states, slots);
    run_workers(workers_, [&](int worker) {
      const WorkerScratch<T> scratch = scratch_of(worker);
      BackwardTask task;
      while (schedule.claim(task)) {
        BackwardSchedule::wait_for_turn(task);
        run_task(context_, task, parts_.slots[task.slot], scratch);
        BackwardSchedule::finish(task);
      }
    });
  }

  BackwardContext<T> context_;
  const int threads_;
  int workers_ = 1;
  Parts<T> parts_;
};

template <class T>
void run_with(const Kernels<T>& kernels, const core::Problem& problem, const AttentionTensors& t,
              const AttentionGradients& g, void* workspace, int threads) {
  const BackwardContext<T> context(kernels, problem, t, g);
  Run<T>(context, static_cast<std::byte*>(workspace), threads).run();
}

}  // namespace

std::optional<size_t> backward_workspace_bytes(const core::Problem& problem, const Target& target,
                                               int threads) {
  return problem.is_double() ? workspace_bytes(target.kernels<double>(), problem, threads)
                             : workspace_bytes(target.kernels<float>(), problem, threads);
}

void run_backward(const core::Problem& problem, const AttentionTensors& t,
                  const AttentionGradients& g, const Target& target, void* workspace, int threads) {
  if (problem.is_double()) {
    run_with(target.kernels<double>(), problem, t, g, workspace, threads);
  } else {
    run_with(target.kernels<float>(), problem, t, g, workspace, threads);
  }
}

std::string describe_backward(const core::Problem& problem, const Target& target, int threads) {
  const BackwardTiling tiling = problem.is_double() ? make_tiling(target.kernels<double>(), problem)
                                                    : make_tiling(target.kernels<float>(), problem);
  return "tiles of " + std::to_string(tiling.tile_q) + " query rows x " +
         std::to_string(tiling.tile_k) + " keys, five products each; tasks of " +
         std::to_string(tiling.chunks.q) + " x " + std::to_string(tiling.chunks.k) +
         " in a fixed order, at most " + std::to_string(planned_slots(problem, tiling, threads)) +
         " (longest sequence, key head) in flight\n";
}

}  // namespace fa4::cpu
