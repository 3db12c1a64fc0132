// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/decode/liveness.h"

#include <algorithm>
#include <map>

namespace fa4::emulator::decode {

std::vector<Block> find_blocks(const Kernel& kernel) {
  const auto size = static_cast<uint32_t>(kernel.code.size());
  std::vector<bool> starts(size + 1, false);
  starts[0] = true;
  for (uint32_t pc = 0; pc < size; ++pc) {
    const Inst& i = kernel.code[pc];
    if ((i.flags & (kBranch | kEnds)) != 0) starts[pc + 1] = true;
    if ((i.flags & kBranch) != 0 && i.target < size) starts[i.target] = true;
  }
  std::vector<Block> blocks;
  std::vector<uint32_t> block_of(size, 0);
  for (uint32_t pc = 0; pc < size; ++pc) {
    if (starts[pc]) blocks.push_back({pc, pc, {}});
    blocks.back().end = pc + 1;
    block_of[pc] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (Block& b : blocks) {
    const Inst& last = kernel.code[b.end - 1];
    const bool always = last.guard == kNone;
    const bool leaves = (last.flags & (kBranch | kEnds)) != 0;
    if (b.end < size && !(leaves && always)) b.next.push_back(block_of[b.end]);
    if ((last.flags & kBranch) != 0 && last.target < size) {
      b.next.push_back(block_of[last.target]);
    }
  }
  return blocks;
}

namespace {

using Bits = std::vector<uint64_t>;
void set(Bits& b, uint32_t i) { b[i / 64] |= uint64_t{1} << (i % 64); }
void clear(Bits& b, uint32_t i) { b[i / 64] &= ~(uint64_t{1} << (i % 64)); }

template <class F>
void for_each(const Bits& b, F f) {
  for (size_t w = 0; w < b.size(); ++w) {
    for (uint64_t x = b[w]; x != 0; x &= x - 1) {
      f(static_cast<uint32_t>(64 * w) + static_cast<uint32_t>(__builtin_ctzll(x)));
    }
  }
}

class Liveness {
 public:
  Liveness(const Kernel& kernel, const RegisterTable& registers,
           const std::vector<RegisterRef>& refs)
      : kernel_(kernel), words_((registers.size() + 63) / 64), blocks_(find_blocks(kernel)) {
    by_pc_.resize(kernel.code.size() + 1);
    for (const RegisterRef& r : refs) {
      // Presets have a place of their own, predicates too.
      if (registers[r.reg].preset < 0 && registers[r.reg].bytes > 0) by_pc_[r.pc].push_back(r);
    }
    find_in_flight();
  }

  std::vector<LiveRange> run(size_t registers) {
    std::vector<Bits> live_in(blocks_.size(), Bits(words_));
    std::vector<LiveRange> ranges(registers);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        Bits live = at_end(b, live_in);
        for (uint32_t pc = blocks_[b].end; pc-- > blocks_[b].begin;) before(pc, live);
        if (live != live_in[b]) {
          live_in[b] = std::move(live);
          changed = true;
        }
      }
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      Bits live = at_end(b, live_in);
      cover(ranges, live, blocks_[b].end - 1);
      for (uint32_t pc = blocks_[b].end; pc-- > blocks_[b].begin;) {
        for (const RegisterRef& r : by_pc_[pc]) ranges[r.reg].cover(pc);
        if (const auto it = waits_.find(pc); it != waits_.end()) cover(ranges, it->second, pc);
        before(pc, live);
      }
      cover(ranges, live, blocks_[b].begin);
    }
    return ranges;
  }

 private:
  static void cover(std::vector<LiveRange>& ranges, const Bits& live, uint32_t pc) {
    for_each(live, [&](uint32_t reg) { ranges[reg].cover(pc); });
  }

  Bits at_end(size_t b, const std::vector<Bits>& live_in) const {
    Bits live(words_);
    for (const uint32_t n : blocks_[b].next) {
      for (size_t w = 0; w < words_; ++w) live[w] |= live_in[n][w];
    }
    return live;
  }

  /// From what lives behind the instruction to what lives before it.
  void before(uint32_t pc, Bits& live) const {
    const bool always = kernel_.code[pc].guard == kNone;
    for (const RegisterRef& r : by_pc_[pc]) {
      if (r.is_write && always) clear(live, r.reg);
    }
    for (const RegisterRef& r : by_pc_[pc]) {
      if (r.is_read) set(live, r.reg);
    }
    if (const auto it = waits_.find(pc); it != waits_.end()) {
      for (size_t w = 0; w < words_; ++w) live[w] |= it->second[w];
    }
  }

  /// Whether anything new came to `to`.
  static bool merge(Bits& to, const Bits& from) {
    bool changed = false;
    for (size_t w = 0; w < to.size(); ++w) {
      const uint64_t more = to[w] | from[w];
      changed |= more != to[w];
      to[w] = more;
    }
    return changed;
  }

  /// From what is in flight before the instruction to what is behind it.
  void fly(uint32_t pc, Bits& flying) {
    const Inst& inst = kernel_.code[pc];
    if ((inst.flags & kAsyncWait) != 0) {
      merge(waits_.try_emplace(pc, Bits(words_)).first->second, flying);
      if (inst.imm == 0) std::fill(flying.begin(), flying.end(), 0);
    }
    if ((inst.flags & kAsyncResult) == 0) return;
    for (const RegisterRef& r : by_pc_[pc]) {
      if (r.is_write) set(flying, r.reg);
    }
  }

  /// Registers that may still be written by operations in flight, at each kAsyncWait.
  void find_in_flight() {
    std::vector<Bits> entry(blocks_.size(), Bits(words_));
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        Bits flying = entry[b];
        for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc) fly(pc, flying);
        for (const uint32_t n : blocks_[b].next) changed |= merge(entry[n], flying);
      }
    }
  }

  const Kernel& kernel_;
  size_t words_;
  std::vector<Block> blocks_;
  std::vector<std::vector<RegisterRef>> by_pc_;
  std::map<uint32_t, Bits> waits_;
};

}  // namespace

std::vector<LiveRange> live_ranges(const Kernel& kernel, const RegisterTable& registers,
                                   const std::vector<RegisterRef>& refs) {
  return Liveness(kernel, registers, refs).run(registers.size());
}

}  // namespace fa4::emulator::decode
