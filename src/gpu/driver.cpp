// SPDX-License-Identifier: BSD-3-Clause
// The Runtime that a real GPU is: the CUDA driver, in each device's primary context (the one that
// the CUDA runtime and PyTorch use).
#include <mutex>
#include <vector>

#include "gpu/driver_api.h"
#include "gpu/runtime.h"

namespace fa4::gpu {
namespace {

Status failed(const DriverApi& api, const char* call, CudaResult error) {
  constexpr CudaResult kOutOfMemory = 2;
  return {error == kOutOfMemory ? StatusCode::kOutOfMemory : StatusCode::kRuntimeError,
          driver_error(api, call, error)};
}

/// Makes a context current for a scope; the caller's context comes back after it.
class ContextScope {
 public:
  ContextScope(const DriverApi& api, void* context) : api_(api) {
    error_ = api_.cuCtxPushCurrent(context);
  }
  ~ContextScope() {
    void* popped = nullptr;
    if (error_ == 0) api_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const DriverApi& api_;
  CudaResult error_ = 0;
};

CudaPointer address_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

class DriverKernel final : public Kernel {
 public:
  DriverKernel(const DriverApi& api, void* context, void* module, void* function)
      : api_(api), context_(context), module_(module), function_(function) {}
  ~DriverKernel() override {
    const ContextScope scope(api_, context_);
    api_.cuModuleUnload(module_);
  }
  DriverKernel(const DriverKernel&) = delete;
  DriverKernel& operator=(const DriverKernel&) = delete;

  void* function() const { return function_; }

 private:
  const DriverApi& api_;
  void* context_;
  void* module_;
  void* function_;
};

class DriverRuntime final : public Runtime {
 public:
  DriverRuntime(const DriverApi& api, void* context, Properties properties)
      : api_(api), context_(context), properties_(std::move(properties)) {}

  const Properties& properties() const override { return properties_; }

  Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte> image,
                                             const std::string& entry,
                                             unsigned shared_bytes) const override {
    const ContextScope scope(api_, context_);
    void *module = nullptr, *function = nullptr;
    CudaResult error = api_.cuModuleLoadData(&module, image.data());
    if (error != 0) return failed(api_, "cuModuleLoadData", error);
    auto kernel = [&] { return std::make_shared<DriverKernel>(api_, context_, module, function); };
    error = api_.cuModuleGetFunction(&function, module, entry.c_str());
    if (error != 0) {
      kernel();  // unloads the module
      return failed(api_, "cuModuleGetFunction", error);
    }
    error =
        api_.cuFuncSetAttribute(function, kCudaFunctionSharedBytes, static_cast<int>(shared_bytes));
    if (error != 0) {
      kernel();
      return failed(api_, "cuFuncSetAttribute", error);
    }
    return std::shared_ptr<const Kernel>(kernel());
  }

  Status launch(const Kernel& kernel, const Launch& launch, std::span<std::byte> params,
                Stream stream) const override {
    const ContextScope scope(api_, context_);
    void* pointers[] = {params.data()};
    const CudaResult error = api_.cuLaunchKernel(
        static_cast<const DriverKernel&>(kernel).function(), launch.blocks, 1, 1, launch.threads, 1,
        1, launch.shared_bytes, stream.handle, pointers, nullptr);
    return error == 0 ? Status() : failed(api_, "cuLaunchKernel", error);
  }

  Status fill(void* data, uint32_t word, size_t count, Stream stream) const override {
    const ContextScope scope(api_, context_);
    const CudaResult error = api_.cuMemsetD32Async(address_of(data), word, count, stream.handle);
    return error == 0 ? Status() : failed(api_, "cuMemsetD32Async", error);
  }

  Result<TensorMap> tensor_map(const TensorMapSpec& spec) const override {
    constexpr int kFloat16 = 6, kBFloat16 = 9;  // CUtensorMapDataType
    constexpr int kNoInterleave = 0, kSwizzle128 = 3, kPromote128 = 2, kZeroFill = 0;
    constexpr uint32_t kDense[4] = {1, 1, 1, 1};
    const ContextScope scope(api_, context_);
    TensorMap map;
    const CudaResult error = api_.cuTensorMapEncodeTiled(
        &map, spec.dtype == DType::kFloat16 ? kFloat16 : kBFloat16, 4, const_cast<void*>(spec.data),
        spec.dims.data(), spec.strides.data(), spec.box.data(), kDense, kNoInterleave, kSwizzle128,
        kPromote128, kZeroFill);
    if (error != 0) return failed(api_, "cuTensorMapEncodeTiled", error);
    return map;
  }

  Result<void*> allocate(size_t bytes) const override {
    const ContextScope scope(api_, context_);
    CudaPointer data = 0;
    const CudaResult error = api_.cuMemAlloc(&data, bytes);
    if (error != 0) return failed(api_, "cuMemAlloc", error);
    return reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  }
  Status release(void* data) const override {
    const ContextScope scope(api_, context_);
    const CudaResult error = api_.cuMemFree(address_of(data));
    return error == 0 ? Status() : failed(api_, "cuMemFree", error);
  }
  Status copy_in(void* device, const void* host, size_t bytes) const override {
    const ContextScope scope(api_, context_);
    const CudaResult error = api_.cuMemcpyHtoD(address_of(device), host, bytes);
    return error == 0 ? Status() : failed(api_, "cuMemcpyHtoD", error);
  }
  Status copy_out(void* host, const void* device, size_t bytes) const override {
    const ContextScope scope(api_, context_);
    const CudaResult error = api_.cuMemcpyDtoH(host, address_of(device), bytes);
    return error == 0 ? Status() : failed(api_, "cuMemcpyDtoH", error);
  }
  Status synchronize(Stream stream) const override {
    const ContextScope scope(api_, context_);
    const CudaResult error = api_.cuStreamSynchronize(stream.handle);
    return error == 0 ? Status() : failed(api_, "cuStreamSynchronize", error);
  }

 private:
  const DriverApi& api_;
  void* context_;
  Properties properties_;
};

Properties read_properties(const DriverApi& api, CudaDevice device) {
  Properties p;
  char name[256] = {};
  api.cuDeviceGetName(name, sizeof name, device);
  p.name = name;
  int shared = 0, l2 = 0;
  api.cuDeviceGetAttribute(&p.major, kCudaMajor, device);
  api.cuDeviceGetAttribute(&p.minor, kCudaMinor, device);
  api.cuDeviceGetAttribute(&p.multiprocessors, kCudaMultiprocessors, device);
  api.cuDeviceGetAttribute(&l2, kCudaL2Bytes, device);
  api.cuDeviceGetAttribute(&shared, kCudaSharedBytesOptin, device);
  p.l2_bytes = l2;
  p.shared_bytes = shared;
  return p;
}

Result<std::unique_ptr<const Runtime>> open_device(const DriverApi& api, int index) {
  CudaDevice device = 0;
  void* context = nullptr;
  CudaResult error = api.cuDeviceGet(&device, index);
  if (error != 0) return failed(api, "cuDeviceGet", error);
  // Kept for the life of the process, as the CUDA runtime keeps it.
  error = api.cuDevicePrimaryCtxRetain(&context, device);
  if (error != 0) return failed(api, "cuDevicePrimaryCtxRetain", error);
  return std::unique_ptr<const Runtime>(
      std::make_unique<DriverRuntime>(api, context, read_properties(api, device)));
}

}  // namespace

Result<const Runtime*> cuda_runtime(int index) {
  std::string reason;
  const DriverApi* api = load_driver(reason);
  if (api == nullptr)
    return unsupported("device: is " + to_string(Device::cuda(index)) + "; " + reason);
  int count = 0;
  const CudaResult error = api->cuDeviceGetCount(&count);
  if (error != 0) return failed(*api, "cuDeviceGetCount", error);
  if (index < 0 || index >= count) {
    return unsupported("device: is " + to_string(Device::cuda(index)) + "; this machine has " +
                       std::to_string(count) + " CUDA devices");
  }
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const Runtime>> runtimes;
  const std::lock_guard lock(mutex);
  if (runtimes.size() < static_cast<size_t>(count)) runtimes.resize(static_cast<size_t>(count));
  auto& runtime = runtimes[static_cast<size_t>(index)];
  if (runtime == nullptr) {
    auto opened = open_device(*api, index);
    if (!opened.ok()) return opened.status();
    runtime = std::move(opened).value();
  }
  return runtime.get();
}

}  // namespace fa4::gpu
