// SPDX-License-Identifier: BSD-3-Clause
// What the Hopper forward can be compiled for: the one list of its tiles and configurations, and
// the choice among them. Pure functions of the problem.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.h"
#include "gpu/configs.h"
#include "gpu/runtime.h"

namespace fa4::gpu::sm90 {

constexpr int kRowsPerWarpgroup = 64;
constexpr int kWarpgroupThreads = 128;
constexpr int kPanelCols = 64;  ///< Columns of a tile that lie side by side in shared memory.
constexpr int64_t kMaxRows = int64_t{1} << 28;  ///< Sums of lengths and limits stay within 32 bits.

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What warpgroups wait their turn for; the kernel's enum Order.
enum class Order : int { kNone = 0, kProducts = 1, kSoftmax = 2 };

/// Types of the numbers in tensors beside q, k and v; the kernel's enum Scalar.
enum class Scalar : int { kAbsent = 0, kFloat32 = 1, kFloat64 = 2, kBFloat16 = 3, kFloat16 = 4 };
Scalar scalar_of(const TensorSpec& spec);

/// What happens to scores; the kernel's ScoreConfig.
struct ScoreConfig {
  bool softcap = false;
  bool alibi = false;
  bool mask = false;
  Scalar bias = Scalar::kAbsent;

  bool any() const { return softcap || alibi || hides(); }
  bool hides() const { return mask || bias != Scalar::kAbsent; }
  friend bool operator==(const ScoreConfig&, const ScoreConfig&) = default;
};

/// What a kernel is compiled for; the kernel's ForwardConfig, field by field.
struct ForwardConfig {
  DType dtype = DType::kBFloat16;
  int dim_qk = 0;  ///< Multiple of 16.
  int dim_v = 0;
  int tile_keys = 0;
  int warpgroups = 0;
  int stages = 0;
  int consumer_registers = 0;
  int producer_registers = 0;
  bool left = false;
  bool right = false;
  bool varlen = false;
  bool packed = false;
  int output_panels = 0;
  Order order = Order::kNone;
  bool overlap = false;
  bool pair = false;
  bool dynamic = false;
  bool q_registers = false;
  bool always_rescale = false;
  int polynomial_share = 0;
  ScoreConfig score;

  /// CTAs a tile of queries.
  int ctas() const { return pair ? 2 : 1; }

  friend bool operator==(const ForwardConfig&, const ForwardConfig&) = default;
};

/// Rows of the table that configurations come from: tile shapes for head dims up to a bound, for up
/// to a number of keys (small tiles waste less at the edges), for kernels that read a bias or a
/// mask, and for pairs of CTAs, which take long sequences of one length. A problem uses the first
/// row that it fits.
struct ForwardTile {
  int max_dim_qk;
  int max_dim_v;
  int max_keys;       ///< Without a band.
  int max_band_keys;  ///< Under one.
  bool hides;         ///< With a bias or a mask.
  bool pair;
  int tile_keys;
  int warpgroups;
  int stages;
  int output_panels;
  Order order;
  bool overlap;  ///< Where nothing changes scores between a product and the softmax.
};
std::span<const ForwardTile> forward_tiles();

/// For each row of the table: every mask, lengths from a list, packed heads, every modifier.
std::vector<ForwardConfig> all_forward_configs();

/// The configuration for a problem that unsupported_forward() has nothing against, with pairs of
/// CTAs from `pair_keys` keys on.
ForwardConfig choose_forward(const core::Problem& problem, int64_t pair_keys = kPairKeys);

/// `config` with changes such as "tile_keys=96,warpgroups=4": for tuning. Registers follow.
Result<ForwardConfig> vary(ForwardConfig config, std::string_view changes);

/// What stands in the way of running `problem` with this kernel; empty if nothing.
std::string unsupported_forward(const core::Problem& problem);

unsigned forward_shared_bytes(const ForwardConfig& config);
/// "bf16/d128/causal-varlen/192x80": unique.
std::string to_string(const ForwardConfig& config);
KernelConfig forward_kernel(const ForwardConfig& config);
/// The kernel that lists tiles of sequences of many lengths.
KernelConfig lengths_kernel();

/// Positions of a sequence that one warpgroup's tile holds: 64, or fewer with several heads each.
inline int pack_rows(const ForwardConfig& config, int64_t group) {
  return config.packed ? kRowsPerWarpgroup / static_cast<int>(group) : kRowsPerWarpgroup;
}

/// Bytes of the kernels' parameter structs, which the sources assert.
constexpr int kForwardParamsBytes = 896;
constexpr int kLengthsParamsBytes = 224;

}  // namespace fa4::gpu::sm90
