// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/decode/registers.h"

#include <algorithm>

#include "emulator/decode/liveness.h"

namespace fa4::emulator::decode {
namespace {

constexpr uint32_t kWidths[3] = {4, 8, 16};

size_t width_index(uint8_t bytes) { return bytes == 16 ? 2 : bytes == 8 ? 1 : 0; }

}  // namespace

uint32_t RegisterTable::add(Type type) {
  VirtualRegister r;
  r.type = type;
  const uint32_t bytes = ptx::size_of(type);
  r.bytes = static_cast<uint8_t>(type == Type::kPred ? 0 : bytes > 8 ? 16 : bytes > 4 ? 8 : 4);
  if (type == Type::kPred) r.predicate = predicates_++;
  registers_.push_back(r);
  return static_cast<uint32_t>(registers_.size() - 1);
}

uint32_t RegisterTable::preset(const Preset& p) {
  const uint64_t key = static_cast<uint64_t>(p.kind) << 16 | uint64_t{p.axis} << 8 | p.bytes;
  const auto [it, is_new] = by_preset_.try_emplace({key, p.value}, 0);
  if (is_new) {
    it->second = add(p.bytes == 8 ? Type::kB64 : Type::kB32);
    registers_.back().preset = static_cast<int32_t>(presets_.size());
    presets_.push_back(p);
  }
  return it->second;
}

uint32_t RegisterTable::constant(uint64_t value, uint8_t bytes) {
  return preset({PresetKind::kConstant, bytes, 0, 0, value});
}

uint32_t RegisterTable::constant_predicate(bool value) {
  uint32_t& p = constant_predicates_[value ? 1 : 0];
  if (p == kNone) p = add(Type::kPred);
  return p;
}

uint32_t RegisterTable::sink(uint8_t bytes) {
  uint32_t& s = sinks_[width_index(bytes)];
  if (s == kNone) s = add(bytes == 16 ? Type::kB128 : bytes == 8 ? Type::kB64 : Type::kB32);
  return s;
}

/// A place number for each register, counted for each width on its own: registers that are never
/// alive at once share one.
std::vector<uint32_t> RegisterTable::share_places(const Kernel& kernel,
                                                  std::array<uint32_t, 3>& counts) const {
  const std::vector<LiveRange> ranges = live_ranges(kernel, *this, refs_);
  std::vector<uint32_t> order;
  std::vector<uint32_t> place(registers_.size(), kNone);
  for (uint32_t i = 0; i < registers_.size(); ++i) {
    if (registers_[i].bytes == 0) continue;
    if (registers_[i].preset >= 0 || !ranges[i].used()) {
      place[i] = counts[width_index(registers_[i].bytes)]++;
    } else {
      order.push_back(i);
    }
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return ranges[a].first < ranges[b].first || (ranges[a].first == ranges[b].first && a < b);
  });
  // Linear scan: places that are free, and those in use by the pc at which they end.
  std::array<std::vector<uint32_t>, 3> free;
  std::multimap<uint32_t, uint32_t> active;
  for (const uint32_t reg : order) {
    while (!active.empty() && active.begin()->first < ranges[reg].first) {
      const uint32_t ended = active.begin()->second;
      free[width_index(registers_[ended].bytes)].push_back(place[ended]);
      active.erase(active.begin());
    }
    const size_t w = width_index(registers_[reg].bytes);
    if (free[w].empty()) {
      place[reg] = counts[w]++;
    } else {
      place[reg] = free[w].back();
      free[w].pop_back();
    }
    active.emplace(ranges[reg].last, reg);
  }
  return place;
}

void RegisterTable::place(Kernel& kernel, bool share) {
  std::array<uint32_t, 3> counts{};
  std::vector<uint32_t> places;
  if (share) {
    places = share_places(kernel, counts);
  } else {
    for (const VirtualRegister& r : registers_) {
      places.push_back(r.bytes == 0 ? kNone : counts[width_index(r.bytes)]++);
    }
  }
  std::array<uint32_t, 3> begin{};
  uint32_t end = 0;
  for (size_t w = 0; w < 3; ++w) {
    begin[w] = end;
    end += counts[w] * kWidths[w] * kLanes;
  }
  kernel.register_bytes = end;
  kernel.predicates = predicates_;
  const auto slot = [&](uint32_t reg) {
    const size_t w = width_index(registers_[reg].bytes);
    return begin[w] + places[reg] * kWidths[w] * kLanes;
  };
  for (const RegisterRef& r : refs_) {
    const VirtualRegister& reg = registers_[r.reg];
    uint32_t& field = r.field != nullptr ? kernel.code[r.pc].*r.field : kernel.lists[r.list_index];
    if (reg.bytes == 0) {
      // The decoder left 1 there if the predicate is negated.
      field = 2 * reg.predicate + (field & 1);
    } else {
      field = slot(r.reg);
    }
  }
  kernel.first_use.assign(kernel.code.size() + 1, 0);
  for (const RegisterRef& r : refs_) {
    const VirtualRegister& reg = registers_[r.reg];
    const uint32_t where = reg.bytes == 0 ? 2 * reg.predicate : slot(r.reg);
    if (r.is_read) kernel.uses.push_back({r.pc, where, reg.bytes, false, reg.bytes == 0});
    if (r.is_write) kernel.uses.push_back({r.pc, where, reg.bytes, true, reg.bytes == 0});
  }
  std::stable_sort(kernel.uses.begin(), kernel.uses.end(),
                   [](const RegisterUse& a, const RegisterUse& b) { return a.pc < b.pc; });
  for (const RegisterUse& u : kernel.uses) ++kernel.first_use[u.pc + 1];
  for (size_t i = 1; i < kernel.first_use.size(); ++i) {
    kernel.first_use[i] += kernel.first_use[i - 1];
  }
  for (uint32_t i = 0; i < registers_.size(); ++i) {
    if (registers_[i].preset < 0) continue;
    Preset p = presets_[static_cast<size_t>(registers_[i].preset)];
    p.slot = slot(i);
    kernel.presets.push_back(p);
  }
  if (constant_predicates_[1] != kNone) {
    kernel.true_predicates.push_back(registers_[constant_predicates_[1]].predicate);
  }
  if (constant_predicates_[0] != kNone) {
    kernel.false_predicates.push_back(registers_[constant_predicates_[0]].predicate);
  }
}

}  // namespace fa4::emulator::decode
