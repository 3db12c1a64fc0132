// SPDX-License-Identifier: BSD-3-Clause
// What this machine can do at most, measured: the roofs that attention is held against.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace fa4::cli {

/// Rates of `threads` threads together.
struct Roofs {
  int threads = 1;
  std::string target;                 ///< The vector unit that the probes used: "AVX2", ...
  double fma_gflops = 0;              ///< float32 multiply-adds from registers, 2 flop each.
  std::optional<double> bf16_gflops;  ///< bfloat16 dot products (AVX-512-BF16) from registers.
  double widened_once_gflops = 0;  ///< float32 multiply-adds of bfloat16 vectors that are widened
  double widened_gflops = 0;       ///< from the L1 cache, each for one of them, and for eight.
  double exp_gops = 0;             ///< 10^9 exponentials: range reduction, polynomial, scaling.
  double read_gbs = 0;             ///< Reading memory that is in no cache.
  double copy_gbs = 0;             ///< Copying it: bytes read and bytes written.

  /// The roof of matrix products in a dtype, whose operands are converted once and used often.
  double product_gflops(bool bf16) const { return bf16 && bf16_gflops ? *bf16_gflops : fma_gflops; }
  /// The same where an element serves `uses` multiply-adds before the next one is loaded.
  double streamed_gflops(bool bf16, int64_t uses) const {
    if (!bf16 || bf16_gflops) return product_gflops(bf16);
    return uses < 8 ? widened_once_gflops : widened_gflops;
  }
};

/// Measures. Each figure is the best of short runs that take about `seconds` together.
/// `buffer_bytes` is the size of the memory that is read and copied: at least four times the
/// last-level cache.
/// `announce` is called before each figure with its name.
Roofs measure_roofs(int threads, double seconds, int64_t buffer_bytes,
                    const std::function<void(const std::string&)>& announce);

/// Seconds that `threads` threads take together to read `bytes` bytes at `data`, as the read roof
/// does: for turns with something that has to read the same memory.
double time_read(int threads, const void* data, int64_t bytes);

/// Figures that measure_roofs() announces.
inline constexpr int kRoofSteps = 6;

// The probes, for measure_roofs(). Each returns a number that depends on all of its work, so that
// none of it can be left out.
namespace probe {

const char* target_name();
/// `iterations` rounds of multiply-adds; flops_of_fma() says how many flops a round is.
float fma(int64_t iterations);
int64_t flops_of_fma();
/// `rounds` times through `count` bfloat16 numbers (a power of two, 256 or more) that are widened,
/// each for `uses` (1 or 8) multiply-adds.
float widened_fma(const uint16_t* x, int64_t count, int64_t rounds, int uses);
/// 2^x of `count` floats (a multiple of 64).
float exp2(const float* x, int64_t count);
/// Sum of `count` floats (a multiple of 256).
float read(const float* x, int64_t count);
/// The same read as eight streams in turns (a multiple of 512).
float read_streams(const float* x, int64_t count);

bool has_bf16_dot();
float bf16_dot(int64_t iterations);
int64_t flops_of_bf16_dot();

}  // namespace probe
}  // namespace fa4::cli
