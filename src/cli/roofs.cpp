// SPDX-License-Identifier: BSD-3-Clause
#include "cli/roofs.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace fa4::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Where probes leave their results, so that the compiler must keep them.
std::atomic<float> sink;

/// Seconds that `threads` threads need from a common start until all have done work(thread).
double time_together(int threads, const std::function<float(int)>& work) {
  if (threads == 1) {
    const Clock::time_point start = Clock::now();
    sink = work(0);
    return seconds_since(start);
  }
  Clock::time_point start;
  std::barrier ready(threads, [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      ready.arrive_and_wait();
      sink = work(t);
    });
  }
  for (std::thread& thread : pool) thread.join();
  return seconds_since(start);
}

/// Best rate of `work`, which does `units` of something in each of its `rounds`: rounds are chosen
/// so that a run takes about `seconds`.
double best_rate(int threads, double seconds, double units,
                 const std::function<float(int thread, int64_t rounds)>& work) {
  int64_t rounds = 1;
  double once = 0;
  while ((once = time_together(1, [&](int t) { return work(t, rounds); })) < seconds / 8) {
    rounds *= 2;
  }
  rounds = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rounds) * seconds / once));
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double taken = time_together(threads, [&](int t) { return work(t, rounds); });
    best = std::max(best, units * static_cast<double>(rounds) * threads / taken);
  }
  return best;
}

double measure_exp(int threads, double seconds) {
  constexpr int64_t kCount = 2048;  // 8 KiB, in every L1 cache.
  std::vector<float> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[static_cast<size_t>(i)] = -16.0F * static_cast<float>(i) / kCount;
  }
  return best_rate(threads, seconds, kCount, [&](int, int64_t rounds) {
    float sum = 0;
    for (int64_t r = 0; r < rounds; ++r) sum += probe::exp2(x.data(), kCount);
    return sum;
  });
}

struct Bandwidth {
  double read, copy;
};

/// Each thread has its own part of the memory, which it touches first.
Bandwidth measure_memory(int threads, double seconds, int64_t bytes,
                         const std::function<void(const std::string&)>& announce) {
  const int64_t count = bytes / threads / 4 / 2048 * 2048;  // Floats a thread.
  std::vector<std::unique_ptr<float[]>> memory;
  for (int t = 0; t < threads; ++t) {
    memory.emplace_back(new float[static_cast<size_t>(count)]);
  }
  time_together(threads, [&](int t) {
    std::fill_n(memory[static_cast<size_t>(t)].get(), count, 1.0F);
    return 0.0F;
  });
  Bandwidth result{};
  announce("read bandwidth");
  result.read =
      best_rate(threads, seconds, static_cast<double>(count) * 4, [&](int t, int64_t rounds) {
        float sum = 0;
        for (int64_t r = 0; r < rounds; ++r) {
          sum += probe::read(memory[static_cast<size_t>(t)].get(), count);
        }
        return sum;
      });
  announce("copy bandwidth");
  const int64_t half = count / 2;
  result.copy =
      best_rate(threads, seconds, static_cast<double>(half) * 8, [&](int t, int64_t rounds) {
        float* data = memory[static_cast<size_t>(t)].get();
        for (int64_t r = 0; r < rounds; ++r) {
          std::memcpy(data + half, data, static_cast<size_t>(half) * 4);
        }
        return data[count - 1];
      });
  return result;
}

}  // namespace

Roofs measure_roofs(int threads, double seconds, int64_t buffer_bytes,
                    const std::function<void(const std::string&)>& announce) {
  Roofs roofs;
  roofs.threads = threads;
  roofs.target = probe::target_name();
  announce("FMA peak");
  roofs.fma_gflops =
      1e-9 * best_rate(threads, seconds, static_cast<double>(probe::flops_of_fma()) * 1000,
                       [](int, int64_t rounds) { return probe::fma(rounds * 1000); });
  announce("bf16 dot peak");
  if (probe::has_bf16_dot()) {
    roofs.bf16_gflops =
        1e-9 * best_rate(threads, seconds, static_cast<double>(probe::flops_of_bf16_dot()) * 1000,
                         [](int, int64_t rounds) { return probe::bf16_dot(rounds * 1000); });
  }
  announce("exp rate");
  roofs.exp_gops = 1e-9 * measure_exp(threads, seconds);
  const Bandwidth memory = measure_memory(threads, seconds, buffer_bytes, announce);
  roofs.read_gbs = 1e-9 * memory.read;
  roofs.copy_gbs = 1e-9 * memory.copy;
  return roofs;
}

}  // namespace fa4::cli
