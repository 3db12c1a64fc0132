// SPDX-License-Identifier: BSD-3-Clause
// What GPU work needs from whatever executes it: memory, kernels, launches. The driver is one
// implementation; an emulator can be another.
#pragma once

#include <fa4/device.h>
#include <fa4/status.h>
#include <fa4/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace fa4::gpu {

/// A device as kernels are chosen for it.
struct Properties {
  std::string name;
  int major = 0;  ///< Compute capability.
  int minor = 0;
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes = 0;  ///< Most that a block may ask for.
};

/// A tensor as the copy engine sees it, innermost dimension first. Strides are bytes, of dimensions
/// 1 and up.
struct TensorMapSpec {
  const void* data = nullptr;
  DType dtype = DType::kBFloat16;
  std::array<uint64_t, 4> dims{};
  std::array<uint64_t, 3> strides{};
  std::array<uint32_t, 4> box{};
};

/// The driver's CUtensorMap: 128 opaque bytes.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> opaque{};
};

/// One loaded kernel, with its module. Safe to launch from many threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

struct Launch {
  unsigned blocks = 1;
  unsigned threads = 1;
  unsigned shared_bytes = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const Properties& properties() const = 0;

  /// Loads a compiled image and finds `entry` in it; it may use `shared_bytes` of shared memory.
  virtual Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte> image,
                                                     const std::string& entry,
                                                     unsigned shared_bytes) const = 0;
  /// Starts a kernel whose one parameter is `params`. Does not wait.
  virtual Status launch(const Kernel& kernel, const Launch& launch, std::span<std::byte> params,
                        Stream stream) const = 0;
  /// Sets `count` 32-bit words, in the stream's order.
  virtual Status fill(void* data, uint32_t word, size_t count, Stream stream) const = 0;
  virtual Result<TensorMap> tensor_map(const TensorMapSpec& spec) const = 0;

  virtual Result<void*> allocate(size_t bytes) const = 0;
  virtual Status release(void* data) const = 0;
  virtual Status copy_in(void* device, const void* host, size_t bytes) const = 0;
  virtual Status copy_out(void* host, const void* device, size_t bytes) const = 0;
  virtual Status synchronize(Stream stream) const = 0;
};

/// The runtime of the CUDA device `index`, made once per process. Error: why there is none.
Result<const Runtime*> cuda_runtime(int index);

}  // namespace fa4::gpu
