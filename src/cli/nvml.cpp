// SPDX-License-Identifier: BSD-3-Clause
#include "cli/nvml.h"

#include "gpu/dynamic_library.h"

namespace fa4::cli {

Nvml::Nvml() {
  gpu::DynamicLibrary library({"libnvidia-ml.so.1"});
  int (*init)() = nullptr;
  if (!library.is_open() || !library.find("nvmlInit_v2", init) ||
      !library.find("nvmlDeviceGetHandleByIndex_v2", handle_) ||
      !library.find("nvmlDeviceGetClockInfo", clock_) ||
      !library.find("nvmlDeviceGetPowerUsage", power_)) {
    return;
  }
  ready_ = init() == 0;
}

const Nvml& Nvml::instance() {
  static const Nvml nvml;
  return nvml;
}

Nvml::Sample Nvml::sample(unsigned device) const {
  constexpr int kMultiprocessors = 1;  // NVML_CLOCK_SM
  void* handle = nullptr;
  unsigned megahertz = 0, milliwatts = 0;
  if (!ready_ || handle_(device, &handle) != 0) return {};
  if (clock_(handle, kMultiprocessors, &megahertz) != 0) megahertz = 0;
  if (power_(handle, &milliwatts) != 0) milliwatts = 0;
  return {static_cast<double>(megahertz), milliwatts / 1000.0};
}

}  // namespace fa4::cli
