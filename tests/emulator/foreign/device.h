// SPDX-License-Identifier: BSD-3-Clause
// The device that a foreign program sees: kernels and variables that it registered, memory that it
// allocated, its last error. One for the process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace fa4::foreign {

/// Says what is wrong on standard error, keeps it as the last error, and returns it.
cudaError_t fail(cudaError_t error, const std::string& what);
/// The last error; `clear` as cudaGetLastError does.
cudaError_t last_error(bool clear);

/// A kernel as the program knows it.
struct Function {
  std::string name;  ///< Mangled, as in the PTX.
  std::shared_ptr<const emulator::Kernel> kernel;
  int max_dynamic_shared = 48 * 1024;
  bool large_clusters = false;
};

class Device {
 public:
  static Device& get();

  void register_function(const void* host, const char* name);
  void register_variable(const void* host, const char* name);

  /// The kernel behind a host function or a handle from cudaGetKernel(); null if there is none
  /// (said already).
  Function* function(const void* host);
  /// The memory of a module's variable, by the address of its shadow in the program.
  const emulator::ModuleData::Variable* variable(const void* host);

  void* allocate(size_t bytes, cudaMemoryType type);
  bool release(void* data);
  struct Allocation {
    size_t bytes;
    cudaMemoryType type;
  };
  /// The allocation that holds `bytes` bytes at `data`, or null.
  const Allocation* find(const void* data, size_t bytes);
  size_t allocated_bytes();
  /// What the device is said to have: no more than this machine can give.
  static size_t memory_bytes();
  /// All of them.
  emulator::MemoryMap memory();

  int major();
  int minor();
  int multiprocessors();

 private:
  void load();
  std::shared_ptr<const emulator::Kernel> find_kernel(const std::string& name);

  std::recursive_mutex mutex_;
  bool loaded_ = false;
  std::vector<std::shared_ptr<const emulator::Program>> programs_;
  std::string refused_;  ///< Files that could not be loaded.
  std::map<const void*, Function> functions_;
  std::map<const void*, std::string> variables_;
  std::map<const std::byte*, Allocation> allocations_;
};

}  // namespace fa4::foreign
