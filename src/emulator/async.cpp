// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/async.h"

#include <algorithm>

#include "emulator/machine.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator {

bool run_step(AsyncOp& op) {
  Monitor* monitor = op.cluster->worker->monitor();
  if (monitor == nullptr) return op.step();
  monitor->op_begins(op);
  const bool last = op.step();
  monitor->op_ends(op);
  return last;
}

void AsyncEngine::start(std::unique_ptr<AsyncOp> op) {
  ++op->cluster->pending_ops;
  free_.push_back(std::move(op));
}

void AsyncEngine::start(AsyncQueue& queue, std::unique_ptr<AsyncOp> op) {
  ++op->cluster->pending_ops;
  if (queue.ops.empty()) queues_.push_back(&queue);
  queue.ops.push_back(std::move(op));
}

void AsyncEngine::finish(const AsyncOp& op) { --op.cluster->pending_ops; }

bool AsyncEngine::step(Random& random) {
  const size_t count = free_.size() + queues_.size();
  if (count == 0) return false;
  const size_t begin = random() % count;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (begin + i) % count;
    if (at < free_.size()) {
      if (!free_[at]->ready()) continue;
      if (run_step(*free_[at])) {
        finish(*free_[at]);
        std::swap(free_[at], free_.back());
        free_.pop_back();
      }
      return true;
    }
    AsyncQueue& queue = *queues_[at - free_.size()];
    if (!queue.ops.front()->ready()) continue;
    if (run_step(*queue.ops.front())) {
      finish(*queue.ops.front());
      queue.ops.pop_front();
      if (queue.ops.empty()) queues_.erase(std::find(queues_.begin(), queues_.end(), &queue));
    }
    return true;
  }
  return false;
}

}  // namespace fa4::emulator
