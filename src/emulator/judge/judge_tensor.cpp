// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"
#include "emulator/tensor_memory.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {
namespace {

constexpr uint32_t kCellLanes = 16;
constexpr uint32_t kColumnCells = kTensorLanes / kCellLanes;

}  // namespace

void Judge::tensor_access(Cta& cta, const TensorBlock& block, Access access) {
  CtaWatch& watch = watch_of(cta);
  const FlightRecord* op = flight();
  if (op == nullptr) return;
  if (watch.tensor.empty()) watch.tensor.resize(size_t{kTensorColumns} * kColumnCells);
  where_ = Where::kTensor;
  where_cta_ = &watch;
  const uint32_t first = block.lane / kCellLanes;
  const uint32_t last = (block.lane + block.lanes - 1) / kCellLanes;
  for (uint32_t column = block.column; column < block.column + block.columns; ++column) {
    for (uint32_t i = first; i <= last; ++i) {
      const uint32_t cell = column * kColumnCells + i;
      if (access == Access::kRead) {
        tensor_keeper_.read(watch.tensor[cell], cell, 1, op->actor, true);
      } else {
        tensor_keeper_.write(watch.tensor[cell], cell, 1, op->actor, true);
      }
    }
  }
}

void Judge::tensor_allocation(Cta& cta, uint32_t column, uint32_t columns, bool taken) {
  CtaWatch& watch = watch_of(cta);
  if (watch.tensor.empty()) watch.tensor.resize(size_t{kTensorColumns} * kColumnCells);
  where_ = Where::kDealloc;
  where_cta_ = &watch;
  const Actor& actor = actor_now(false);
  for (uint32_t i = column * kColumnCells; i < (column + columns) * kColumnCells; ++i) {
    Cell& cell = watch.tensor[i];
    if (!taken) tensor_keeper_.write(cell, i, 1, actor, false);
    tensor_keeper_.drop(cell);
  }
}

void Judge::tensor_loaded(Warp& warp, uint32_t slot, uint32_t defined) {
  watch_of(warp).registers.set(slot, kAllLanes, defined);
}

/// Whether fences lie between two operations that a barrier orders.
void Judge::check_tensor_fence(const Event& earlier) {
  const FlightRecord& op = *flight();
  const uint32_t component = earlier.who - op.actor.base;
  const Layout& layout = op.cluster->layout;
  if (component >= layout.size() || component == op.actor.component) return;
  const Issuer* theirs = op.cluster->issuer(component, earlier.epoch);
  const Issuer* mine = op.cluster->issuer(op.actor.component, op.actor.epoch);
  if (theirs == nullptr || mine == nullptr || theirs->warp == mine->warp) return;
  const uint32_t agent = component - layout.warps();
  if (agent < op.known.tensor_seen.size() && earlier.epoch <= op.known.tensor_seen[agent]) return;
  const bool before = op.known.clock.fenced(component, earlier.epoch, earlier.lane);
  report(Rule::kTensorFence, op.actor.pc, earlier.pc,
         me() + " follows " + party(earlier) +
             " on the same tensor memory without tcgen05.fence::" +
             (before ? "after_thread_sync in the thread that issues it"
                     : "before_thread_sync in the other thread"));
}

void Judge::fence_after(uint32_t lanes) {
  const Layout& layout = cluster_->layout;
  threads_->threads.for_each(lanes, [&](LaneGroup& g) {
    const std::span<const uint32_t> fenced = g.clock.fenced_agents();
    g.tensor_seen.resize(fenced.size());
    for (uint32_t i = 0; i < fenced.size(); ++i) {
      if (layout.is_tensor(layout.warps() + i)) {
        g.tensor_seen[i] = std::max(g.tensor_seen[i], fenced[i]);
      }
    }
  });
}

}  // namespace fa4::emulator::judge
