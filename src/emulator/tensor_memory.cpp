// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/tensor_memory.h"

#include <algorithm>

#include "emulator/machine.h"
#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

/// What nobody wrote: a NaN as float32 and as two 16-bit floats.
constexpr uint32_t kPoison = 0xffffffff;

/// "[0, 32)".
std::string columns_of(uint32_t first, uint32_t count) {
  std::string text(1, '[');
  text += std::to_string(first);
  text += ", ";
  text += std::to_string(first + count);
  text += ')';
  return text;
}

bool is_free(const TensorMemory& t, uint32_t first, uint32_t count) {
  return std::none_of(t.allocations.begin(), t.allocations.end(), [&](const TensorAllocation& a) {
    return first < a.column + a.columns && a.column < first + count;
  });
}

}  // namespace

LaneSet LaneSet::range(uint32_t first, uint32_t count) {
  LaneSet set;
  for (uint32_t lane = first; lane < first + count; ++lane) {
    set.bits[lane / 64] |= uint64_t{1} << (lane % 64);
  }
  return set;
}

TensorMemory::TensorMemory() : cells(size_t{kTensorLanes} * kTensorColumns, kPoison) {}

bool TensorMemory::is_allocated(uint32_t first, uint32_t count) const {
  uint32_t at = first;
  const uint32_t end = first + count;
  // Neighbouring allocations may share the range.
  for (bool moved = true; at < end && moved;) {
    moved = false;
    for (const TensorAllocation& a : allocations) {
      if (!a.given_back && a.column <= at && at < a.column + a.columns) {
        at = a.column + a.columns;
        moved = true;
      }
    }
  }
  return at >= end;
}

std::optional<uint32_t> TensorMemory::find_free(uint32_t columns, const TensorMemory* other) const {
  for (uint32_t first = 0; first + columns <= kTensorColumns; first += kAllocationUnit) {
    if (!is_free(*this, first, columns)) continue;
    if (other == nullptr || is_free(*other, first, columns)) return first;
  }
  return std::nullopt;
}

void TensorMemory::allocate(uint32_t first, uint32_t columns) {
  allocations.push_back({first, columns, false});
  last_columns = columns;
}

void TensorMemory::release(uint32_t first) {
  const auto at = std::find_if(allocations.begin(), allocations.end(),
                               [&](const TensorAllocation& a) { return a.column == first; });
  if (!forgiving) {
    std::fill_n(column(first), size_t{at->columns} * kTensorLanes, kPoison);
    std::fill_n(written.begin() + first, at->columns, LaneSet{});
  }
  allocations.erase(at);
}

TensorAllocation* TensorMemory::find(uint32_t first) {
  for (TensorAllocation& a : allocations) {
    if (a.column == first) return &a;
  }
  return nullptr;
}

std::string TensorMemory::describe_allocations() const {
  if (allocations.empty()) return "nothing";
  std::string text;
  for (const TensorAllocation& a : allocations) {
    if (!text.empty()) text += ", ";
    text += columns_of(a.column, a.columns);
    if (a.given_back) text += " (given back)";
  }
  return text;
}

void TensorMemory::check(uint32_t first, uint32_t count, const char* what) const {
  if (first + count <= kTensorColumns && (forgiving || is_allocated(first, count))) return;
  throw Fault(Rule::kTensorUnallocated,
              std::string(what) + ": tensor memory columns " + columns_of(first, count) +
                  " are not allocated; allocated is " + describe_allocations());
}

TensorMemory& tensor_memory(Cta& cta) {
  if (cta.tensor == nullptr) {
    cta.tensor = {new TensorMemory, [](TensorMemory* t) { delete t; }};
    cta.tensor->forgiving = cta.cluster->worker->grid().options.forgives(Rule::kTensorUnallocated);
    cta.tensor->pending_stores.resize(cta.warps.size());
    cta.tensor->pending_loads.resize(cta.warps.size());
  }
  return *cta.tensor;
}

Cta& peer_of(Cta& cta) {
  Cluster& cluster = *cta.cluster;
  const uint32_t rank = cta.rank ^ 1;
  if (rank >= cluster.ctas.size()) {
    throw Fault("cta_group::2 in CTA " + std::to_string(cta.rank) + " of a cluster of " +
                std::to_string(cluster.ctas.size()) + ", which has no CTA " + std::to_string(rank));
  }
  return *cluster.ctas[rank];
}

void use_group(Cta& cta, uint32_t group) {
  TensorMemory& t = tensor_memory(cta);
  if (t.group != 0 && t.group != group) {
    throw Fault("cta_group::" + std::to_string(group) + " in a kernel that has used cta_group::" +
                std::to_string(t.group) + "; allowed: one of them");
  }
  t.group = group;
}

void check_tensor_exit(Cta& cta) {
  if (cta.tensor == nullptr) return;
  for (const TensorAllocation& a : cta.tensor->allocations) {
    if (a.given_back) continue;
    throw Fault(Rule::kTensorAllocation, "CTA " + std::to_string(cta.rank) + " of cluster " +
                                             std::to_string(cta.cluster->index) +
                                             " exits with tensor memory columns " +
                                             columns_of(a.column, a.columns) + " still allocated");
  }
}

}  // namespace fa4::emulator
