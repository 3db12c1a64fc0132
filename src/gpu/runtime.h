// SPDX-License-Identifier: BSD-3-Clause
// What GPU work needs from whatever executes it: memory, kernels, launches, streams, events, tensor
// maps. The driver is one implementation (driver.cpp, cuda_runtime()); an emulator can be another:
// it takes the kernels as PTX text, its pointers are host pointers, and whatever is put on a stream
// has finished when the call returns.
//
// Rules that every implementation keeps:
// - Thread-safe. One object a device, made once, alive to the end of the process.
// - Errors are Statuses; nothing throws, prints or exits.
// - Pointers are the device's; only copy_in() and copy_out() touch the host's memory.
// - launch(), fill(), record() and wait() put work on a stream, in order, and do not wait for it.
//   They allocate nothing and may be captured into a graph where the device has graphs.
#pragma once

#include <fa4/device.h>
#include <fa4/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gpu/code_format.h"
#include "gpu/tensor_map.h"

namespace fa4::gpu {

/// Fewest keys of a sequence for which pairs of CTAs that share K and V were seen to gain on an
/// H200: below, their waiting for each other costs what fewer reads save.
constexpr int64_t kPairKeys = 6144;

/// A device as kernels are chosen for it.
struct Properties {
  std::string name;
  int major = 0;  ///< Compute capability.
  int minor = 0;
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes = 0;  ///< Most that a block may ask for.
  int64_t pair_keys = kPairKeys;
};

/// One loaded kernel, with its module; unloaded when the last owner lets go. Safe to launch from
/// many threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

/// How a kernel is started. Grids are one-dimensional: kernels take their tiles off a list.
struct Launch {
  unsigned blocks = 1;
  unsigned threads = 1;       ///< A block.
  unsigned shared_bytes = 0;  ///< Dynamic; at most what load() was told.
  unsigned cluster = 1;       ///< Blocks a cluster; divides `blocks`.
  /// Programmatic dependent launch: may start before the kernel in front of it in the stream has
  /// ended; it waits where it says griddepcontrol.wait.
  bool overlaps_previous = false;
};

/// A point in a stream's work.
struct Event {
  void* handle = nullptr;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const Properties& properties() const = 0;
  /// The form in which load() wants kernels.
  virtual CodeFormat code_format() const = 0;

  /// Loads code of code_format() (PTX without a terminating zero) and finds the kernel `entry` in
  /// it; the kernel may use `shared_bytes` of dynamic shared memory.
  virtual Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte> code,
                                                     const std::string& entry,
                                                     unsigned shared_bytes) const = 0;
  /// Starts a kernel whose one parameter, a struct, is `params`.
  virtual Status launch(const Kernel& kernel, const Launch& launch,
                        std::span<const std::byte> params, Stream stream) const = 0;
  /// Writes the hardware's description of a tensor, for a kernel's parameters. Touches no device.
  virtual Status encode(const TensorMapSpec& spec, TensorMap& map) const = 0;

  /// Device memory, aligned to 256 bytes, holding anything. `bytes` > 0.
  virtual Result<void*> allocate(size_t bytes) const = 0;
  virtual Status release(void* data) const = 0;
  /// Copies that have finished when the call returns. They come after the default stream's work
  /// only.
  virtual Status copy_in(void* device, const void* host, size_t bytes) const = 0;
  virtual Status copy_out(void* host, const void* device, size_t bytes) const = 0;
  /// Sets `count` 32-bit words.
  virtual Status fill(void* data, uint32_t word, size_t count, Stream stream) const = 0;

  /// A stream that runs beside all others; the default one is Stream{}.
  virtual Result<Stream> make_stream() const = 0;
  virtual Status release(Stream stream) const = 0;
  /// Waits until all that is on the stream has run; reports what failed in it.
  virtual Status synchronize(Stream stream) const = 0;

  virtual Result<Event> make_event() const = 0;
  virtual Status release(Event event) const = 0;
  virtual Status record(Event event, Stream stream) const = 0;
  /// What is put on `stream` from now on comes after the event as last recorded.
  virtual Status wait(Stream stream, Event event) const = 0;
  /// Device time between two recorded events; waits for both.
  virtual Result<double> seconds_between(Event begin, Event end) const = 0;
};

/// The runtime of the CUDA device `index`. Error: why there is none.
Result<const Runtime*> cuda_runtime(int index);

/// The runtime that `device` names. Whoever adds a type of device adds a case there.
Result<const Runtime*> runtime_of(Device device);

}  // namespace fa4::gpu
