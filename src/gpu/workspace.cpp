// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/workspace.h"

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "gpu/runtime.h"

namespace fa4::gpu {
namespace {

struct Pool {
  std::mutex mutex;
  /// By type and number of the device, and stream.
  std::map<std::tuple<DeviceType, int, void*>, std::vector<Workspace>> free;

  static Pool& instance() {
    static Pool pool;
    return pool;
  }
};

}  // namespace

void StreamWorkspace::Return::operator()(const Workspace* block) const {
  if (block->data != nullptr) {
    Pool& pool = Pool::instance();
    const std::lock_guard lock(pool.mutex);
    pool.free[{device.type, device.index, stream.handle}].push_back(*block);
  }
  delete block;
}

Result<StreamWorkspace> StreamWorkspace::acquire(Device device, Stream stream, size_t bytes) {
  Block block(nullptr, Return{device, stream});
  if (bytes == 0) {
    block.reset(new Workspace{});
    return StreamWorkspace(std::move(block));
  }
  {
    Pool& pool = Pool::instance();
    const std::lock_guard lock(pool.mutex);
    std::vector<Workspace>& free = pool.free[{device.type, device.index, stream.handle}];
    for (Workspace& candidate : free) {
      if (candidate.bytes < bytes) continue;
      block.reset(new Workspace(candidate));
      candidate = free.back();
      free.pop_back();
      return StreamWorkspace(std::move(block));
    }
  }
  const auto runtime = runtime_of(device);
  if (!runtime.ok()) return runtime.status();
  const auto data = (*runtime)->allocate(bytes);
  if (!data.ok()) return data.status();
  block.reset(new Workspace{*data, bytes});
  return StreamWorkspace(std::move(block));
}

}  // namespace fa4::gpu
