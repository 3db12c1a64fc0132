// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/runtime.h"

#include "gpu/emulator_runtime.h"

namespace fa4::gpu {

Result<const Runtime*> runtime_of(Device device) {
  switch (device.type) {
    case DeviceType::kCuda:
      return cuda_runtime(device.index);
    case DeviceType::kEmulator:
      return emulator_runtime(device);
    case DeviceType::kCpu:
      break;
  }
  return invalid_argument("device: is " + to_string(device) + "; allowed: a GPU");
}

}  // namespace fa4::gpu
