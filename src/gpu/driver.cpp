// SPDX-License-Identifier: BSD-3-Clause
// The Runtime that a real GPU is: the CUDA driver, in each device's primary context (the one that
// the CUDA runtime and PyTorch use).
#include <array>
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

/// Makes a context current for a scope, unless it is; the caller's context comes back after it.
class ContextScope {
 public:
  ContextScope(const DriverApi& api, void* context) : api_(api) {
    void* current = nullptr;
    if (api_.cuCtxGetCurrent(&current) == 0 && current == context) return;
    pushed_ = api_.cuCtxPushCurrent(context) == 0;
  }
  ~ContextScope() {
    void* popped = nullptr;
    if (pushed_) api_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const DriverApi& api_;
  bool pushed_ = false;
};

/// A thread's last tensor maps: a model's tensors come again, call after call, and the driver takes
/// longer to encode one than to look it up.
class RecentMaps {
 public:
  const TensorMap* find(const TensorMapSpec& spec) const {
    const Entry& entry = entries_[place_of(spec)];
    return entry.known && entry.spec == spec ? &entry.map : nullptr;
  }
  void keep(const TensorMapSpec& spec, const TensorMap& map) {
    entries_[place_of(spec)] = {true, spec, map};
  }

 private:
  static constexpr size_t kEntries = 64;
  struct Entry {
    bool known = false;
    TensorMapSpec spec;
    TensorMap map;
  };

  static size_t place_of(const TensorMapSpec& spec) {
    // Allocations are aligned to 256 bytes; K and V of one packed tensor differ by less.
    const auto address = reinterpret_cast<uintptr_t>(spec.data);
    return (address >> 4 ^ address >> 9 ^ address >> 15 ^ spec.box[1]) % kEntries;
  }

  std::array<Entry, kEntries> entries_;
};

CudaPointer address_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

/// CUtensorMapDataType; -1: there is none.
int tensor_map_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 6;
    case DType::kFloat32:
      return 7;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
      return 9;
    case DType::kInt32:
      return 3;
    case DType::kInt64:
      return 5;
    case DType::kBool:
      return 0;
  }
  return -1;
}

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
  CodeFormat code_format() const override { return CodeFormat::kCubin; }

  Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte> code,
                                             const std::string& entry,
                                             unsigned shared_bytes) const override {
    const ContextScope scope(api_, context_);
    void *module = nullptr, *function = nullptr;
    CudaResult error = api_.cuModuleLoadData(&module, code.data());
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

  Status launch(const Kernel& kernel, const Launch& launch, std::span<const std::byte> params,
                Stream stream) const override {
    using Attribute = CudaLaunchAttribute;
    Attribute attributes[2] = {};
    CudaLaunch config = {{launch.blocks, 1, 1},
                         {launch.threads, 1, 1},
                         launch.shared_bytes,
                         stream.handle,
                         attributes,
                         0};
    if (launch.cluster > 1) {
      Attribute& cluster = attributes[config.attribute_count++];
      cluster.id = Attribute::kClusterDimension;
      cluster.value.cluster[0] = launch.cluster;
      cluster.value.cluster[1] = cluster.value.cluster[2] = 1;
    }
    if (launch.overlaps_previous) {
      Attribute& overlap = attributes[config.attribute_count++];
      overlap.id = Attribute::kProgrammaticStreamSerialization;
      overlap.value.programmatic = 1;
    }
    void* pointers[] = {const_cast<std::byte*>(params.data())};
    return call("cuLaunchKernelEx", api_.cuLaunchKernelEx, &config,
                static_cast<const DriverKernel&>(kernel).function(), pointers, nullptr);
  }

  Status encode(const TensorMapSpec& spec, TensorMap& map) const override {
    thread_local RecentMaps recent;
    if (const TensorMap* known = recent.find(spec)) {
      map = *known;
      return {};
    }
    constexpr uint32_t kDense[TensorMapSpec::kMaxRank] = {1, 1, 1, 1, 1};
    constexpr int kNoInterleave = 0, kPromote128 = 2, kZeroFill = 0;
    const Status status =
        call("cuTensorMapEncodeTiled", api_.cuTensorMapEncodeTiled, &map,
             tensor_map_dtype(spec.dtype), static_cast<uint32_t>(spec.rank),
             const_cast<void*>(spec.data), spec.dims.data(), spec.strides.data(), spec.box.data(),
             kDense, kNoInterleave, static_cast<int>(spec.swizzle), kPromote128, kZeroFill);
    if (status.ok()) recent.keep(spec, map);
    return status;
  }

  Result<void*> allocate(size_t bytes) const override {
    CudaPointer data = 0;
    const Status status = call("cuMemAlloc", api_.cuMemAlloc, &data, bytes);
    if (!status.ok()) return status;
    return reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  }
  Status release(void* data) const override {
    return call("cuMemFree", api_.cuMemFree, address_of(data));
  }
  Status copy_in(void* device, const void* host, size_t bytes) const override {
    return call("cuMemcpyHtoD", api_.cuMemcpyHtoD, address_of(device), host, bytes);
  }
  Status copy_out(void* host, const void* device, size_t bytes) const override {
    return call("cuMemcpyDtoH", api_.cuMemcpyDtoH, host, address_of(device), bytes);
  }
  Status fill(void* data, uint32_t word, size_t count, Stream stream) const override {
    return call("cuMemsetD32Async", api_.cuMemsetD32Async, address_of(data), word, count,
                stream.handle);
  }

  Result<Stream> make_stream() const override {
    constexpr unsigned kNonBlocking = 1;
    Stream stream;
    const Status status = call("cuStreamCreate", api_.cuStreamCreate, &stream.handle, kNonBlocking);
    if (!status.ok()) return status;
    return stream;
  }
  Status release(Stream stream) const override {
    return call("cuStreamDestroy", api_.cuStreamDestroy, stream.handle);
  }
  Status synchronize(Stream stream) const override {
    return call("cuStreamSynchronize", api_.cuStreamSynchronize, stream.handle);
  }

  Result<Event> make_event() const override {
    Event event;
    const Status status = call("cuEventCreate", api_.cuEventCreate, &event.handle, 0u);
    if (!status.ok()) return status;
    return event;
  }
  Status release(Event event) const override {
    return call("cuEventDestroy", api_.cuEventDestroy, event.handle);
  }
  Status record(Event event, Stream stream) const override {
    return call("cuEventRecord", api_.cuEventRecord, event.handle, stream.handle);
  }
  Status wait(Stream stream, Event event) const override {
    return call("cuStreamWaitEvent", api_.cuStreamWaitEvent, stream.handle, event.handle, 0u);
  }
  Result<double> seconds_between(Event begin, Event end) const override {
    float milliseconds = 0;
    Status status = call("cuEventSynchronize", api_.cuEventSynchronize, end.handle);
    if (status.ok()) {
      status = call("cuEventElapsedTime", api_.cuEventElapsedTime, &milliseconds, begin.handle,
                    end.handle);
    }
    if (!status.ok()) return status;
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  /// A driver call in the device's context, by the name it has in messages.
  template <class... Parameters, class... Arguments>
  Status call(const char* name, CudaResult (*function)(Parameters...),
              Arguments... arguments) const {
    const ContextScope scope(api_, context_);
    const CudaResult error = function(arguments...);
    return error == 0 ? Status() : failed(api_, name, error);
  }

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
    return unsupported("device: is " + to_string(Device::cuda(index)) + ", but " + reason +
                       "; supported: cpu");
  int count = 0;
  const CudaResult error = api->cuDeviceGetCount(&count);
  if (error != 0) return failed(*api, "cuDeviceGetCount", error);
  if (index < 0 || index >= count) {
    return unsupported("device: is " + to_string(Device::cuda(index)) +
                       "; supported: cpu and the " + std::to_string(count) +
                       " CUDA devices of this machine");
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
