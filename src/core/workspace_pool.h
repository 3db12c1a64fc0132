// SPDX-License-Identifier: BSD-3-Clause
// Host memory that attention() and attention_backward() borrow for the length of a call.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace fa4::core {

/// Keeps the blocks of finished calls for later ones; blocks are aligned to 64 bytes. Thread-safe.
class WorkspacePool {
 public:
  struct Free {
    void operator()(std::byte* block) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    size_t bytes = 0;
  };

  /// A block of at least `bytes`; data is null if there is no memory.
  Block acquire(size_t bytes);
  void release(Block block);

  static WorkspacePool& host();

 private:
  static constexpr size_t kMaxKept = 8;  // more concurrent callers than this pay for an allocation

  std::mutex mutex_;
  std::vector<Block> kept_;
};

}  // namespace fa4::core
