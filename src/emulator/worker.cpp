// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/worker.h"

#include <algorithm>
#include <bit>

#include "emulator/monitor.h"
#include "emulator/residency.h"
#include "emulator/tensor_memory.h"

namespace fa4::emulator {
namespace {

/// kPriority: a warp that has run for so long without waiting gives way: it may be spinning.
constexpr uint32_t kLongestTurn = 20000;
/// Splits of a warp change turns after so many slices, lest one spin while another should go on.
constexpr uint32_t kRotation = 16;
/// After so many instructions in which no warp began to wait they may all be looking at memory.
constexpr uint64_t kLookForSpins = 1 << 16;

std::string triple(const std::array<uint32_t, 3>& x) {
  return std::string("(") + std::to_string(x[0]) + ", " + std::to_string(x[1]) + ", " +
         std::to_string(x[2]) + ")";
}

/// Where each split of a warp stands and what it waits for, a line each.
std::string waits_of(const Warp& warp) {
  std::string text;
  if (warp.is_done()) return text;
  std::vector<Split> splits = warp.others;
  splits.push_back({warp.pc, warp.mask, warp.blocked, warp.wait});
  for (const Split& s : splits) {
    text += "\n  ";
    text += place_of(warp, s.pc) + ": lanes " + hex(s.mask);
    text += s.blocked ? " wait for " + describe(s.wait) + state_of(*warp.cta, s.wait)
                      : " go round in a loop, and nothing changes what they look at";
  }
  return text;
}

/// Beyond, a kernel starts copies in a loop and waits for none.
void check_in_flight(const Cluster& cluster) {
  constexpr uint32_t kMost = 1 << 20;
  if (cluster.pending_ops < kMost) return;
  throw Fault("more than " + std::to_string(kMost) + " asynchronous operations in flight");
}

}  // namespace

void Tally::add(const Tally& other) {
  instructions += other.instructions;
  matrix_flops += other.matrix_flops;
  copied_bytes += other.copied_bytes;
  cpu_seconds += other.cpu_seconds;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] += other.classes[i];
  for (const Report& r : other.warnings) add_report(warnings, r);
  add_roles(roles, other.roles);
}

std::string functions_of(const Kernel& kernel, const Site& site) {
  constexpr int kMost = 4;
  std::string text;
  int count = 0;
  for (uint32_t f = site.function; f != 0; f = kernel.functions[f].parent) {
    const bool outermost = kernel.functions[f].parent == 0;
    if (++count > kMost && !outermost) continue;
    text.insert(0, kernel.functions[f].name + (text.empty() ? "" : ": "));
  }
  return text.empty() ? text : ", in " + text;
}

std::string place_of(const Warp& warp, uint32_t pc) {
  const Kernel& kernel = warp.program();
  const Site& site = kernel.sites[std::min<size_t>(pc, kernel.sites.size() - 1)];
  std::string text = "warp " + std::to_string(warp.index) + " of CTA " + triple(warp.cta->id) +
                     ", PTX line " + std::to_string(site.line);
  if (site.source_line != 0) {
    const bool named = site.source_file < kernel.files.size();
    text += std::string(" (") + (named ? kernel.files[site.source_file] : "file") + ":" +
            std::to_string(site.source_line) + functions_of(kernel, site) + ")";
  }
  return text + ": " + std::string(site.opcode);
}

std::string describe(const Wait& wait) {
  const std::string value = std::to_string(wait.value);
  switch (wait.kind) {
    case WaitKind::kNothing:
      return "nothing";
    case WaitKind::kConverge:
      return "the other lanes of the warp";
    case WaitKind::kMbarrier:
      return "the phase of parity " + value + " of the mbarrier at " + hex(wait.address);
    case WaitKind::kNamedBarrier:
      return "barrier " + std::to_string(wait.address);
    case WaitKind::kClusterBarrier:
      return "the cluster barrier";
    case WaitKind::kBulkGroup:
      return "bulk copies, all but " + value + " groups";
    case WaitKind::kCopyGroup:
      return "cp.async, all but " + value + " groups";
    case WaitKind::kWgmma:
      return "wgmma, all but " + value + " groups";
    case WaitKind::kTensorLoad:
      return "tcgen05.ld";
    case WaitKind::kTensorStore:
      return "tcgen05.st";
    case WaitKind::kTensorAlloc:
      return value + " free columns of tensor memory";
    case WaitKind::kTensorDealloc:
      return "the other CTA of the pair to deallocate " + value + " columns";
    case WaitKind::kRegisters:
      return value + " registers a thread";
    case WaitKind::kGridDependency:
      return "the grid before";
  }
  return "?";
}

Worker::Worker(Grid& grid, uint64_t seed, Monitor* monitor)
    : grid_(grid), monitor_(monitor), random_(seed) {
  lowest_priority_ = uint64_t{1} << 32;
  next_change_ = random_() % kLongestTurn;
  async_rate_ = 1u << (random_() % 5);
}

Worker::~Worker() = default;

void Worker::start(std::unique_ptr<AsyncOp> op) {
  check_in_flight(*op->cluster);
  if (monitor_ != nullptr) monitor_->op_starts(*op);
  async_.start(std::move(op));
  nudge();
}

void Worker::start(AsyncQueue& queue, std::unique_ptr<AsyncOp> op) {
  check_in_flight(*op->cluster);
  if (monitor_ != nullptr) monitor_->op_starts(*op);
  async_.start(queue, std::move(op));
  nudge();
}

void Worker::run_now(AsyncOp& op) {
  if (monitor_ != nullptr) monitor_->op_starts(op);
  run_step(op);
}

void Worker::settle_async() {
  while (async_.step(random_)) {
  }
}

void Worker::enqueue(Warp& warp) {
  if (warp.queue_place >= 0 || !warp.can_run()) return;
  warp.queue_place = static_cast<int32_t>(runnable_.size());
  runnable_.push_back(&warp);
}

void Worker::dequeue(Warp& warp) {
  if (warp.queue_place < 0) return;
  Warp* last = runnable_.back();
  runnable_[static_cast<size_t>(warp.queue_place)] = last;
  last->queue_place = warp.queue_place;
  runnable_.pop_back();
  warp.queue_place = -1;
}

void Worker::run() {
  while (true) {
    refill();
    if (clusters_.empty() || grid_.stop) break;
    const Timing timing = grid_.options.timing;
    if (timing == Timing::kRandom && !async_.empty() && random_() % async_rate_ == 0) step_async();
    Warp* warp = choose();
    if (warp == nullptr) {
      if (step_async()) continue;
      if (retire()) continue;
      throw Fault(deadlock_report());
    }
    turn(*warp);
    if (executed_ - progress_ >= kLookForSpins) {
      if (is_deadlocked()) throw Fault(deadlock_report());
      progress_ = executed_;
    }
  }
  grid_.vote.leave();
}

void Worker::run_turn(Warp& warp, uint32_t budget) {
  try {
    if (monitor_ == nullptr) {
      run_slice<false>(warp, budget);
    } else {
      run_slice<true>(warp, budget);
    }
  } catch (const Fault& fault) {
    throw Fault(place_of(warp, warp.pc) + ": " + fault.what());
  }
}

void Worker::turn(Warp& warp) {
  run_turn(warp, slice());
  if (warp.is_done()) {
    progress_ = executed_;
    dequeue(warp);
    finish(warp);
    return;
  }
  if (!warp.others.empty()) {
    warp.stays = ++warp.turns % kRotation == 0;
    if (warp.stays) {
      warp.reschedule(static_cast<uint32_t>(random_()));
    } else {
      warp.reschedule();
    }
  }
  if (!warp.can_run()) {
    progress_ = executed_;
    dequeue(warp);
  }
  if (executed_ > grid_.options.max_instructions) {
    throw Fault("no end after " + std::to_string(executed_) + " warp-instructions; now at " +
                place_of(warp, warp.pc));
  }
}

bool Worker::step_async() {
  try {
    return async_.step(random_);
  } catch (const Fault& fault) {
    throw Fault(std::string("an asynchronous operation: ") + fault.what());
  }
}

Warp* Worker::choose() {
  if (runnable_.empty()) return nullptr;
  if (grid_.options.schedule == Schedule::kRandom) return runnable_[random_() % runnable_.size()];
  Warp* best =
      *std::max_element(runnable_.begin(), runnable_.end(),
                        [](const Warp* a, const Warp* b) { return a->priority < b->priority; });
  if (executed_ >= next_change_) {
    next_change_ = executed_ + 1 + random_() % kLongestTurn;
    best->priority = --lowest_priority_;
  }
  return best;
}

uint32_t Worker::slice() {
  if (grid_.options.schedule == Schedule::kRandom) {
    const uint32_t most = 1u << (random_() % 10);
    return 1 + static_cast<uint32_t>(random_() % most);
  }
  const uint64_t left = next_change_ > executed_ ? next_change_ - executed_ : 1;
  return static_cast<uint32_t>(std::min<uint64_t>(left, kLongestTurn));
}

Step Worker::watched_step(Warp& warp, const Inst& inst, uint32_t lanes) {
  const uint32_t pc = warp.pc;
  if (monitor_->quiet[pc] != 0) return inst.run(warp, inst, lanes);
  monitor_->before(warp, pc, lanes);
  const Step step = inst.run(warp, inst, lanes);
  monitor_->after(warp, pc, lanes, step != Step::kBlock);
  return step;
}

template <bool kWatched>
void Worker::run_slice(Warp& warp, uint32_t budget) {
  const Inst* code = warp.code;
  executed_ += budget;
  while (budget > 0) {
    const Inst& inst = code[warp.pc];
    uint32_t lanes = warp.mask;
    --budget;
    if (inst.guard != kNone) lanes &= warp.lanes_of(inst.guard);
    Step step = Step::kNext;
    if (lanes != 0) {
      if ((inst.flags & kConverged) != 0 && (warp.alive & ~warp.mask) != 0) {
        step = warp.block({WaitKind::kConverge, warp.alive, 0});
      } else {
        ++warp.counts[static_cast<size_t>(inst.kind)];
        if constexpr (kWatched) {
          step = watched_step(warp, inst, lanes);
        } else {
          step = inst.run(warp, inst, lanes);
        }
      }
    }
    if (step == Step::kNext) {
      ++warp.pc;
      if (warp.pc >= warp.meeting_pc) warp.reschedule();
      continue;
    }
    if (step == Step::kJump) {
      if (warp.alive == 0) break;
      if (warp.blocked) break;
      continue;
    }
    if (step == Step::kYield) {
      ++warp.pc;
      break;
    }
    warp.blocked = true;
    --warp.counts[static_cast<size_t>(inst.kind)];
    if (!warp.others.empty()) warp.reschedule();
    if (warp.blocked) break;
  }
  executed_ -= budget;
}

void Worker::finish(Warp& warp) {
  Cta& cta = *warp.cta;
  Cluster& cluster = *cta.cluster;
  for (size_t i = 0; i < warp.counts.size(); ++i) {
    tally_.classes[i] += warp.counts[i];
    tally_.instructions += warp.counts[i];
  }
  --cta.live_warps;
  --cluster.live_warps;
  if (monitor_ != nullptr) monitor_->warp_ends(warp);
  barrier_lost_lanes(cta);
  if (cta.live_warps == 0) check_tensor_exit(cta);
  if (cluster.live_warps == 0) retire();
}

bool Worker::retire() {
  bool any = false;
  for (size_t i = 0; i < clusters_.size();) {
    Cluster& cluster = *clusters_[i];
    if (cluster.live_warps == 0 && cluster.pending_ops == 0) {
      if (monitor_ != nullptr) monitor_->cluster_ends(cluster);
      pool_.take_back(cluster);
      clusters_[i] = std::move(clusters_.back());
      clusters_.pop_back();
      any = true;
    } else {
      ++i;
    }
  }
  return any;
}

void Worker::refill() {
  while (clusters_.size() < std::max(1u, grid_.options.resident_clusters)) {
    const uint64_t index = grid_.next_cluster.fetch_add(1);
    if (index >= grid_.clusters) break;
    clusters_.push_back(pool_.make_cluster(*this, index));
    if (monitor_ != nullptr) monitor_->cluster_begins(*clusters_.back());
    for (const auto& cta : clusters_.back()->ctas) {
      for (const auto& warp : cta->warps) {
        warp->priority = (uint64_t{1} << 33) + random_() % (uint64_t{1} << 33);
        enqueue(*warp);
      }
    }
  }
}

std::string Worker::deadlock_report() const {
  std::string text = "deadlock: nothing can go on";
  for (const auto& cluster : clusters_) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) text += waits_of(*warp);
    }
  }
  return text;
}

}  // namespace fa4::emulator
