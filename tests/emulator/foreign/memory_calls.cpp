// SPDX-License-Identifier: BSD-3-Clause
// Memory: allocations, copies, fills, variables of modules.
#include <algorithm>
#include <cstring>

#include "device.h"

using fa4::foreign::Device;
using fa4::foreign::fail;

namespace {

cudaError_t allocate(void** data, size_t bytes, cudaMemoryType type) {
  if (data == nullptr) return fail(cudaErrorInvalidValue, "an allocation without a result");
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  *data = Device::get().allocate(bytes, type);
  if (*data != nullptr) return cudaSuccess;
  return fail(cudaErrorMemoryAllocation, "an allocation of " + std::to_string(bytes) + " bytes");
}

cudaError_t release(void* data) {
  if (data == nullptr || Device::get().release(data)) return cudaSuccess;
  return fail(cudaErrorInvalidValue, "a release of what was not allocated");
}

cudaError_t check(const char* what, const void* data, size_t bytes) {
  if (bytes == 0 || Device::get().find(data, bytes) != nullptr) return cudaSuccess;
  return fail(cudaErrorInvalidValue, std::string(what) + " of " + std::to_string(bytes) +
                                         " bytes that lie in no allocation");
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) {
    if (const cudaError_t e = check("a copy to the device", to, bytes); e != cudaSuccess) return e;
  }
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) {
    if (const cudaError_t e = check("a copy from the device", from, bytes); e != cudaSuccess) {
      return e;
    }
  }
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t fill(void* data, int value, size_t bytes) {
  if (const cudaError_t e = check("a fill", data, bytes); e != cudaSuccess) return e;
  if (bytes > 0) std::memset(data, value, bytes);
  return cudaSuccess;
}

/// The variable's memory from `offset`, or null (said already).
std::byte* symbol(const void* host, size_t bytes, size_t offset) {
  const auto* variable = Device::get().variable(host);
  if (variable == nullptr) return nullptr;
  if (offset <= variable->bytes && bytes <= variable->bytes - offset) {
    return variable->data + offset;
  }
  fail(cudaErrorInvalidValue, variable->name + " has " + std::to_string(variable->bytes) +
                                  " bytes; " + std::to_string(offset + bytes) + " were asked for");
  return nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return allocate(data, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return allocate(data, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}
cudaError_t cudaMallocManaged(void** data, size_t bytes, unsigned) {
  return allocate(data, bytes, cudaMemoryTypeManaged);
}
cudaError_t cudaMallocPitch(void** data, size_t* pitch, size_t width, size_t height) {
  if (height != 0 && width > Device::memory_bytes() / height) {
    return fail(cudaErrorMemoryAllocation, "an allocation of " + std::to_string(height) +
                                               " rows of " + std::to_string(width) + " bytes");
  }
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(data, *pitch * height);
}
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return release(data); }
cudaError_t cudaFreeHost(void* data) { return release(data); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  for (size_t y = 0; y < height; ++y) {
    const cudaError_t e = copy(static_cast<std::byte*>(to) + y * to_pitch,
                               static_cast<const std::byte*>(from) + y * from_pitch, width, kind);
    if (e != cudaSuccess) return e;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) { return fill(data, value, bytes); }
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  return fill(data, value, bytes);
}

cudaError_t cudaMemcpyToSymbol(const void* host, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind) {
  std::byte* to = symbol(host, bytes, offset);
  if (to == nullptr) return cudaErrorInvalidSymbol;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* host, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpyToSymbol(host, from, bytes, offset, kind);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* host, size_t bytes, size_t offset,
                                 cudaMemcpyKind) {
  const std::byte* from = symbol(host, bytes, offset);
  if (from == nullptr) return cudaErrorInvalidSymbol;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* host, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpyFromSymbol(to, host, bytes, offset, kind);
}
cudaError_t cudaGetSymbolAddress(void** data, const void* host) {
  *data = symbol(host, 0, 0);
  return *data == nullptr ? cudaErrorInvalidSymbol : cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* host) {
  const auto* variable = Device::get().variable(host);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  *bytes = variable->bytes;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = Device::memory_bytes();
  *free = *total - std::min(*total, Device::get().allocated_bytes());
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* data) {
  *out = {};
  const auto* allocation = Device::get().find(data, 1);
  out->type = allocation == nullptr ? cudaMemoryTypeUnregistered : allocation->type;
  if (allocation == nullptr) return cudaSuccess;
  out->devicePointer = out->hostPointer = const_cast<void*>(data);
  if (out->type == cudaMemoryTypeDevice) out->hostPointer = nullptr;
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return check("a device pointer", host, 1);
}

}  // extern "C"
