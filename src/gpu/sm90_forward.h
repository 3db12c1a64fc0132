// SPDX-License-Identifier: BSD-3-Clause
// Host twin of device/sm90/forward.cuh: its configurations, its source, its launch.
#pragma once

#include <fa4/attention.h>

#include <span>
#include <string>

#include "core/problem.h"
#include "gpu/jit/nvrtc.h"
#include "gpu/runtime.h"

namespace fa4::gpu::sm90 {

/// What warpgroups wait their turn for; the kernel's enum Order.
enum class Order : int { kNone = 0, kProducts = 1, kSoftmax = 2 };

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
  bool own_output = false;
  Order order = Order::kNone;
  bool dynamic = false;
  bool q_registers = false;
  int polynomial_share = 0;

  friend bool operator==(const ForwardConfig&, const ForwardConfig&) = default;
};

/// Rows of the table that configurations come from: tile shapes for head dims up to a bound, and
/// for bands over few keys (there small tiles waste less at the edges). A problem uses the first
/// row that it fits.
struct ForwardTile {
  int max_dim_qk;
  int max_dim_v;
  int max_band_keys;  ///< 0: any mask, any number of keys.
  int tile_keys;
  int warpgroups;
  int stages;
  bool own_output;
  Order order;
};
std::span<const ForwardTile> forward_tiles();

/// Every configuration that choose_forward() can give for the tables' own head dims: what compile
/// checks walk through.
std::vector<ForwardConfig> all_forward_configs();

/// The configuration for a problem that supports_forward() accepted.
ForwardConfig choose_forward(const core::Problem& problem);

/// What stands in the way of running `problem` with this kernel; empty if nothing.
std::string unsupported_forward(const core::Problem& problem);

unsigned forward_shared_bytes(const ForwardConfig& config);
jit::Program forward_program(const ForwardConfig& config);

/// A forward that is ready to run on one device.
class Forward {
 public:
  static Result<Forward> make(const Runtime& runtime, const core::Problem& problem);

  size_t workspace_bytes() const { return config_.dynamic ? kCounterBytes : 0; }
  Status run(const core::Problem& problem, const AttentionTensors& tensors, void* workspace,
             Stream stream) const;
  std::string describe() const;

 private:
  static constexpr size_t kCounterBytes = 64;

  Forward(const Runtime& runtime, const ForwardConfig& config, std::shared_ptr<const Kernel> kernel)
      : runtime_(&runtime), config_(config), kernel_(std::move(kernel)) {}

  const Runtime* runtime_;
  ForwardConfig config_;
  std::shared_ptr<const Kernel> kernel_;
};

}  // namespace fa4::gpu::sm90
