// SPDX-License-Identifier: BSD-3-Clause
// tcgen05.alloc, dealloc, relinquish_alloc_permit: PTX ISA 9.7.16.7.
#include <bit>
#include <cstring>

#include "emulator/exec/memory_access.h"
#include "emulator/exec/tcgen05_access.h"
#include "emulator/monitor.h"
#include "emulator/tensor_memory.h"

namespace fa4::emulator::exec {
namespace {

void check_columns(uint32_t columns) {
  if (columns >= kAllocationUnit && columns <= kTensorColumns && std::has_single_bit(columns)) {
    return;
  }
  throw Fault(Rule::kTensorAllocation,
              std::to_string(columns) +
                  " columns of tensor memory; allowed: a power of two from 32 to 512");
}

/// Tells the monitor of columns taken or given back.
void tell(Cta& cta, uint32_t column, uint32_t columns, bool taken) {
  if (Monitor* monitor = cta.cluster->worker->monitor()) {
    monitor->tensor_allocation(cta, column, columns, taken);
  }
}

Step finish_alloc(Warp& w, const Inst& i, uint32_t mask, uint32_t column) {
  Accessor memory(w, i, Access::kWrite, 4);
  const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
  std::memcpy(memory.at(memory.address(lane), lane), &column, sizeof column);
  return w.pass();
}

/// Both CTAs ask; whoever comes second, or comes again once there is room, takes for both.
Step alloc_pair(Warp& w, const Inst& i, uint32_t mask, uint32_t columns) {
  using State = PairRequest::State;
  Cta& peer = peer_of(*w.cta);
  TensorMemory &mine = tensor_memory(*w.cta), &theirs = tensor_memory(peer);
  PairRequest& own = mine.request;
  if (own.state != State::kIdle && own.warp != w.index) {
    throw Fault("warps " + std::to_string(own.warp) + " and " + std::to_string(w.index) +
                " of a CTA allocate for the pair at once");
  }
  if (own.state == State::kGranted) {
    const uint32_t column = own.column;
    own = {};
    return finish_alloc(w, i, mask, column);
  }
  own = {State::kWaiting, w.index, columns, 0};
  if (theirs.request.state == State::kWaiting) {
    if (theirs.request.columns != columns) {
      throw Fault("the CTAs of a pair allocate " + std::to_string(columns) + " and " +
                  std::to_string(theirs.request.columns) + " columns; they must be equal");
    }
    if (const auto column = mine.find_free(columns, &theirs)) {
      mine.allocate(*column, columns);
      theirs.allocate(*column, columns);
      tell(*w.cta, *column, columns, true);
      tell(peer, *column, columns, true);
      theirs.request.state = State::kGranted;
      theirs.request.column = *column;
      own = {};
      peer.wake(WaitKind::kTensorAlloc);
      return finish_alloc(w, i, mask, *column);
    }
  }
  return w.block({WaitKind::kTensorAlloc, columns, 0});
}

}  // namespace

Step tensor_alloc(Warp& w, const Inst& i, uint32_t mask) {
  check_whole_warp(mask);
  const auto columns = uniform<uint32_t>(w, i.b, mask, "the number of columns");
  check_columns(columns);
  use_group(*w.cta, i.mod[0]);
  TensorMemory& t = tensor_memory(*w.cta);
  if (t.relinquished)
    throw Fault(Rule::kTensorAllocation, "an allocation after tcgen05.relinquish_alloc_permit");
  if (w.wait.kind != WaitKind::kTensorAlloc && columns > t.last_columns) {
    throw Fault(Rule::kTensorAllocation,
                std::to_string(columns) + " columns after an allocation of " +
                    std::to_string(t.last_columns) + "; allowed: no more than before");
  }
  if (i.mod[0] == 2) return alloc_pair(w, i, mask, columns);
  const auto column = t.find_free(columns);
  if (!column) return w.block({WaitKind::kTensorAlloc, columns, 0});
  t.allocate(*column, columns);
  tell(*w.cta, *column, columns, true);
  return finish_alloc(w, i, mask, *column);
}

Step tensor_dealloc(Warp& w, const Inst& i, uint32_t mask) {
  check_whole_warp(mask);
  const auto address = uniform<uint32_t>(w, i.a, mask, "the address");
  const auto columns = uniform<uint32_t>(w, i.b, mask, "the number of columns");
  check_columns(columns);
  use_group(*w.cta, i.mod[0]);
  TensorMemory& t = tensor_memory(*w.cta);
  TensorAllocation* a = t.find(address);
  if (w.wait.kind == WaitKind::kTensorDealloc) {
    // The peer gives back as well and thereby frees both, or this is not the end of the wait.
    if (a != nullptr && a->given_back) return w.block(w.wait);
    return w.pass();
  }
  if (a == nullptr || a->columns != columns || a->given_back) {
    throw Fault(Rule::kTensorAllocation,
                "tensor memory address " + hex(address) + " with " + std::to_string(columns) +
                    " columns is no allocation; allocated is " + t.describe_allocations());
  }
  if (i.mod[0] == 2) {
    Cta& peer = peer_of(*w.cta);
    TensorMemory& theirs = tensor_memory(peer);
    const TensorAllocation* b = theirs.find(address);
    if (b != nullptr && !b->given_back) {
      a->given_back = true;
      tell(*w.cta, address, columns, false);
      // It may block until the peer comes, or go on: as the adversary likes.
      const Timing timing = w.worker->grid().options.timing;
      const bool blocks = timing == Timing::kLatest ||
                          (timing == Timing::kRandom && (w.worker->random()() & 1) != 0);
      return blocks ? w.block({WaitKind::kTensorDealloc, columns, 0}) : Step::kNext;
    }
    if (b != nullptr) theirs.release(address);
    peer.wake(WaitKind::kTensorDealloc);
    peer.wake(WaitKind::kTensorAlloc);
  }
  tell(*w.cta, address, columns, false);
  t.release(address);
  w.cta->wake(WaitKind::kTensorAlloc);
  return Step::kNext;
}

Step tensor_relinquish(Warp& w, const Inst& i, uint32_t mask) {
  check_whole_warp(mask);
  use_group(*w.cta, i.mod[0]);
  tensor_memory(*w.cta).relinquished = true;
  return Step::kNext;
}

}  // namespace fa4::emulator::exec
