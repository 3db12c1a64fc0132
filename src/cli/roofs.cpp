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

constexpr int kLeastRuns = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Where probes leave their results, so that the compiler must keep them.
std::atomic<float> sink;

/// Seconds from a common start of `threads` threads until the last has done work(thread).
double time_together(int threads, const std::function<float(int)>& work) {
  if (threads == 1) {
    const Clock::time_point start = Clock::now();
    sink = work(0);
    return seconds_since(start);
  }
  Clock::time_point start;
  std::barrier ready(threads, [&]() noexcept { start = Clock::now(); });
  std::vector<double> taken(static_cast<size_t>(threads));
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      ready.arrive_and_wait();
      sink = work(t);
      taken[static_cast<size_t>(t)] = seconds_since(start);
    });
  }
  for (std::thread& thread : pool) thread.join();
  return *std::max_element(taken.begin(), taken.end());
}

/// Rounds that take one thread about `seconds` when nothing disturbs it.
int64_t choose_rounds(double seconds, const std::function<float(int, int64_t)>& work) {
  int64_t rounds = 1;
  while (true) {
    double best = seconds;
    for (int i = 0; i < 3; ++i) {
      best = std::min(best, time_together(1, [&](int t) { return work(t, rounds); }));
    }
    if (best >= seconds) return rounds;
    rounds *= 2;
  }
}

/// Best rate of runs of `rounds` rounds; `work` does `units` of something in each.
double best_rate(int threads, double seconds, double units, int64_t rounds,
                 const std::function<float(int thread, int64_t rounds)>& work) {
  double best = 0;
  const Clock::time_point start = Clock::now();
  for (int run = 0; run < kLeastRuns || seconds_since(start) < seconds; ++run) {
    const double taken = time_together(threads, [&](int t) { return work(t, rounds); });
    best = std::max(best, units * static_cast<double>(rounds) * threads / taken);
  }
  return best;
}

/// The same with short runs, of a millisecond, and many: on a machine that does other things too, a
/// short run has a chance to be left alone.
double best_short_rate(int threads, double seconds, double units,
                       const std::function<float(int thread, int64_t rounds)>& work) {
  return best_rate(threads, seconds, units, choose_rounds(1e-3, work), work);
}

double measure_widened(int threads, double seconds, int uses) {
  constexpr int64_t kCount = 4096;  // 8 KiB, in every L1 cache.
  const std::vector<uint16_t> x(kCount, 0x3F00);
  return best_short_rate(threads, seconds, 2.0 * uses * kCount, [&](int, int64_t rounds) {
    return probe::widened_fma(x.data(), kCount, rounds, uses);
  });
}

double measure_exp(int threads, double seconds) {
  constexpr int64_t kCount = 2048;  // 8 KiB, in every L1 cache.
  std::vector<float> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[static_cast<size_t>(i)] = -16.0F * static_cast<float>(i) / kCount;
  }
  return best_short_rate(threads, seconds, kCount, [&](int, int64_t rounds) {
    float sum = 0;
    for (int64_t r = 0; r < rounds; ++r) sum += probe::exp2(x.data(), kCount);
    return sum;
  });
}

/// A thread's part of the memory. It goes through it piece by piece, round after round, so that a
/// piece has left the caches when it comes again.
struct Lane {
  static constexpr int64_t kPiece = 1 << 18;  // Floats: 1 MiB.

  std::unique_ptr<float[]> data;
  int64_t pieces = 0;
  int64_t next = 0;

  float* piece() {
    next = next + 1 < pieces ? next + 1 : 0;
    return data.get() + next * kPiece;
  }
};

std::vector<Lane> make_lanes(int threads, int64_t bytes) {
  std::vector<Lane> lanes(static_cast<size_t>(threads));
  for (Lane& lane : lanes) {
    lane.pieces = std::max<int64_t>(2, bytes / threads / 4 / Lane::kPiece);
    lane.data.reset(new float[static_cast<size_t>(lane.pieces * Lane::kPiece)]);
  }
  time_together(threads, [&](int t) {  // Each thread touches its own memory first.
    Lane& lane = lanes[static_cast<size_t>(t)];
    std::fill_n(lane.data.get(), lane.pieces * Lane::kPiece, 1.0F);
    return 0.0F;
  });
  return lanes;
}

/// The better of one stream and eight: which it is differs from processor to processor. A run reads
/// all of the buffer, as a decode step reads its cache: a short run would be luckier than a step.
double measure_read(int threads, double seconds, std::vector<Lane>& lanes) {
  double best = 0;
  for (const auto probe : {probe::read, probe::read_streams}) {
    const double rate = best_rate(
        threads, seconds, Lane::kPiece * 4.0, lanes.front().pieces, [&](int t, int64_t rounds) {
          float sum = 0;
          for (int64_t r = 0; r < rounds; ++r) {
            sum += probe(lanes[static_cast<size_t>(t)].piece(), Lane::kPiece);
          }
          return sum;
        });
    best = std::max(best, rate);
  }
  return best;
}

/// Bytes read and bytes written.
double measure_copy(int threads, double seconds, std::vector<Lane>& lanes) {
  return best_short_rate(threads, seconds, Lane::kPiece * 8.0, [&](int t, int64_t rounds) {
    Lane& lane = lanes[static_cast<size_t>(t)];
    float last = 0;
    for (int64_t r = 0; r < rounds; ++r) {
      const float* from = lane.piece();
      float* to = lane.piece();
      std::memcpy(to, from, Lane::kPiece * 4);
      last += to[0];
    }
    return last;
  });
}

}  // namespace

double time_read(int threads, const void* data, int64_t bytes) {
  const auto* floats = static_cast<const float*>(data);
  const int64_t each = bytes / 4 / threads / 512 * 512;
  return time_together(threads, [&](int t) {
    float sum = 0;
    for (int64_t done = 0; done < each; done += Lane::kPiece) {
      sum += probe::read_streams(floats + t * each + done, std::min(Lane::kPiece, each - done));
    }
    return sum;
  });
}

Roofs measure_roofs(int threads, double seconds, int64_t buffer_bytes,
                    const std::function<void(const std::string&)>& announce) {
  Roofs roofs;
  roofs.threads = threads;
  roofs.target = probe::target_name();
  announce("FMA peak");
  roofs.fma_gflops =
      1e-9 * best_short_rate(threads, seconds, static_cast<double>(probe::flops_of_fma()) * 1000,
                             [](int, int64_t rounds) { return probe::fma(rounds * 1000); });
  announce("bf16 dot peak");
  if (probe::has_bf16_dot()) {
    roofs.bf16_gflops =
        1e-9 * best_short_rate(threads, seconds,
                               static_cast<double>(probe::flops_of_bf16_dot()) * 1000,
                               [](int, int64_t rounds) { return probe::bf16_dot(rounds * 1000); });
  }
  announce("widened bf16");
  roofs.widened_once_gflops = 1e-9 * measure_widened(threads, seconds / 2, 1);
  roofs.widened_gflops = 1e-9 * measure_widened(threads, seconds / 2, 8);
  announce("exp rate");
  roofs.exp_gops = 1e-9 * measure_exp(threads, seconds);
  std::vector<Lane> lanes = make_lanes(threads, buffer_bytes);
  announce("read bandwidth");
  roofs.read_gbs = 1e-9 * measure_read(threads, seconds, lanes);
  announce("copy bandwidth");
  roofs.copy_gbs = 1e-9 * measure_copy(threads, seconds, lanes);
  return roofs;
}

}  // namespace fa4::cli
