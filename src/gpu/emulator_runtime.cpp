// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/emulator_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "emulator/emulator.h"
#include "emulator/tensor_map.h"
#include "gpu/emulator_settings.h"

namespace fa4::gpu {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr int64_t kL2Bytes = int64_t{50} << 20;
constexpr int64_t kSharedBytes = 227 * 1024;

class EmulatedKernel final : public Kernel {
 public:
  explicit EmulatedKernel(std::shared_ptr<const emulator::Kernel> kernel)
      : kernel_(std::move(kernel)) {}
  const std::shared_ptr<const emulator::Kernel>& kernel() const { return kernel_; }

 private:
  std::shared_ptr<const emulator::Kernel> kernel_;
};

Result<emulator::MapType> map_type(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return emulator::MapType::kBF16;
    case DType::kFloat16:
      return emulator::MapType::kF16;
    case DType::kFloat32:
      return emulator::MapType::kF32;
    default:
      return unsupported("tensor map: dtype is " + std::string(to_string(dtype)) +
                         "; supported: bfloat16, float16, float32");
  }
}

size_t memory_of_machine() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class EmulatorRuntime final : public Runtime {
 public:
  explicit EmulatorRuntime(Device device) {
    properties_.name = to_string(device);
    properties_.major = device.index / 10;
    properties_.minor = device.index % 10;
    const auto s = emulator_settings();
    const EmulatorSettings settings = s.ok() ? *s : EmulatorSettings{};
    properties_.multiprocessors = settings.multiprocessors;
    properties_.pair_keys = settings.pair_keys;
    properties_.l2_bytes = kL2Bytes;
    properties_.shared_bytes = kSharedBytes;
  }

  const Properties& properties() const override { return properties_; }
  CodeFormat code_format() const override { return CodeFormat::kPtx; }

  Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte> code,
                                             const std::string& entry,
                                             unsigned shared_bytes) const override {
    if (shared_bytes > properties_.shared_bytes) {
      return invalid_argument(
          "kernel " + entry + ": asks for " + std::to_string(shared_bytes) +
          " bytes of dynamic shared memory; allowed: " + std::to_string(properties_.shared_bytes));
    }
    const auto program =
        emulator::load(std::string(reinterpret_cast<const char*>(code.data()), code.size()));
    if (!program.ok()) return program.status();
    auto kernel = (*program)->find(entry);
    if (kernel == nullptr) return invalid_argument("PTX: has no entry " + entry);
    return std::shared_ptr<const Kernel>(std::make_shared<EmulatedKernel>(std::move(kernel)));
  }

  Status launch(const Kernel& kernel, const Launch& launch, std::span<const std::byte> params,
                Stream) const override {
    const auto s = emulator_settings();
    if (!s.ok()) return s.status();
    emulator::LaunchConfig config;
    config.blocks = {launch.blocks, 1, 1};
    config.threads = {launch.threads, 1, 1};
    config.cluster = {launch.cluster, 1, 1};
    config.dynamic_shared = launch.shared_bytes;
    emulator::MemoryMap memory;
    memory.add_process();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [data, bytes] : allocated_) memory.add(data, bytes);
    }
    const auto tally = emulator::run(static_cast<const EmulatedKernel&>(kernel).kernel(), config,
                                     params, memory, s->run);
    if (tally.ok() && s->tally != nullptr) s->tally->add(*tally);
    if (!tally.ok() || tally->warnings.empty()) return tally.status();
    const emulator::Report& first = tally->warnings.front();
    return Status(StatusCode::kRuntimeError,
                  "emulator: seed " + std::to_string(s->run.seed) + ": " +
                      std::to_string(tally->warnings.size()) + " warnings; the first, " +
                      std::to_string(first.count) + " times: " + first.text);
  }

  Status encode(const TensorMapSpec& spec, TensorMap& map) const override {
    emulator::TensorMapSpec out;
    const auto type = map_type(spec.dtype);
    if (!type.ok()) return type.status();
    out.type = *type;
    out.address = reinterpret_cast<uint64_t>(spec.data);
    out.rank = static_cast<uint32_t>(spec.rank);
    for (size_t i = 0; i < static_cast<size_t>(std::clamp(spec.rank, 0, 5)); ++i) {
      out.dims[i] = spec.dims[i];
      out.box[i] = spec.box[i];
      if (i > 0) out.strides[i] = spec.strides[i - 1];
    }
    out.swizzle = static_cast<emulator::Swizzle>(spec.swizzle);
    const auto bytes = emulator::encode_tensor_map(out);
    if (!bytes.ok()) return bytes.status();
    std::memcpy(map.opaque.data(), bytes->data(), bytes->size());
    return {};
  }

  Result<void*> allocate(size_t bytes) const override {
    // All of it is written here, and what the machine lacks would end the process.
    const bool fits = bytes <= memory_of_machine();
    void* data = fits ? ::operator new(bytes, kAlignment, std::nothrow) : nullptr;
    if (data == nullptr) {
      return Status(StatusCode::kOutOfMemory,
                    "emulator: " + std::to_string(bytes) + " bytes could not be allocated");
    }
    std::memset(data, 0xff, bytes);
    const std::lock_guard lock(mutex_);
    allocated_.emplace(data, bytes);
    return data;
  }
  Status release(void* data) const override {
    const std::lock_guard lock(mutex_);
    if (allocated_.erase(data) == 0) return invalid_argument("release: no such allocation");
    ::operator delete(data, kAlignment);
    return {};
  }
  Status copy_in(void* device, const void* host, size_t bytes) const override {
    std::memcpy(device, host, bytes);
    return {};
  }
  Status copy_out(void* host, const void* device, size_t bytes) const override {
    std::memcpy(host, device, bytes);
    return {};
  }
  Status fill(void* data, uint32_t word, size_t count, Stream) const override {
    std::fill_n(static_cast<uint32_t*>(data), count, word);
    return {};
  }

  Result<Stream> make_stream() const override { return Stream{}; }
  Status release(Stream) const override { return {}; }
  Status synchronize(Stream) const override { return {}; }

  Result<Event> make_event() const override { return Event{new double(0)}; }
  Status release(Event event) const override {
    delete static_cast<double*>(event.handle);
    return {};
  }
  Status record(Event event, Stream) const override {
    *static_cast<double*>(event.handle) = now();
    return {};
  }
  Status wait(Stream, Event) const override { return {}; }
  Result<double> seconds_between(Event begin, Event end) const override {
    return *static_cast<double*>(end.handle) - *static_cast<double*>(begin.handle);
  }

 private:
  Properties properties_;
  mutable std::mutex mutex_;
  mutable std::map<void*, size_t> allocated_;
};

}  // namespace

Result<const Runtime*> emulator_runtime(Device device) {
  if (device.index != 80 && device.index != 90 && device.index != 100) {
    return invalid_argument("device: is " + to_string(device) +
                            "; allowed: emulator:sm_80, emulator:sm_90a, emulator:sm_100a");
  }
  const auto s = emulator_settings();
  if (!s.ok()) return s.status();
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<const Runtime>> runtimes;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Runtime>& runtime = runtimes[device.index];
  if (runtime == nullptr) runtime = std::make_unique<EmulatorRuntime>(device);
  return runtime.get();
}

}  // namespace fa4::gpu
