// SPDX-License-Identifier: BSD-3-Clause
#include "core/workspace_pool.h"

#include <algorithm>
#include <cstdint>
#include <new>

namespace fa4::core {
namespace {
constexpr std::align_val_t kAlignment{64};
}

void WorkspacePool::Free::operator()(std::byte* block) const {
  ::operator delete(block, kAlignment);
}

WorkspacePool& WorkspacePool::host() {
  static WorkspacePool pool;
  return pool;
}

WorkspacePool::Block WorkspacePool::acquire(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Block& block) { return block.bytes >= bytes; };
    if (const auto it = std::find_if(kept_.begin(), kept_.end(), fits); it != kept_.end()) {
      Block block = std::move(*it);
      kept_.erase(it);
      return block;
    }
  }
  if (bytes > PTRDIFF_MAX) return {};  // operator new would round it up past the end of size_t
  auto* data =
      static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kAlignment, std::nothrow));
  return {std::unique_ptr<std::byte, Free>(data), data != nullptr ? bytes : 0};
}

void WorkspacePool::release(Block block) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() == kMaxKept) {  // the smallest one serves the fewest
    const auto smaller = [](const Block& a, const Block& b) { return a.bytes < b.bytes; };
    const auto smallest = std::min_element(kept_.begin(), kept_.end(), smaller);
    if (smallest->bytes >= block.bytes) return;
    kept_.erase(smallest);
  }
  kept_.push_back(std::move(block));
}

}  // namespace fa4::core
