// SPDX-License-Identifier: BSD-3-Clause
// Device memory that attention() borrows while it puts a call on a stream.
#pragma once

#include <fa4/plan.h>

#include <memory>

namespace fa4::gpu {

/// A block that belongs to one stream for good and to one call until this object goes. The next
/// call on the stream may have it then: what it runs comes after what this one ran. Thread-safe.
class StreamWorkspace {
 public:
  static Result<StreamWorkspace> acquire(Device device, Stream stream, size_t bytes);

  StreamWorkspace(StreamWorkspace&&) = default;
  StreamWorkspace& operator=(StreamWorkspace&&) = default;

  Workspace workspace() const { return *block_; }

 private:
  struct Return {
    Device device;
    Stream stream;
    void operator()(const Workspace* block) const;
  };
  using Block = std::unique_ptr<const Workspace, Return>;

  explicit StreamWorkspace(Block block) : block_(std::move(block)) {}

  Block block_;
};

}  // namespace fa4::gpu
