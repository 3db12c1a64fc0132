// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/driver_api.h"

namespace fa4::gpu {
namespace {

struct Driver {
  DriverApi api{};
  std::string reason;  ///< Empty if the driver works.
};

void find_functions(DynamicLibrary& library, DriverApi& api) {
  library.find("cuInit", api.cuInit);
  library.find("cuDriverGetVersion", api.cuDriverGetVersion);
  library.find("cuGetErrorName", api.cuGetErrorName);
  library.find("cuGetErrorString", api.cuGetErrorString);
  library.find("cuDeviceGetCount", api.cuDeviceGetCount);
  library.find("cuDeviceGet", api.cuDeviceGet);
  library.find("cuDeviceGetName", api.cuDeviceGetName);
  library.find("cuDeviceGetAttribute", api.cuDeviceGetAttribute);
  library.find("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain);
  library.find("cuCtxGetCurrent", api.cuCtxGetCurrent);
  library.find("cuCtxPushCurrent_v2", api.cuCtxPushCurrent);
  library.find("cuCtxPopCurrent_v2", api.cuCtxPopCurrent);
  library.find("cuModuleLoadData", api.cuModuleLoadData);
  library.find("cuModuleUnload", api.cuModuleUnload);
  library.find("cuModuleGetFunction", api.cuModuleGetFunction);
  library.find("cuFuncSetAttribute", api.cuFuncSetAttribute);
  library.find("cuLaunchKernelEx", api.cuLaunchKernelEx);
  library.find("cuMemAlloc_v2", api.cuMemAlloc);
  library.find("cuMemFree_v2", api.cuMemFree);
  library.find("cuMemcpyHtoD_v2", api.cuMemcpyHtoD);
  library.find("cuMemcpyDtoH_v2", api.cuMemcpyDtoH);
  library.find("cuMemsetD32Async", api.cuMemsetD32Async);
  library.find("cuStreamCreate", api.cuStreamCreate);
  library.find("cuStreamDestroy_v2", api.cuStreamDestroy);
  library.find("cuStreamSynchronize", api.cuStreamSynchronize);
  library.find("cuStreamWaitEvent", api.cuStreamWaitEvent);
  library.find("cuEventCreate", api.cuEventCreate);
  library.find("cuEventDestroy_v2", api.cuEventDestroy);
  library.find("cuEventRecord", api.cuEventRecord);
  library.find("cuEventSynchronize", api.cuEventSynchronize);
  library.find("cuEventElapsedTime", api.cuEventElapsedTime);
  library.find("cuTensorMapEncodeTiled", api.cuTensorMapEncodeTiled);
}

Driver open_driver() {
  Driver driver;
  DynamicLibrary library({"libcuda.so.1"});
  if (!library.is_open()) {
    driver.reason = "there is no CUDA driver: " + library.tried();
    return driver;
  }
  find_functions(library, driver.api);
  if (!library.missing().empty()) {
    driver.reason = "the CUDA driver " + library.name() + " lacks " + library.missing() +
                    "; needed: one for CUDA 12.0 or later";
    return driver;
  }
  const CudaResult error = driver.api.cuInit(0);
  if (error != 0) driver.reason = driver_error(driver.api, "cuInit", error);
  return driver;
}

}  // namespace

const DriverApi* load_driver(std::string& reason) {
  static const Driver driver = open_driver();
  reason = driver.reason;
  return driver.reason.empty() ? &driver.api : nullptr;
}

std::string driver_error(const DriverApi& api, const char* call, CudaResult error) {
  const char *name = nullptr, *text = nullptr;
  api.cuGetErrorName(error, &name);
  api.cuGetErrorString(error, &text);
  return std::string(call) + ": " + (name != nullptr ? name : "error " + std::to_string(error)) +
         (text != nullptr ? " (" + std::string(text) + ")" : "");
}

}  // namespace fa4::gpu
