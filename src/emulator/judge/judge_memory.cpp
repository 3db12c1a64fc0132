// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {
namespace {

/// f(chunk, first byte of it, bytes) for the chunks of a range of bytes.
template <class F>
void for_chunks(uint64_t first, uint64_t count, F f) {
  constexpr uint64_t kBytes = ChunkKeeper::kBytes;
  const uint64_t end = first + count;
  for (uint64_t at = first; at < end;) {
    const uint64_t n = std::min<uint64_t>(kBytes - at % kBytes, end - at);
    f(at / kBytes, static_cast<uint32_t>(at % kBytes), static_cast<uint32_t>(n));
    at += n;
  }
}

ChunkKeeper::Touch touch_of(Access access, const Actor& actor) {
  using Touch = ChunkKeeper::Touch;
  if (access == Access::kRead) return Touch::kRead;
  return actor.atomic ? Touch::kAtomic : Touch::kWrite;
}

}  // namespace

/// Which of the bytes that a store writes are undefined, as it stands; `at`: elements begin there.
uint32_t Judge::stored_undefined(uint32_t at) const {
  if (all_stored_defined_) return 0;
  const Inst& i = kernel_.code[pc_];
  const uint32_t size = ptx::size_of(static_cast<Type>(i.mod[0]));
  uint32_t bytes = 0;
  for (uint32_t k = 0; k < i.list_size; ++k) {
    const uint32_t defined = threads_->registers.defined(kernel_.lists[i.list + k]);
    if ((defined >> lane & 1) == 0) bytes |= ((1u << size) - 1) << (k * size);
  }
  return bytes >> at;
}

/// A load's registers, of which some come from bytes that nobody wrote.
void Judge::define_lanes(const Inst& inst, uint32_t lanes) {
  const uint32_t size = ptx::size_of(static_cast<Type>(inst.mod[0]));
  for (uint32_t k = 0; k < inst.list_size; ++k) {
    const uint32_t bytes = (size >= 32 ? ~0u : (1u << size) - 1) << (k * size);
    uint32_t bad = 0;
    for (uint32_t l = 0; l < kLanes; ++l) {
      if ((undefined_[l] & bytes) != 0) bad |= 1u << l;
    }
    threads_->registers.set(kernel_.lists[inst.list + k], lanes & bad, 0);
  }
}

void Judge::check_defined(CtaWatch& cta, uint32_t offset, uint32_t bytes, Access access) {
  const FlightRecord* op = flight();
  if (access != Access::kRead) {
    cta.defined.set(offset, bytes, true);
    const bool store = op == nullptr && effects_[pc_].effect == Effect::kStore;
    if (!store || all_stored_defined_) return;
    const uint32_t bad = stored_undefined(0);
    for (uint32_t i = 0; i < bytes; ++i) {
      if ((bad >> i & 1) != 0) cta.defined.set(offset + i, 1, false);
    }
    return;
  }
  if (op == nullptr && effects_[pc_].effect == Effect::kLoad) {
    const uint32_t bad = cta.defined.all(offset, bytes) ? 0 : cta.defined.undefined(offset, bytes);
    // The first of a load's lanes finds the others' entries from before.
    if (!any_undefined_) undefined_.fill(0);
    undefined_[lane] = bad;
    any_undefined_ |= bad != 0;
    return;
  }
  // What a tensor store reads beyond the tensor's end goes nowhere.
  if (op != nullptr && op->effect == Effect::kBulkStore) return;
  if (cta.defined.all(offset, bytes)) return;
  report(Rule::kSharedUndefined, op != nullptr ? op->actor.pc : pc_, 0,
         me() + " reads shared memory that nobody wrote, in the " + std::to_string(bytes) +
             " bytes at " + hex(cta.cta->shared_base() | offset));
}

/// Access to a place by which threads synchronise.
void Judge::synchronise(Clock& location, Access access) {
  const EffectInfo& info = effects_[pc_];
  WarpThreads& threads = threads_->threads;
  if (access != Access::kWrite && !location.empty()) {
    if (info.acquires) {
      threads.acquire(location, 1u << lane);
    } else {
      LaneGroup& g = threads.group_of(lane);
      if (g.pending.empty()) g.pending = Clock(cluster_->layout);
      g.pending.join(location);
    }
  }
  if (access == Access::kRead) return;
  if (info.releases) {
    threads.publish(location, 1u << lane);
  } else {
    location.join(threads.group_of(lane).released);
  }
}

void Judge::shared_access(Cta& cta, uint32_t offset, uint32_t bytes, Access access, Proxy) {
  CtaWatch& watch = watch_of(cta);
  FlightRecord* op = flight();
  const bool chunk = bytes == ChunkKeeper::kBytes && offset % ChunkKeeper::kBytes == 0;
  // Most of what products read.
  if (op != nullptr && access == Access::kRead && chunk && op->cta == cta.rank && !watch.ended &&
      shared_keeper_.read_again(watch.shared[offset / ChunkKeeper::kBytes], op->actor) &&
      watch.defined.all(offset, bytes)) {
    return;
  }
  const bool atomic = access == Access::kAtomic || (op == nullptr && effects_[pc_].strong);
  Actor of_op;
  if (op != nullptr && atomic) of_op = op->atomic_actor();
  const Actor& actor = op == nullptr ? actor_now(atomic) : atomic ? of_op : op->actor;
  where_ = Where::kShared;
  where_cta_ = &watch;
  if (watch.ended) {
    report(Rule::kExitPeer, actor.pc, 0,
           me() + " accesses shared memory of CTA " + std::to_string(cta.rank) +
               " of the cluster, which has exited");
  }
  const bool ask = actor.async && !actor.atomic;
  for_chunks(offset, bytes, [&](uint64_t number, uint32_t first, uint32_t count) {
    shared_keeper_.touch(watch.shared[number], number, first, count, touch_of(access, actor), actor,
                         ask);
  });
  check_defined(watch, offset, bytes, access);
  const uint32_t own_cta = op != nullptr ? op->cta : warp_->cta->rank;
  if (own_cta != cta.rank) {
    Event& e = watch.remote[actor.component];
    e.who = actor.who();
    e.epoch = actor.epoch;
    e.lane = actor.lane;
    e.pc = actor.pc;
  }
  if (op != nullptr && access == Access::kWrite &&
      (op->effect == Effect::kBulkLoad || op->effect == Effect::kTryCancel)) {
    watch.arrivals[actor.component] = {actor.component, actor.epoch, actor.pc};
  }
  if (op == nullptr && effects_[pc_].strong && effects_[pc_].effect != Effect::kMbarrier) {
    const uint64_t key =
        uint64_t{1} << 63 | (cluster_->cluster->index + 1) << 32 | (cta.shared_base() | offset);
    synchronise(locations_[key], access);
  }
}

void Judge::global_access(uint64_t address, uint64_t bytes, Access access) {
  const FlightRecord* op = flight();
  Actor of_op;
  if (op != nullptr) {
    of_op = op->actor;
    of_op.atomic |= access == Access::kAtomic;
    if (access != Access::kRead) of_op.component = op->write_component;
  }
  const bool strong = op == nullptr && effects_[pc_].strong;
  const Actor& actor = op != nullptr ? of_op : actor_now(strong || access == Access::kAtomic);
  where_ = Where::kGlobal;
  const bool ask = actor.async && access == Access::kRead;
  for_chunks(address, bytes, [&](uint64_t number, uint32_t first, uint32_t count) {
    global_keeper_.touch(global_.at(number), number, first, count, touch_of(access, actor), actor,
                         ask);
  });
  if (strong) synchronise(locations_[address], access);
}

/// A number for who wrote some bytes of global memory last; 0 if nobody of this launch did.
uint64_t Judge::writers_of(uint64_t address, uint64_t bytes) {
  uint64_t all = 0;
  for_chunks(address, bytes, [&](uint64_t number, uint32_t, uint32_t) {
    global_keeper_.for_writes(global_.at(number), [&](const Event& e) {
      all = all * 0x9e3779b97f4a7c15 + (uint64_t{e.who} << 32 | e.epoch);
    });
  });
  return all;
}

/// Copies read tensor maps by a proxy of their own. The fence may stand anywhere on the way from
/// the write to the copy, and so be another thread's of the CTA.
void Judge::tensor_map(uint64_t address, bool used) {
  constexpr uint64_t kBytes = 128;
  if ((address & kWindows) != 0) return;
  const uint64_t writers = writers_of(address, kBytes);
  auto& acquired = watch_of(*warp_->cta).maps;
  if (!used) {
    acquired[address] = writers;
    return;
  }
  if (writers == 0) return;
  const auto it = acquired.find(address);
  if (it != acquired.end() && it->second == writers) return;
  report(
      Rule::kTensorMapFence, pc_, pc_,
      me() + " uses the tensor map at " + hex(address) +
          ", which a thread of this launch wrote, without fence.proxy.tensormap::generic.acquire "
          "of it since");
}

void Judge::local_access(Warp& warp, uint64_t offset, uint32_t bytes, Access access) {
  WarpWatch& w = watch_of(warp);
  if (w.local.empty()) w.local.resize(kLanes, DefinedBytes(kernel_.local_bytes));
  DefinedBytes& defined = w.local[lane];
  if (access == Access::kRead) {
    if (!any_undefined_) undefined_.fill(0);
    undefined_[lane] = defined.all(offset, bytes) ? 0 : defined.undefined(offset, bytes);
    any_undefined_ |= undefined_[lane] != 0;
    return;
  }
  defined.set(offset, bytes, true);
  if (effects_[pc_].effect != Effect::kStore || all_stored_defined_) return;
  const uint32_t bad = stored_undefined(0);
  for (uint32_t i = 0; i < bytes; ++i) {
    if ((bad >> i & 1) != 0) defined.set(offset + i, 1, false);
  }
}

}  // namespace fa4::emulator::judge
