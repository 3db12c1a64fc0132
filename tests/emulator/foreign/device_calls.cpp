// SPDX-License-Identifier: BSD-3-Clause
// What the device is, how much of it a kernel takes, and errors in words.
#include <algorithm>
#include <cstring>

#include "device.h"

using fa4::foreign::Device;
using fa4::foreign::fail;
using fa4::foreign::Function;
namespace emulator = fa4::emulator;

namespace {

constexpr int kSharedPerMultiprocessor = 228 * 1024;
constexpr int kSharedPerBlock = 227 * 1024;
constexpr int kSharedReserved = 1024;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr int kL2Bytes = 50 << 20;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "launch without a configuration"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "invalid cluster size"},
};

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& e : kErrors) {
    if (e.error == error) return &e;
  }
  return nullptr;
}

/// Blocks of the kernel that fit a multiprocessor by threads and shared memory (PTX does not say
/// how many registers a thread takes).
int blocks_that_fit(const Function& f, int threads, size_t shared) {
  if (threads < 1 || threads > 1024) return 0;
  const size_t bytes = shared + kSharedReserved + f.kernel->static_shared_end -
                       static_cast<size_t>(emulator::kSharedStart);
  const auto by_shared = static_cast<int>(kSharedPerMultiprocessor / bytes);
  const int by_threads = kThreadsPerMultiprocessor / ((threads + 31) / 32 * 32);
  return std::min({by_shared, by_threads, kBlocksPerMultiprocessor});
}

struct Attribute {
  cudaDeviceAttr name;
  int value;
};
constexpr Attribute kAttributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedPerBlock},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedPerMultiprocessor},
    {cudaDevAttrReservedSharedMemoryPerBlock, kSharedReserved},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrMaxThreadsPerMultiProcessor, kThreadsPerMultiprocessor},
    {cudaDevAttrMaxBlocksPerMultiprocessor, kBlocksPerMultiprocessor},
    {cudaDevAttrL2CacheSize, kL2Bytes},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrConcurrentKernels, 0},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrManagedMemory, 0},
    {cudaDevAttrConcurrentManagedAccess, 0},
    {cudaDevAttrMemoryPoolsSupported, 0},
    {cudaDevAttrCooperativeLaunch, 0},
    {cudaDevAttrClusterLaunch, 1},
};

cudaError_t check_device(int device) {
  if (device == 0) return cudaSuccess;
  return fail(cudaErrorInvalidDevice, "device " + std::to_string(device) + "; there is device 0");
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* e = find(error);
  return e == nullptr ? "unrecognized error code" : e->name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* e = find(error);
  return e == nullptr ? "unrecognized error code" : e->text;
}
cudaError_t cudaGetLastError() { return fa4::foreign::last_error(true); }
cudaError_t cudaPeekAtLastError() { return fa4::foreign::last_error(false); }

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return check_device(device); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return check_device(device); }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (const cudaError_t e = check_device(device); e != cudaSuccess) return e;
  std::memset(static_cast<void*>(out), 0, sizeof *out);
  out->major = Device::get().major();
  const std::string name = "fa4 emulator sm_" + std::to_string(out->major * 10);
  std::copy(name.begin(), name.end(), out->name);
  out->multiProcessorCount = Device::get().multiprocessors();
  out->totalGlobalMem = Device::memory_bytes();
  out->totalConstMem = 65536;
  out->sharedMemPerBlock = 48 * 1024;
  out->sharedMemPerBlockOptin = kSharedPerBlock;
  out->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  out->reservedSharedMemPerBlock = kSharedReserved;
  out->regsPerBlock = out->regsPerMultiprocessor = 65536;
  out->warpSize = 32;
  out->maxThreadsPerBlock = 1024;
  out->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  out->maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  const int threads[] = {1024, 1024, 64}, grid[] = {0x7fffffff, 65535, 65535};
  std::copy(threads, threads + 3, out->maxThreadsDim);
  std::copy(grid, grid + 3, out->maxGridSize);
  out->l2CacheSize = kL2Bytes;
  out->unifiedAddressing = out->clusterLaunch = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t e = check_device(device); e != cudaSuccess) return e;
  if (attribute == cudaDevAttrComputeCapabilityMajor) {
    return *value = Device::get().major(), cudaSuccess;
  }
  if (attribute == cudaDevAttrMultiProcessorCount) {
    return *value = Device::get().multiprocessors(), cudaSuccess;
  }
  for (const Attribute& a : kAttributes) {
    if (a.name == attribute) return *value = a.value, cudaSuccess;
  }
  return fail(cudaErrorNotSupported, "device attribute " + std::to_string(attribute) +
                                         " is not supported by the emulator");
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host,
                                                          int threads, size_t shared) {
  const Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  *blocks = blocks_that_fit(*f, threads, shared);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* host,
                                           const cudaLaunchConfig_t* config) {
  const Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  const dim3 block = config->blockDim;
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& a = config->attrs[i];
    if (a.id != cudaLaunchAttributeClusterDimension) continue;
    cluster = std::max(1u, a.val.clusterDim.x * a.val.clusterDim.y * a.val.clusterDim.z);
  }
  const int fit =
      blocks_that_fit(*f, static_cast<int>(block.x * block.y * block.z), config->dynamicSmemBytes);
  *clusters = fit * Device::get().multiprocessors() / static_cast<int>(cluster);
  return cudaSuccess;
}

}  // extern "C"
