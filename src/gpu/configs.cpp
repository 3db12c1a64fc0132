// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/configs.h"

#include "gpu/sm90_forward.h"

namespace fa4::gpu {
namespace {

constexpr double kSm90Budget = 0.6;

const char* short_name(DType dtype) { return dtype == DType::kBFloat16 ? "bf16" : "fp16"; }

const char* band_name(bool left, bool right) {
  if (left) return right ? "window" : "left";
  return right ? "causal" : "full";
}

std::string name_of(const sm90::ForwardConfig& c) {
  const std::string qk = std::to_string(c.dim_qk), v = std::to_string(c.dim_v);
  std::string name = "sm_90a/forward/";
  name.append(short_name(c.dtype)).append("/d").append(qk);
  if (v != qk) name.append("x").append(v);
  name.append("/").append(band_name(c.left, c.right));
  return name.append("/n").append(std::to_string(c.tile_keys));
}

}  // namespace

std::vector<KernelConfig> all_kernels() {
  std::vector<KernelConfig> kernels;
  for (const sm90::ForwardConfig& c : sm90::all_forward_configs()) {
    kernels.push_back({name_of(c), sm90::forward_program(c), "fa4_forward",
                       sm90::forward_shared_bytes(c), c.warpgroups == 3 ? 128 : 168, kSm90Budget});
  }
  return kernels;
}

}  // namespace fa4::gpu
