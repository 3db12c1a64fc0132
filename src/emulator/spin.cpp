// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/spin.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

/// Instructions of a loop, and how often its registers are compared.
constexpr uint32_t kLongestLoop = 4096;
constexpr uint32_t kMostLooks = 64;

/// Whether the instruction changes nothing but registers. An atomic one may; it says so itself.
bool only_looks(const Kernel& kernel, uint32_t pc) {
  const Inst& inst = kernel.code[pc];
  const std::string_view opcode = kernel.sites[pc].opcode;
  if ((inst.flags & kEnds) != 0) return false;
  if (is_arithmetic(inst.kind)) return true;
  switch (inst.kind) {
    case Class::kWarp:
    case Class::kOther:
    case Class::kAtomic:
      return true;
    case Class::kControl:
      return !opcode.starts_with("call");
    case Class::kParam:
    case Class::kGlobal:
    case Class::kShared:
    case Class::kLocal:
      return opcode.starts_with("ld");
    case Class::kBarrier:
      return opcode.starts_with("mbarrier.test_wait") || opcode.starts_with("mbarrier.try_wait") ||
             opcode.starts_with("fence") || opcode.starts_with("membar") ||
             opcode.starts_with("nanosleep") || opcode.starts_with("bar.warp.sync");
    default:
      return false;
  }
}

struct Snapshot {
  uint32_t pc, mask;
  std::vector<std::byte> registers;
  std::vector<uint32_t> predicates;

  explicit Snapshot(const Warp& warp)
      : pc(warp.pc),
        mask(warp.mask),
        registers(warp.registers, warp.registers + warp.program().register_bytes),
        predicates(warp.predicates, warp.predicates + warp.program().predicates) {}

  bool is_at(const Warp& warp) const {
    return warp.pc == pc && warp.mask == mask && warp.others.empty();
  }
  bool is_as(const Warp& warp) const {
    return std::memcmp(registers.data(), warp.registers, registers.size()) == 0 &&
           std::equal(predicates.begin(), predicates.end(), warp.predicates);
  }
};

}  // namespace

uint64_t SpinVote::round() {
  const std::lock_guard lock(mutex_);
  return waiting_ == running_ ? round_ : 0;
}

bool SpinVote::confirm(uint64_t round, uint64_t& mine) {
  const std::lock_guard lock(mutex_);
  if (round != round_ || mine == round) return false;
  mine = round;
  return ++confirmed_ == running_;
}

void SpinVote::change(uint32_t* count, int by) {
  const std::lock_guard lock(mutex_);
  *count += static_cast<uint32_t>(by);
  ++round_;
  confirmed_ = 0;
}

/// Whether the running split of a warp that has no other comes round to where it is.
bool Worker::comes_round(Warp& warp) {
  const Snapshot before(warp);
  uint32_t looks = 0;
  changed_ = false;
  for (uint32_t i = 0; i < kLongestLoop && looks < kMostLooks; ++i) {
    const Inst& inst = warp.code[warp.pc];
    const bool runs = inst.guard == kNone || (warp.mask & warp.lanes_of(inst.guard)) != 0;
    if (runs && !only_looks(warp.program(), warp.pc)) return false;
    run_turn(warp, 1);
    if (changed_ || warp.blocked) return false;
    if (!before.is_at(warp)) continue;
    if (before.is_as(warp)) return true;
    ++looks;
  }
  return false;
}

/// Whether all splits of the warp that can run come round, each with the others out of its way.
bool Worker::spins(Warp& warp) {
  const size_t count = warp.others.size() + 1;
  bool all = true;
  for (size_t i = 0; i < count && all; ++i) {
    std::vector<Split> others = std::exchange(warp.others, {});
    warp.meeting_pc = kNone;
    if (!warp.blocked) all = comes_round(warp);
    // The next one's turn; this one goes to the end.
    warp.others.insert(warp.others.begin(), others.begin(), others.end());
    if (all && !others.empty()) warp.turn_splits();
  }
  warp.reschedule();
  if (!warp.can_run()) dequeue(warp);
  return all;
}

bool Worker::all_spin() {
  const std::vector<Warp*> warps = runnable_;
  return std::all_of(warps.begin(), warps.end(), [&](Warp* warp) { return spins(*warp); });
}

bool Worker::is_deadlocked() {
  if (!all_spin()) return false;
  if (step_async()) return false;
  SpinVote& vote = grid_.vote;
  vote.wait();
  uint64_t confirmed = 0;
  while (!grid_.stop) {
    const uint64_t round = vote.round();
    if (!all_spin()) break;
    if (round != 0 && vote.confirm(round, confirmed)) return true;
    std::this_thread::yield();
  }
  vote.go_on();
  return false;
}

}  // namespace fa4::emulator
