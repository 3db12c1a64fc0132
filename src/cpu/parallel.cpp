// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/parallel.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

#ifndef FA4_STD_THREADS
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <utility>
#endif

namespace fa4::cpu {

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

#ifndef FA4_STD_THREADS

namespace {

/// Lets an arena have `threads` threads: oneTBB gives it no more than the machine has cores unless
/// a global_control says so. Of several controls the smallest counts, and an arena that wants more
/// makes oneTBB print a warning; so there is one for all runs, and it only grows.
void allow_threads(int threads) {
  static std::mutex mutex;
  static int allowed = available_threads();
  static std::unique_ptr<tbb::global_control> control;
  const std::lock_guard lock(mutex);
  if (threads <= allowed) return;
  auto larger =
      std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads);
  control = std::move(larger);  // the old one ends after the new one has begun
  allowed = threads;
}

/// Whether the process could start so many threads beside the caller's. A oneTBB worker that cannot
/// start the next one throws where nobody can catch it, which ends the process; so we try first,
/// once for each larger number. Limits that shrink later, and several calls at once, are not
/// covered.
bool can_start(int threads) {
  static std::mutex mutex;
  static int proven = 0;
  const std::lock_guard lock(mutex);
  if (threads <= proven) return true;
  std::vector<std::thread> started;
  std::latch all_started(1);
  bool able = true;
  try {
    started.reserve(threads);
    for (int i = 0; i < threads; ++i) started.emplace_back([&] { all_started.wait(); });
  } catch (const std::exception&) {
    able = false;
  }
  all_started.count_down();
  for (std::thread& thread : started) thread.join();
  if (able) proven = threads;
  return able;
}

}  // namespace

void run_workers(int workers, const std::function<void(int)>& body) {
  if (workers <= 1) return body(0);
  try {
    if (!can_start(workers - 1)) return body(0);  // takes all work that nobody took
    allow_threads(workers);
    // The application may allow fewer; its limit holds, and asking for more would print.
    const size_t allowed =
        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
    tbb::task_arena arena(static_cast<int>(std::min<size_t>(workers, allowed)));
    arena.execute([&] {
      tbb::parallel_for(
          0, workers, [&](int worker) { body(worker); }, tbb::simple_partitioner{});
    });
  } catch (const std::exception&) {  // no thread could be started after all
    body(0);
  }
}

#else  // ThreadSanitizer gives false reports inside oneTBB, so its build starts plain threads.

void run_workers(int workers, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers; ++worker) threads.emplace_back(body, worker);
  body(0);
  for (std::thread& thread : threads) thread.join();
}

#endif

}  // namespace fa4::cpu
