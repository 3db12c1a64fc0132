// SPDX-License-Identifier: BSD-3-Clause
// Memory on a device, by its runtime.
#pragma once

#include "gpu/runtime.h"

namespace fa4::cli {

/// Released at the end. The constructor throws Error where there is not enough.
class DeviceBuffer {
 public:
  DeviceBuffer(const gpu::Runtime& runtime, size_t bytes)
      : runtime_(runtime), data_(runtime.allocate(bytes).value()) {}
  ~DeviceBuffer() { (void)runtime_.release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() const { return data_; }

 private:
  const gpu::Runtime& runtime_;
  void* data_;
};

}  // namespace fa4::cli
