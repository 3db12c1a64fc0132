// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "gpu/emulator_settings.h"
#include "unsupported.h"

namespace fa4::foreign {
namespace {

constexpr std::align_val_t kAlignment{256};
thread_local cudaError_t g_last_error = cudaSuccess;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> ptx_files(const char* folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

cudaError_t fail(cudaError_t error, const std::string& what) {
  std::fprintf(stderr, "fa4_foreign: %s (%s)\n", what.c_str(), cudaGetErrorName(error));
  g_last_error = error;
  return error;
}

cudaError_t last_error(bool clear) {
  const cudaError_t error = g_last_error;
  if (clear) g_last_error = cudaSuccess;
  return error;
}

int unsupported(const char* name) {
  return fail(cudaErrorNotSupported, std::string(name) + " is not supported by the emulator");
}

Device& Device::get() {
  // Never destroyed: programs call from their own destructors.
  static auto* device = new Device;
  return *device;
}

void Device::register_function(const void* host, const char* name) {
  const std::lock_guard lock(mutex_);
  functions_[host].name = name;
}

void Device::register_variable(const void* host, const char* name) {
  const std::lock_guard lock(mutex_);
  variables_[host] = name;
}

void Device::load() {
  if (loaded_) return;
  loaded_ = true;
  const char* folder = std::getenv("FA4_FOREIGN_PTX");
  if (folder == nullptr) {
    refused_ = "; FA4_FOREIGN_PTX, the folder of the PTX, is not set";
    return;
  }
  const auto files = ptx_files(folder);
  if (files.empty()) refused_ = "; there is no .ptx file in " + std::string(folder);
  for (const auto& file : files) {
    auto program = emulator::load(read(file));
    if (program.ok()) {
      programs_.push_back(*std::move(program));
    } else {
      refused_ += "; " + file.string() + ": " + program.status().message();
    }
  }
}

std::shared_ptr<const emulator::Kernel> Device::find_kernel(const std::string& name) {
  for (const auto& program : programs_) {
    if (auto kernel = program->find(name)) return kernel;
  }
  return nullptr;
}

Function* Device::function(const void* host) {
  const std::lock_guard lock(mutex_);
  load();
  Function* found = nullptr;
  if (const auto it = functions_.find(host); it != functions_.end()) found = &it->second;
  for (auto& [address, function] : functions_) {
    if (&function == host) found = &function;
  }
  if (found == nullptr) {
    fail(cudaErrorInvalidDeviceFunction, "a kernel that the program did not register");
    return nullptr;
  }
  if (found->kernel == nullptr) found->kernel = find_kernel(found->name);
  if (found->kernel == nullptr) {
    fail(cudaErrorInvalidDeviceFunction, "the PTX has no kernel " + found->name + refused_);
    return nullptr;
  }
  return found;
}

const emulator::ModuleData::Variable* Device::variable(const void* host) {
  const std::lock_guard lock(mutex_);
  load();
  const auto it = variables_.find(host);
  if (it == variables_.end()) {
    fail(cudaErrorInvalidSymbol, "a variable that the program did not register");
    return nullptr;
  }
  for (const auto& program : programs_) {
    for (const auto& variable : program->data->variables) {
      if (variable.name == it->second) return &variable;
    }
  }
  fail(cudaErrorInvalidSymbol, "the PTX has no variable " + it->second + refused_);
  return nullptr;
}

void* Device::allocate(size_t bytes, cudaMemoryType type) {
  const size_t all = memory_bytes();
  if (bytes > all - std::min(all, allocated_bytes())) return nullptr;
  void* data = ::operator new(bytes, kAlignment, std::nothrow);
  if (data == nullptr) return nullptr;
  std::memset(data, 0xff, bytes);  // NaN, so that a read of what nobody wrote shows
  const std::lock_guard lock(mutex_);
  allocations_[static_cast<std::byte*>(data)] = {bytes, type};
  return data;
}

bool Device::release(void* data) {
  const std::lock_guard lock(mutex_);
  if (allocations_.erase(static_cast<std::byte*>(data)) == 0) return false;
  ::operator delete(data, kAlignment);
  return true;
}

const Device::Allocation* Device::find(const void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto* at = static_cast<const std::byte*>(data);
  auto it = allocations_.upper_bound(at);
  if (it == allocations_.begin()) return nullptr;
  --it;
  const auto offset = static_cast<size_t>(at - it->first);
  if (offset >= it->second.bytes || bytes > it->second.bytes - offset) return nullptr;
  return &it->second;
}

size_t Device::memory_bytes() {
  constexpr size_t kMost = size_t{64} << 30;
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return std::min(kMost, pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

size_t Device::allocated_bytes() {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [data, allocation] : allocations_) sum += allocation.bytes;
  return sum;
}

emulator::MemoryMap Device::memory() {
  const std::lock_guard lock(mutex_);
  emulator::MemoryMap map;
  for (const auto& [data, allocation] : allocations_) map.add(data, allocation.bytes);
  // Kernels may name another module's variables by address.
  for (const auto& program : programs_) {
    for (const auto& v : program->data->variables) map.add(v.data, v.bytes, !v.constant);
  }
  return map;
}

/// The compute capability is that of the first kernel's target: sm_100a is 10.0.
int Device::major() {
  const std::lock_guard lock(mutex_);
  load();
  for (const auto& program : programs_) {
    if (program->kernels.empty()) continue;
    const std::string& target = program->kernels.front()->target;
    int number = 0;
    std::from_chars(target.data() + std::min<size_t>(3, target.size()),
                    target.data() + target.size(), number);
    return number / 10;
  }
  return 10;
}

int Device::minor() { return 0; }

int Device::multiprocessors() {
  const auto settings = gpu::emulator_settings();
  return settings.ok() ? settings->multiprocessors : gpu::EmulatorSettings{}.multiprocessors;
}

}  // namespace fa4::foreign
