// SPDX-License-Identifier: BSD-3-Clause
// A Runtime that runs nothing: host memory, a count of what it was asked for, and the last launch.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "gpu/runtime.h"

namespace fa4::gpu {

class FakeRuntime final : public Runtime {
 public:
  struct Counts {
    int launches = 0, fills = 0, encodes = 0, allocations = 0, waits = 0;
  };
  mutable Counts counts;
  mutable Launch last_launch;

  explicit FakeRuntime(int multiprocessors = 132) {
    properties_.name = "fake";
    properties_.major = 9;
    properties_.multiprocessors = multiprocessors;
    properties_.l2_bytes = 50 << 20;
    properties_.shared_bytes = 232448;
  }

  const Properties& properties() const override { return properties_; }
  CodeFormat code_format() const override { return CodeFormat::kPtx; }
  Result<std::shared_ptr<const Kernel>> load(std::span<const std::byte>, const std::string&,
                                             unsigned) const override {
    return std::make_shared<const Kernel>();
  }
  Status launch(const Kernel&, const Launch& launch, std::span<const std::byte>,
                Stream) const override {
    last_launch = launch;
    ++counts.launches;
    return {};
  }
  Status encode(const TensorMapSpec&, TensorMap&) const override {
    ++counts.encodes;
    return {};
  }
  Result<void*> allocate(size_t bytes) const override {
    ++counts.allocations;
    return std::malloc(bytes);
  }
  Status release(void* data) const override {
    std::free(data);
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
  Status fill(void*, uint32_t, size_t, Stream) const override {
    ++counts.fills;
    return {};
  }
  Result<Stream> make_stream() const override { return Stream{}; }
  Status release(Stream) const override { return {}; }
  Status synchronize(Stream) const override {
    ++counts.waits;
    return {};
  }
  Result<Event> make_event() const override { return Event{}; }
  Status release(Event) const override { return {}; }
  Status record(Event, Stream) const override { return {}; }
  Status wait(Stream, Event) const override { return {}; }
  Result<double> seconds_between(Event, Event) const override { return 0.0; }

 private:
  Properties properties_;
};

}  // namespace fa4::gpu
