// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {
namespace {

/// Operations that all lanes of a warp start as one.
bool is_collective(Effect effect) {
  switch (effect) {
    case Effect::kCopy:
    case Effect::kCopyArrive:
    case Effect::kWgmma:
    case Effect::kTensorLoad:
    case Effect::kTensorStore:
      return true;
    default:
      return false;
  }
}

/// The CTA that has the tensor pipe: of a pair the even one.
uint32_t pipe_of(const Warp& warp, const Inst& inst) {
  return inst.mod[0] == 2 ? warp.cta->rank & ~1u : warp.cta->rank;
}

}  // namespace

/// The agent that does the operation; what else it has to know is put into the record.
uint32_t Judge::component_of(const AsyncOp& op, const Warp& warp, Effect effect,
                             FlightRecord& record) {
  const Layout& layout = cluster_->layout;
  const WarpWatch& w = *threads_;
  const Inst& inst = kernel_.code[op.pc];
  switch (effect) {
    case Effect::kBulkStore:
      record.write_component = layout.of_warp(w.component, Layout::kBulkWrite);
      return layout.of_warp(w.component, Layout::kBulkRead);
    case Effect::kCopy:
    case Effect::kCopyArrive:
      return layout.of_warp(w.component, Layout::kCopy);
    case Effect::kWgmma:
      return layout.wgmma(warp.cta->rank, warp.index / 4);
    case Effect::kTensorMma:
      record.actor.before = layout.tensor_copy(pipe_of(warp, inst));
      return layout.product(pipe_of(warp, inst));
    case Effect::kTensorCommit:
      return layout.product(pipe_of(warp, inst));
    case Effect::kTensorCopy:
      return layout.tensor_copy(pipe_of(warp, inst));
    case Effect::kTensorLoad:
      return layout.of_warp(w.component, Layout::kLoad);
    case Effect::kTensorStore:
      return layout.of_warp(w.component, Layout::kStore);
    default:
      return layout.slot(cluster_->next_slot++ % Layout::kSlots);
  }
}

/// The agent's next epoch, and who asked for it.
uint32_t Judge::next_epoch(const AsyncOp& op, uint32_t component, const FlightRecord& record) {
  const Layout& layout = cluster_->layout;
  uint32_t& epoch = cluster_->epochs[component - layout.warps()];
  // Commits and arrivals are about what was started before.
  if (record.effect == Effect::kTensorCommit || record.effect == Effect::kCopyArrive) return epoch;
  ++epoch;
  Issuer& issuer = cluster_->issuers[component - layout.warps()][epoch % kIssuers];
  issuer = {epoch, threads_->component, threads_->threads.epoch(), lane, op.pc};
  if (record.effect == Effect::kBulkStore) {
    const uint32_t write = record.write_component - layout.warps();
    cluster_->epochs[write] = epoch;
    cluster_->issuers[write][epoch % kIssuers] = issuer;
  }
  return epoch;
}

/// What the issuing thread will wait for, and what a commit or an arrival tells.
void Judge::count_operation(const AsyncOp& op, FlightRecord& record) {
  const uint32_t epoch = record.actor.epoch, component = record.actor.component;
  const uint64_t thread = uint64_t{threads_->component} * kLanes + lane;
  switch (record.effect) {
    case Effect::kBulkStore:
      threads_->bulk[lane].last = epoch;
      break;
    case Effect::kCopy:
      threads_->copies.issued = epoch;
      break;
    case Effect::kCopyArrive:
      threads_->copies_arrive = true;
      record.known.clock.see_agent(component, epoch);
      break;
    case Effect::kTensorLoad:
      threads_->loads = epoch;
      break;
    case Effect::kTensorStore:
      threads_->stores = epoch;
      break;
    case Effect::kTensorMma:
      cluster_->products[thread][0] = epoch;
      break;
    case Effect::kTensorCopy:
      cluster_->products[thread][1] = epoch;
      break;
    case Effect::kTensorCommit: {
      const auto [mma, copy] = cluster_->products[thread];
      const uint32_t copies = cluster_->layout.tensor_copy(pipe_of(*warp_, kernel_.code[op.pc]));
      record.known.clock.see_agent(component, mma);
      record.known.clock.fence_agent(component, mma);
      record.known.clock.see_agent(copies, copy);
      record.known.clock.fence_agent(copies, copy);
      break;
    }
    default:
      break;
  }
}

void Judge::op_starts(AsyncOp& op) {
  const Layout& layout = cluster_->layout;
  auto record = std::make_unique<FlightRecord>(pool_);
  record->cluster = cluster_;
  record->effect = effects_[op.pc].effect;
  record->cta = warp_->cta->rank;
  const uint32_t component = component_of(op, *warp_, record->effect, *record);
  if (record->write_component == 0) record->write_component = component;
  Actor& a = record->actor;
  a.epoch = next_epoch(op, component, *record);
  const uint32_t lanes = is_collective(record->effect) ? lanes_ : 1u << lane;
  record->known.tensor_seen = threads_->threads.group_of(lane).tensor_seen;
  threads_->threads.publish(record->known.clock, lanes);
  a.clock = &record->known.clock;
  a.base = layout.base;
  a.size = layout.size();
  a.component = component;
  a.pc = op.pc;
  a.lane = kWholeWarp;
  a.async = record->effect != Effect::kCopy && record->effect != Effect::kAsyncStore;
  a.atomic = record->effect == Effect::kAsyncStore && kernel_.sites[op.pc].opcode[0] == 'r';
  a.in_order = component < layout.slot(0);
  count_operation(op, *record);
  op.record = std::move(record);
}

void Judge::op_joined(AsyncOp& op) {
  auto& record = static_cast<FlightRecord&>(*op.record);
  threads_->threads.publish(record.known.clock, lanes_);
}

void Judge::op_begins(AsyncOp& op) {
  flights_.push_back(static_cast<FlightRecord*>(op.record.get()));
}

void Judge::op_ends(AsyncOp&) { flights_.pop_back(); }

}  // namespace fa4::emulator::judge
