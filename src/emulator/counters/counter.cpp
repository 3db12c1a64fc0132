// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/counters/counter.h"

#include <algorithm>
#include <bit>

#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

struct RowOfOperation final : OpRecord {
  size_t row = 0;
};

/// "warp 4", "warps 0 to 3", "warps 0, 2, 5".
std::string name_of(uint64_t warps) {
  const int first = std::countr_zero(warps), count = std::popcount(warps);
  std::string name = (count == 1 ? "warp " : "warps ") + std::to_string(first);
  if (count == 1) return name;
  const uint64_t rest = warps >> first;
  if ((rest & (rest + 1)) == 0) return name + " to " + std::to_string(first + count - 1);
  for (uint64_t more = warps & (warps - 1); more != 0; more &= more - 1) {
    name += ", " + std::to_string(std::countr_zero(more));
  }
  return name;
}

/// Functions that the same warps execute are one role, which has the name of the one that is nearly
/// all of it, if there is one.
std::vector<RoleCounts> merge(const std::vector<RoleCounts>& functions) {
  std::vector<RoleCounts> roles = {functions[0]};  // the kernel
  std::vector<uint64_t> most = {0};
  for (size_t f = 1; f < functions.size(); ++f) {
    const RoleCounts& one = functions[f];
    const auto same = std::find_if(roles.begin() + 1, roles.end(),
                                   [&](const RoleCounts& r) { return r.warps == one.warps; });
    const auto i = static_cast<size_t>(same - roles.begin());
    if (same == roles.end()) {
      roles.push_back({one.name, one.warps, {}});
      most.push_back(0);
    }
    roles[i].counts.add(one.counts);
    if (one.counts.instructions <= most[i]) continue;
    most[i] = one.counts.instructions;
    roles[i].name = one.name;
  }
  for (size_t i = 1; i < roles.size(); ++i) {
    if (10 * most[i] < 9 * roles[i].counts.instructions) roles[i].name = name_of(roles[i].warps);
  }
  return roles;
}

}  // namespace

Counter::Counter(const Grid& grid)
    : kernel_(*grid.kernel),
      warps_(grid.block_warps()),
      kinds_(kernel_.code.size()),
      nothing_(kernel_.code.size()),
      rows_(std::max<size_t>(kernel_.functions.size(), 1) * warps_),
      executed_(warps_, std::vector<bool>(kernel_.code.size())),
      blocked_(warps_) {
  for (size_t pc = 0; pc < kinds_.size(); ++pc) {
    const std::string_view opcode = kernel_.sites[pc].opcode;
    kinds_[pc].fma = kernel_.code[pc].kind == Class::kFloat && opcode.starts_with("fma.");
    kinds_[pc].results = opcode.ends_with("x2") ? 2 : 1;
    kinds_[pc].barrier = opcode.starts_with("mbarrier.");
    kinds_[pc].mbarrier =
        opcode.starts_with("mbarrier.try_wait") || opcode.starts_with("mbarrier.test_wait");
    kinds_[pc].waits = opcode.starts_with("bar.sync") || opcode.starts_with("bar.cta.sync") ||
                       opcode.starts_with("barrier.sync") ||
                       opcode.starts_with("barrier.cta.sync") ||
                       opcode.starts_with("barrier.cluster.wait");
  }
  quiet = nothing_.data();
}

void Counter::before(Warp& warp, uint32_t pc, uint32_t) {
  pc_ = pc;
  row_ = row(pc, warp.index);
  flops_ = warp.worker->tally().matrix_flops;
  copied_ = warp.worker->tally().copied_bytes;
  complete_ = false;
}

void Counter::after(Warp& warp, uint32_t pc, uint32_t lanes, bool done) {
  Counts& c = rows_[row_];
  c.matrix_flops += warp.worker->tally().matrix_flops - flops_;
  c.copied_bytes += warp.worker->tally().copied_bytes - copied_;
  const Kind& kind = kinds_[pc];
  const bool waits = kind.waits || kind.mbarrier;
  if (!done) {
    if (waits) blocked_[warp.index] = true;
    return;
  }
  executed_[warp.index][pc] = true;
  const auto class_of = kernel_.code[pc].kind;
  ++c.instructions;
  c.thread_instructions += static_cast<uint64_t>(std::popcount(lanes));
  ++c.classes[static_cast<size_t>(class_of)];
  if (kind.fma) c.fma += kind.results;
  if (class_of == Class::kSpecial) {
    c.special += kind.results * static_cast<uint64_t>(std::popcount(lanes));
  }
  if (!kind.waits && !complete_) return;
  ++c.waits;
  c.blocked += blocked_[warp.index] ? 1 : 0;
  blocked_[warp.index] = false;
}

void Counter::shared_access(Cta&, uint32_t, uint32_t bytes, Access access, Proxy) {
  // An mbarrier's own words are not what a model counts: operations touch nothing else atomically.
  const bool async = !operations_.empty();
  if (async ? access == Access::kAtomic : kinds_[pc_].barrier) return;
  Counts& c = now();
  if (access != Access::kWrite) (async ? c.async_shared_read : c.shared_read) += bytes;
  if (access != Access::kRead) (async ? c.async_shared_written : c.shared_written) += bytes;
}

void Counter::global_access(uint64_t, uint64_t bytes, Access access) {
  if (!operations_.empty()) return;  // copied_bytes has them
  Counts& c = now();
  if (access != Access::kWrite) c.global_read += bytes;
  if (access != Access::kRead) c.global_written += bytes;
}

void Counter::tensor_access(Cta&, const TensorBlock& block, Access access) {
  const uint64_t bytes = uint64_t{block.lanes} * block.columns * 4;
  Counts& c = now();
  if (access != Access::kWrite) c.tensor_read += bytes;
  if (access != Access::kRead) c.tensor_written += bytes;
}

void Counter::op_starts(AsyncOp& op) {
  auto record = std::make_unique<RowOfOperation>();
  record->row = row_;
  op.record = std::move(record);
}

void Counter::op_begins(AsyncOp& op) {
  const auto* record = static_cast<const RowOfOperation*>(op.record.get());
  operations_.push_back(record != nullptr ? record->row : row_);
  if (operations_.size() > 1) return;
  flops_of_op_ = op.cluster->worker->tally().matrix_flops;
  copied_of_op_ = op.cluster->worker->tally().copied_bytes;
}

void Counter::op_ends(AsyncOp& op) {
  const size_t row = operations_.back();
  operations_.pop_back();
  if (!operations_.empty()) return;
  const Tally& tally = op.cluster->worker->tally();
  const uint64_t flops = tally.matrix_flops - flops_of_op_;
  const uint64_t copied = tally.copied_bytes - copied_of_op_;
  rows_[row].matrix_flops += flops;
  rows_[row].copied_bytes += copied;
  // An operation that ends within an instruction (timing=earliest) is not the instruction's.
  flops_ += flops;
  copied_ += copied;
}

void Counter::mbarrier_test(Warp&, uint32_t, uint32_t, uint32_t, bool complete) {
  complete_ = complete_ || complete;
}

std::vector<RoleCounts> Counter::roles() const {
  std::vector<RoleCounts> roles = kernel_.functions.size() > 1 ? by_function() : by_warp();
  std::erase_if(roles, [](const RoleCounts& r) { return r.counts.instructions == 0; });
  return roles;
}

std::vector<RoleCounts> Counter::by_function() const {
  const auto& functions = kernel_.functions;
  // The warps that execute a function or what it calls.
  std::vector<uint64_t> warps(functions.size());
  for (size_t f = functions.size(); f-- > 0;) {
    for (uint32_t w = 0; w < warps_; ++w) {
      if (rows_[f * warps_ + w].instructions > 0) warps[f] |= uint64_t{1} << w;
    }
    if (f > 0) warps[functions[f].parent] |= warps[f];
  }
  std::vector<RoleCounts> roles;
  std::vector<size_t> role_of(functions.size());
  for (size_t f = 0; f < functions.size(); ++f) {
    if (f == 0) {
      roles.push_back({kernel_.name, warps[0], {}});
    } else {
      // A role's own functions belong to it; what all warps execute belongs to the kernel.
      role_of[f] = role_of[functions[f].parent];
      if (role_of[f] == 0 && warps[f] != warps[0]) {
        role_of[f] = roles.size();
        roles.push_back({functions[f].name, 0, {}});
      }
    }
    RoleCounts& role = roles[role_of[f]];
    role.warps |= warps[f];
    for (uint32_t w = 0; w < warps_; ++w) role.counts.add(rows_[f * warps_ + w]);
  }
  return merge(roles);
}

/// Whether two warps execute about the same instructions.
bool Counter::alike(uint32_t a, uint32_t b) const {
  size_t both = 0, any = 0;
  for (size_t pc = 0; pc < kinds_.size(); ++pc) {
    both += executed_[a][pc] && executed_[b][pc] ? 1 : 0;
    any += executed_[a][pc] || executed_[b][pc] ? 1 : 0;
  }
  return 2 * both >= any;
}

std::vector<RoleCounts> Counter::by_warp() const {
  std::vector<RoleCounts> roles;
  for (uint32_t first = 0; first < warps_;) {
    uint32_t last = first;
    while (last + 1 < warps_ && alike(first, last + 1)) ++last;
    RoleCounts role;
    for (uint32_t w = first; w <= last; ++w) {
      role.warps |= uint64_t{1} << w;
      role.counts.add(rows_[w]);
    }
    role.name = name_of(role.warps);
    roles.push_back(std::move(role));
    first = last + 1;
  }
  return roles;
}

}  // namespace fa4::emulator
