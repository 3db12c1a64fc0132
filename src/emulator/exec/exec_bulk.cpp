// SPDX-License-Identifier: BSD-3-Clause
// Bulk and tensor copies: PTX ISA 9.7.9.25, 9.7.9.27.
#include <bit>
#include <cstring>
#include <span>

#include "emulator/exec/copy_handlers.h"
#include "emulator/monitor.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

/// One copy, as a thread asked for it.
struct Request {
  BulkKind kind;
  TensorMapSpec map;
  Coordinates at{};
  uint64_t global = 0;
  uint32_t shared = 0;  ///< Destination of loads, source of stores.
  uint32_t source = 0;  ///< kSharedToShared.
  uint32_t bytes = 0;
  uint32_t mbarrier = 0;
  uint32_t ctas = 0;  ///< Multicast mask; 0 if it is none.
  bool pair = false;  ///< cta_group 2.
  /// .tile::gather4 and scatter4: `at` is a column and the tensor's rows that are those of the box.
  bool four_rows = false;
  ReduceKind reduce = ReduceKind::kReplace;
  MapType type = MapType::kU8;
};

/// Same offset in another CTA of the cluster.
uint32_t at_rank(uint32_t address, uint32_t rank) {
  return (address & kOffsetMask) | rank << kRankShift;
}

void tell_global(const Cluster& cluster, const std::byte* at, uint64_t bytes, Access access) {
  Monitor* monitor = cluster.worker->monitor();
  if (monitor == nullptr || at == nullptr) return;
  monitor->global_access(reinterpret_cast<uint64_t>(at), bytes, access);
}

constexpr uint32_t kFourRows = 4;

/// f(row, map and coordinates of a box that is it alone) for the rows of .gather4 and .scatter4.
template <class F>
void for_four_rows(const Request& r, F f) {
  TensorMapSpec one = r.map;
  one.box[1] = 1;
  for (uint32_t row = 0; row < kFourRows; ++row) f(row, one, Coordinates{r.at[0], r.at[1 + row]});
}

std::vector<std::byte> read_tensor(const MemoryMap& memory, const Request& r, Monitor* monitor) {
  if (!r.four_rows) return read_box(memory, r.map, r.at, monitor);
  std::vector<std::byte> data;
  for_four_rows(r, [&](uint32_t, const TensorMapSpec& map, const Coordinates& at) {
    const std::vector<std::byte> row = read_box(memory, map, at, monitor);
    data.insert(data.end(), row.begin(), row.end());
  });
  return data;
}

void write_tensor(const MemoryMap& memory, const Request& r, const std::vector<std::byte>& data,
                  Monitor* monitor) {
  if (!r.four_rows) return write_box(memory, r.map, r.at, data, r.reduce, monitor);
  const auto size = static_cast<ptrdiff_t>(data.size() / kFourRows);
  for_four_rows(r, [&](uint32_t row, const TensorMapSpec& map, const Coordinates& at) {
    const auto begin = data.begin() + static_cast<ptrdiff_t>(row) * size;
    write_box(memory, map, at, {begin, begin + size}, r.reduce, monitor);
  });
}

class Load final : public AsyncOp {
 public:
  Load(Cluster& owner, uint32_t site, const Request& request)
      : AsyncOp(owner, site), request_(request) {}

  bool step() override {
    const std::vector<std::byte> data = fetch();
    if (request_.ctas == 0) {
      deliver(request_.shared, request_.mbarrier, data);
      return true;
    }
    for (uint32_t rest = request_.ctas; rest != 0; rest &= rest - 1) {
      const auto rank = static_cast<uint32_t>(std::countr_zero(rest));
      // With cta_group 2 the signal goes to the CTA of the pair that has the mbarrier's parity.
      const uint32_t owner = request_.mbarrier >> kRankShift;
      const uint32_t signalled = request_.pair ? (rank & ~1u) | (owner & 1) : rank;
      deliver(at_rank(request_.shared, rank), at_rank(request_.mbarrier, signalled), data);
    }
    return true;
  }

 private:
  std::vector<std::byte> fetch() const {
    Grid& grid = cluster->worker->grid();
    if (request_.kind == BulkKind::kTensorLoad)
      return read_tensor(grid.memory, request_, cluster->worker->monitor());
    std::vector<std::byte> data(request_.bytes);
    const std::byte* from =
        request_.kind == BulkKind::kLoad
            ? resolve_global(grid.memory, request_.global, request_.bytes, Access::kRead)
            : resolve_shared(*cluster, request_.source, request_.bytes, 16, Access::kRead,
                             Proxy::kAsync);
    tell_global(*cluster, request_.kind == BulkKind::kLoad ? from : nullptr, request_.bytes,
                Access::kRead);
    std::memcpy(data.data(), from, data.size());
    return data;
  }

  void deliver(uint32_t address, uint32_t mbarrier, const std::vector<std::byte>& data) const {
    if (request_.kind == BulkKind::kTensorLoad) {
      box_to_shared(*cluster, address, request_.map, data);
    } else {
      std::byte* to =
          resolve_shared(*cluster, address, request_.bytes, 16, Access::kWrite, Proxy::kAsync);
      if (request_.reduce == ReduceKind::kReplace) {
        std::memcpy(to, data.data(), data.size());
      } else {
        reduce_bytes(to, data.data(), data.size(), request_.type, request_.reduce);
      }
    }
    cluster->worker->tally().copied_bytes += data.size();
    mbarrier_complete(*cluster, mbarrier, static_cast<int64_t>(data.size()));
  }

  Request request_;
};

/// Two steps: what is in shared memory may change once it has been read.
class Store final : public AsyncOp {
 public:
  Store(Warp& warp, uint32_t lane, const Request& request)
      : AsyncOp(*warp.cta->cluster, warp.pc), warp_(warp), lane_(lane), request_(request) {
    BulkGroups& groups = *warp.bulk[lane];
    group_ = groups.open();
    ++groups.at(group_).unread;
    ++groups.at(group_).unwritten;
  }

  bool step() override {
    BulkGroups::Group& group = warp_.bulk[lane_]->at(group_);
    const bool first = !group_read_;
    if (first) {
      read();
      group_read_ = true;
      --group.unread;
    } else {
      write();
      --group.unwritten;
    }
    if (warp_.wake(WaitKind::kBulkGroup, std::nullopt)) warp_.worker->enqueue(warp_);
    return !first;
  }

 private:
  void read() {
    if (request_.kind == BulkKind::kTensorStore) {
      data_ = box_from_shared(*cluster, request_.shared, request_.map);
      return;
    }
    const std::byte* from =
        resolve_shared(*cluster, request_.shared, request_.bytes, 16, Access::kRead, Proxy::kAsync);
    data_.assign(from, from + request_.bytes);
  }

  void write() {
    const MemoryMap& memory = cluster->worker->grid().memory;
    cluster->worker->tally().copied_bytes += data_.size();
    if (request_.kind == BulkKind::kTensorStore) {
      write_tensor(memory, request_, data_, cluster->worker->monitor());
      return;
    }
    std::byte* to = resolve_global(memory, request_.global, request_.bytes, Access::kWrite);
    const bool plain = request_.reduce == ReduceKind::kReplace;
    tell_global(*cluster, to, request_.bytes, plain ? Access::kWrite : Access::kAtomic);
    if (request_.reduce == ReduceKind::kReplace) {
      std::memcpy(to, data_.data(), data_.size());
    } else {
      reduce_bytes(to, data_.data(), data_.size(), request_.type, request_.reduce);
    }
  }

  Warp& warp_;
  uint32_t lane_;
  Request request_;
  uint64_t group_ = 0;
  bool group_read_ = false;
  std::vector<std::byte> data_;
};

// ---- the instruction ---------------------------------------------------------------------------

/// Reads a lane's operands from the list, front to back.
class CopyOperands {
 public:
  CopyOperands(Warp& w, const Inst& i, uint32_t lane) : warp_(w), inst_(i), lane_(lane) {}

  uint64_t next(uint32_t bytes) {
    const uint32_t slot = warp_.program().lists[inst_.list + at_++];
    return bytes == 8 ? warp_.reg<uint64_t>(slot)[lane_] : warp_.reg<uint32_t>(slot)[lane_];
  }
  uint32_t shared(uint32_t bytes, uint32_t offset) {
    uint64_t address = next(bytes) + static_cast<uint64_t>(static_cast<int32_t>(offset));
    if (bytes == 4) address &= 0xffffffff;
    address &= ~kSharedWindow;
    if (address >> 32 != 0) throw Fault("shared address " + hex(address) + " exceeds 32 bits");
    return static_cast<uint32_t>(address);
  }
  bool more() const { return at_ < inst_.list_size; }

 private:
  Warp& warp_;
  const Inst& inst_;
  uint32_t lane_;
  uint32_t at_ = 0;
};

TensorMapSpec fetch_map(Warp& w, uint64_t address, uint32_t lane) {
  if (address % 64 != 0)
    throw Fault("tensor map address " + hex(address) + " is no multiple of 64");
  const std::byte* at = resolve(w, Space::kGeneric, address, 128, 64, Access::kRead, lane);
  if (Monitor* monitor = w.worker->monitor()) monitor->tensor_map(address, true);
  return decode_tensor_map(std::span<const std::byte, 128>(at, 128));
}

/// PTX ISA 5.5.3.1: a box's address is a multiple of 16 bytes. On an H200 any other is an illegal
/// instruction.
void check_first_coordinate(const TensorMapSpec& map, int32_t first) {
  const auto size = static_cast<int32_t>(size_of(map.type)), step = 16 / size;
  if (first % step == 0) return;
  throw Fault("a tensor copy at coordinate 0 = " + std::to_string(first) + " of elements of " +
              std::to_string(size) + (size == 1 ? " byte" : " bytes") + "; allowed: multiples of " +
              std::to_string(step) + ", which are multiples of 16 bytes");
}

/// An H200 takes a store or a reduction that begins before the tensor for an illegal instruction.
void check_store_coordinates(const Coordinates& at) {
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] >= 0) continue;
    throw Fault("a tensor store or reduction at coordinate " + std::to_string(i) + " = " +
                std::to_string(at[i]) + "; allowed: 0 and up (only loads may begin before)");
  }
}

void read_barrier(CopyOperands& operands, const Inst& i, Request& r) {
  r.mbarrier = operands.shared(i.mod[11], i.e);
  if (i.mod[5] == 0) return;
  r.ctas = static_cast<uint32_t>(operands.next(4)) & 0xffff;
  if (r.ctas == 0) throw Fault("a multicast copy to no CTA");
}

Request tensor_request(Warp& w, const Inst& i, uint32_t lane, Request r) {
  CopyOperands operands(w, i, lane);
  r.map = fetch_map(w, operands.next(8) + static_cast<uint64_t>(static_cast<int32_t>(i.b)), lane);
  r.shared = operands.shared(i.mod[9], i.c);
  if (r.map.rank != i.mod[1]) {
    throw Fault("a tensor map of " + std::to_string(r.map.rank) + " dimensions");
  }
  if (r.four_rows) {
    if (r.map.box[1] != 1) {
      throw Fault("a copy of four rows with box dimension 1 = " + std::to_string(r.map.box[1]) +
                  "; allowed: 1");
    }
    r.map.box[1] = kFourRows;
    r.map.element_strides[1] = 1;
  }
  const uint32_t coordinates = r.four_rows ? 1 + kFourRows : i.mod[1];
  for (uint32_t k = 0; k < coordinates; ++k) r.at[k] = static_cast<int32_t>(operands.next(4));
  check_first_coordinate(r.map, r.at[0]);
  if (r.kind == BulkKind::kTensorStore) check_store_coordinates(r.at);
  r.bytes = box_bytes(r.map);
  if (r.kind == BulkKind::kTensorLoad) read_barrier(operands, i, r);
  return r;
}

Request plain_request(Warp& w, const Inst& i, uint32_t lane, Request r) {
  CopyOperands operands(w, i, lane);
  const bool store = r.kind == BulkKind::kStore;
  const auto global = [&](uint32_t bytes, uint32_t offset) {
    return operands.next(bytes) + static_cast<uint64_t>(static_cast<int32_t>(offset));
  };
  if (store) {
    r.global = global(i.mod[8], i.b);
    r.shared = operands.shared(i.mod[9], i.c);
  } else {
    r.shared = operands.shared(i.mod[8], i.b);
    if (r.kind == BulkKind::kLoad) {
      r.global = global(i.mod[9], i.c);
    } else {
      r.source = operands.shared(i.mod[9], i.c);
    }
  }
  r.bytes = static_cast<uint32_t>(operands.next(4));
  if (r.bytes % 16 != 0) {
    throw Fault("a bulk copy of " + std::to_string(r.bytes) + " bytes; allowed: a multiple of 16");
  }
  if (r.bytes > (1u << kRankShift))
    throw Fault("a bulk copy of " + std::to_string(r.bytes) + " bytes");
  if (r.global % 16 != 0)
    throw Fault("global address " + hex(r.global) + " is not a multiple of 16");
  if (!store) read_barrier(operands, i, r);
  return r;
}

Request request_of(Warp& w, const Inst& i, uint32_t lane) {
  Request r;
  r.kind = static_cast<BulkKind>(i.mod[0]);
  r.reduce = static_cast<ReduceKind>(i.mod[2]);
  r.type = static_cast<MapType>(i.mod[3]);
  r.pair = i.mod[4] != 0;
  r.four_rows = i.mod[7] != 0;
  const bool tensor = r.kind == BulkKind::kTensorLoad || r.kind == BulkKind::kTensorStore;
  return tensor ? tensor_request(w, i, lane, r) : plain_request(w, i, lane, r);
}

bool same_operands(const Warp& w, const Inst& i, uint32_t mask) {
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  for (uint32_t k = 0; k < i.list_size; ++k) {
    const uint32_t slot = w.program().lists[i.list + k];
    const bool wide = (k == 0 && i.mod[8] == 8) || (k == 1 && i.mod[9] == 8);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<uint32_t>(std::countr_zero(rest));
      const bool same = wide ? w.reg<uint64_t>(slot)[l] == w.reg<uint64_t>(slot)[first]
                             : w.reg<uint32_t>(slot)[l] == w.reg<uint32_t>(slot)[first];
      if (!same) return false;
    }
  }
  return true;
}

BulkGroups& groups_of(Warp& w, uint32_t lane) {
  if (w.bulk[lane] == nullptr) w.bulk[lane] = std::make_unique<BulkGroups>();
  return *w.bulk[lane];
}

Step copy_bulk(Warp& w, const Inst& i, uint32_t mask) {
  const auto kind = static_cast<BulkKind>(i.mod[0]);
  const bool store = kind == BulkKind::kTensorStore || kind == BulkKind::kStore;
  // A whole warp that stores the same box without electing a lane does it once: that is what the
  // hardware makes of it.
  if (store && mask != (mask & (0u - mask)) && same_operands(w, i, mask)) mask &= 0u - mask;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (Monitor* monitor = w.worker->monitor()) monitor->lane = lane;
    const Request r = request_of(w, i, lane);
    if (store) {
      groups_of(w, lane);
      w.worker->start(std::make_unique<Store>(w, lane, r));
    } else {
      w.worker->start(std::make_unique<Load>(*w.cta->cluster, w.pc, r));
    }
  }
  return Step::kNext;
}

Step commit_bulk(Warp& w, const Inst&, uint32_t mask) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    BulkGroups& groups = groups_of(w, static_cast<uint32_t>(std::countr_zero(rest)));
    groups.groups.emplace_back();
    groups.forget_done();
  }
  return Step::kNext;
}

Step wait_bulk(Warp& w, const Inst& i, uint32_t mask) {
  const auto pending = static_cast<uint32_t>(i.imm);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (w.bulk[lane] != nullptr && !w.bulk[lane]->reached(pending, i.mod[0] != 0)) {
      return w.block({WaitKind::kBulkGroup, pending, i.mod[0]});
    }
  }
  return w.pass();
}

}  // namespace

Handler bulk_copy() { return copy_bulk; }
Handler bulk_wait() { return wait_bulk; }
Handler bulk_commit() { return commit_bulk; }

}  // namespace fa4::emulator::exec
