// SPDX-License-Identifier: BSD-3-Clause
// Where tensors live and where work runs.
#pragma once

#if defined(__cplusplus) && __cplusplus < 202002L
#error "fa4cpp needs C++20: compile with -std=c++20 or later"
#endif

#include <string>
#include <string_view>

namespace fa4 {

enum class DeviceType : int {
  kCpu = 0,
  kCuda = 1,  ///< Named so that a tensor can say it is there; see supports() for what runs on it.
  kEmulator = 2,  ///< GPU kernels, run on the CPU instruction by instruction; memory is the host's.
};

/// One device of one type. fa4 never moves data: all tensors of a call live on one device, and the
/// call runs there.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index) { return {DeviceType::kCuda, index}; }
  /// The GPU of that target, "sm_90a", emulated: right results, slowly. docs/emulator.md.
  static constexpr Device emulator(std::string_view target) {
    if (target == "sm_80") return {DeviceType::kEmulator, 80};
    if (target == "sm_90a") return {DeviceType::kEmulator, 90};
    if (target == "sm_100a") return {DeviceType::kEmulator, 100};
    return {DeviceType::kEmulator, -1};
  }
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0" or "emulator:sm_90a".
std::string to_string(Device device);

/// A queue of work on a device: a cudaStream_t as void*, or nothing. Calls on the CPU ignore it and
/// have finished when they return.
struct Stream {
  void* handle = nullptr;
};

}  // namespace fa4
