// SPDX-License-Identifier: BSD-3-Clause
// The part of the CUDA driver API that fa4 uses, declared here so that no CUDA header is needed to
// build: libcuda.so.1 keeps these signatures. Source: the CUDA Driver API reference, 12.0 and
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/dynamic_library.h"

namespace fa4::gpu {

using CudaResult = int;  ///< CUresult; 0 = success.
using CudaDevice = int;
using CudaPointer = unsigned long long;  ///< CUdeviceptr

/// Attributes of cuDeviceGetAttribute and cuFuncSetAttribute.
enum CudaAttribute : int {
  kCudaMultiprocessors = 16,
  kCudaL2Bytes = 38,
  kCudaMajor = 75,
  kCudaMinor = 76,
  kCudaSharedBytesOptin = 97,
  kCudaFunctionSharedBytes = 8,
};

/// CUlaunchAttribute.
struct CudaLaunchAttribute {
  enum Id : int { kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };
  union Value {
    char bytes[64];
    unsigned cluster[3];
    int programmatic;
  };
  Id id;
  char padding[4];
  Value value;
};
static_assert(sizeof(CudaLaunchAttribute) == 72);

/// CUlaunchConfig.
struct CudaLaunch {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  CudaLaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(CudaLaunch) == 56);

/// Function table; every pointer is set if `status` of load_driver() is ok.
struct DriverApi {
  CudaResult (*cuInit)(unsigned flags);
  CudaResult (*cuDriverGetVersion)(int* version);
  CudaResult (*cuGetErrorName)(CudaResult error, const char** name);
  CudaResult (*cuGetErrorString)(CudaResult error, const char** text);
  CudaResult (*cuDeviceGetCount)(int* count);
  CudaResult (*cuDeviceGet)(CudaDevice* device, int ordinal);
  CudaResult (*cuDeviceGetName)(char* name, int bytes, CudaDevice device);
  CudaResult (*cuDeviceGetAttribute)(int* value, int attribute, CudaDevice device);
  CudaResult (*cuDevicePrimaryCtxRetain)(void** context, CudaDevice device);
  CudaResult (*cuCtxGetCurrent)(void** context);
  CudaResult (*cuCtxPushCurrent)(void* context);
  CudaResult (*cuCtxPopCurrent)(void** context);
  CudaResult (*cuModuleLoadData)(void** module, const void* image);
  CudaResult (*cuModuleUnload)(void* module);
  CudaResult (*cuModuleGetFunction)(void** function, void* module, const char* name);
  CudaResult (*cuFuncSetAttribute)(void* function, int attribute, int value);
  CudaResult (*cuLaunchKernelEx)(const CudaLaunch* launch, void* function, void** params,
                                 void** extra);
  CudaResult (*cuMemAlloc)(CudaPointer* data, size_t bytes);
  CudaResult (*cuMemFree)(CudaPointer data);
  CudaResult (*cuMemcpyHtoD)(CudaPointer device, const void* host, size_t bytes);
  CudaResult (*cuMemcpyDtoH)(void* host, CudaPointer device, size_t bytes);
  CudaResult (*cuMemsetD32Async)(CudaPointer data, unsigned word, size_t count, void* stream);
  CudaResult (*cuStreamCreate)(void** stream, unsigned flags);
  CudaResult (*cuStreamDestroy)(void* stream);
  CudaResult (*cuStreamSynchronize)(void* stream);
  CudaResult (*cuStreamWaitEvent)(void* stream, void* event, unsigned flags);
  CudaResult (*cuEventCreate)(void** event, unsigned flags);
  CudaResult (*cuEventDestroy)(void* event);
  CudaResult (*cuEventRecord)(void* event, void* stream);
  CudaResult (*cuEventSynchronize)(void* event);
  CudaResult (*cuEventElapsedTime)(float* milliseconds, void* begin, void* end);
  CudaResult (*cuTensorMapEncodeTiled)(void* map, int dtype, uint32_t rank, void* data,
                                       const uint64_t* dims, const uint64_t* strides,
                                       const uint32_t* box, const uint32_t* element_strides,
                                       int interleave, int swizzle, int l2_promotion,
                                       int out_of_bounds_fill);
};

/// The driver, opened and initialised once per process. Null, with `reason`, if there is none.
const DriverApi* load_driver(std::string& reason);

/// "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string driver_error(const DriverApi& api, const char* call, CudaResult error);

}  // namespace fa4::gpu
