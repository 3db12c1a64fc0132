// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/configs.h"

#include "gpu/sm90_forward_config.h"

namespace fa4::gpu {

std::vector<KernelConfig> all_kernels() {
  std::vector<KernelConfig> kernels;
  for (const sm90::ForwardConfig& config : sm90::all_forward_configs()) {
    kernels.push_back(sm90::forward_kernel(config));
  }
  kernels.push_back(sm90::lengths_kernel());
  return kernels;
}

}  // namespace fa4::gpu
