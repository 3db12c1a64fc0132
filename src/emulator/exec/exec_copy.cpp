// SPDX-License-Identifier: BSD-3-Clause
// cp.async: PTX ISA 9.7.9.25.3, 9.7.13.15.17.
#include <bit>
#include <cstring>

#include "emulator/exec/copy_handlers.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

/// Base of a warp's operations: counted in its groups, in order.
class GroupedOp : public AsyncOp {
 public:
  explicit GroupedOp(Warp& warp) : AsyncOp(*warp.cta->cluster, warp.pc), warp_(warp) {
    ++warp.copies.groups.issued;
  }
  bool step() override {
    work();
    ++warp_.copies.groups.done;
    if (warp_.wake(WaitKind::kCopyGroup, std::nullopt)) warp_.worker->enqueue(warp_);
    return true;
  }

 protected:
  virtual void work() = 0;
  Warp& warp_;
};

struct LaneCopy {
  uint64_t from;
  uint32_t to;
  uint32_t bytes;  ///< To read; the rest of the size is zero.
};

class Copy final : public GroupedOp {
 public:
  Copy(Warp& warp, uint32_t size, std::vector<LaneCopy> lanes)
      : GroupedOp(warp), size_(size), lanes_(std::move(lanes)) {}

 private:
  void work() override {
    for (const LaneCopy& c : lanes_) {
      std::byte* to = resolve_shared(*cluster, c.to, size_, size_, Access::kWrite, Proxy::kGeneric);
      std::memset(to, 0, size_);
      if (c.bytes == 0) continue;
      const std::byte* from =
          resolve_global(cluster->worker->grid().memory, c.from, c.bytes, Access::kRead);
      if (Monitor* monitor = cluster->worker->monitor()) {
        monitor->global_access(c.from, c.bytes, Access::kRead);
      }
      std::memcpy(to, from, c.bytes);
    }
  }

  uint32_t size_;
  std::vector<LaneCopy> lanes_;
};

class Arrive final : public GroupedOp {
 public:
  Arrive(Warp& warp, std::vector<uint32_t> barriers)
      : GroupedOp(warp), barriers_(std::move(barriers)) {}

 private:
  void work() override {
    for (const uint32_t b : barriers_) mbarrier_arrive(*cluster, b, 1, 0);
  }

  std::vector<uint32_t> barriers_;
};

uint32_t shared_address(const Warp& w, uint32_t slot, uint32_t bytes, int64_t offset,
                        uint32_t lane) {
  uint64_t a = bytes == 8 ? w.reg<uint64_t>(slot)[lane] : w.reg<uint32_t>(slot)[lane];
  a = (a + static_cast<uint64_t>(offset)) & ~kSharedWindow;
  if (bytes == 4) a &= 0xffffffff;
  if (a >> 32 != 0) throw Fault("shared address " + hex(a) + " exceeds 32 bits");
  return static_cast<uint32_t>(a);
}

/// mod[1], mod[2]: address bytes; imm, and e as a number: their offsets.
Step async_copy(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t size = i.mod[0];
  std::vector<LaneCopy> lanes;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t from = (i.mod[2] == 8 ? w.reg<uint64_t>(i.b)[l] : w.reg<uint32_t>(i.b)[l]) +
                          static_cast<uint64_t>(static_cast<int32_t>(i.e));
    if (from % size != 0) throw Fault("global address " + hex(from) + " is not aligned");
    uint32_t bytes = i.c == kNone ? size : w.reg<uint32_t>(i.c)[l];
    if (i.f != kNone && (w.lanes_of(i.f) >> l & 1) != 0) bytes = 0;
    if (bytes > size) throw Fault("cp.async reads more than it copies");
    lanes.push_back({from, shared_address(w, i.a, i.mod[1], i.imm, l), bytes});
  }
  w.worker->start(w.copies.queue, std::make_unique<Copy>(w, size, std::move(lanes)));
  return Step::kNext;
}

Step async_commit(Warp& w, const Inst&, uint32_t) {
  w.copies.groups.commit();
  return Step::kNext;
}

Step async_wait(Warp& w, const Inst& i, uint32_t) {
  OrderedGroups& groups = w.copies.groups;
  const auto pending = static_cast<uint32_t>(i.imm);
  const bool done = i.mod[0] != 0 ? groups.done == groups.issued : groups.reached(pending);
  return done ? w.pass() : w.block({WaitKind::kCopyGroup, pending, 0});
}

Step async_arrive(Warp& w, const Inst& i, uint32_t mask) {
  std::vector<uint32_t> barriers;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    barriers.push_back(shared_address(w, i.a, i.mod[15], i.imm, l));
    if (i.mod[0] == 0) mbarrier_add_pending(*w.cta->cluster, barriers.back(), 1);
  }
  w.worker->start(w.copies.queue, std::make_unique<Arrive>(w, std::move(barriers)));
  return Step::kNext;
}

}  // namespace

Handler copy_async() { return async_copy; }
Handler copy_commit() { return async_commit; }
Handler copy_wait() { return async_wait; }
Handler copy_arrive() { return async_arrive; }

}  // namespace fa4::emulator::exec
