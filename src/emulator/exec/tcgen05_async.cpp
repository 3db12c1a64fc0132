// SPDX-License-Identifier: BSD-3-Clause
// tcgen05.cp, shift, commit, and the order of operations: PTX ISA 9.7.16.6, 9.7.16.9, 9.7.16.12.
#include "emulator/exec/tcgen05_async.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/exec/matrix_descriptor.h"
#include "emulator/exec/tcgen05.h"
#include "emulator/exec/tcgen05_access.h"

namespace fa4::emulator {

bool TensorOp::waits_for(const TensorOp& earlier) const {
  if (kind_ == Kind::kCommit) {
    return earlier.kind_ != Kind::kCommit && earlier.thread_ == thread_;
  }
  switch (earlier.kind_) {
    case Kind::kMma:
      return kind_ == Kind::kMma || kind_ == Kind::kShift;
    case Kind::kCopy:
    case Kind::kCopy4x256b:
      return kind_ == Kind::kMma;
    case Kind::kShift:
      return kind_ == Kind::kMma || kind_ == Kind::kCopy4x256b;
    case Kind::kCommit:
      return false;
  }
  return false;
}

bool TensorOp::ready() const {
  for (const TensorOp* op : pipe_->ops) {
    if (op == this) return true;
    if (waits_for(*op)) return false;
  }
  return true;
}

bool TensorOp::step() {
  perform();
  pipe_->ops.erase(std::find(pipe_->ops.begin(), pipe_->ops.end(), this));
  return true;
}

void TensorOp::enter() {
  pipe_ = &tensor_memory(cta_of_pair(0)).pipe;
  pipe_->ops.push_back(this);
}

void issue(Warp& w, uint32_t group, std::unique_ptr<TensorOp> op) {
  if (group == 2 && peer_of(*w.cta).live_warps == 0) {
    throw Fault("cta_group::2 after the peer CTA has exited");
  }
  op->enter();
  w.worker->start(std::move(op));
}

namespace exec {
namespace {

// ---- cp ----------------------------------------------------------------------------------------

struct CopyShape {
  uint32_t rows;
  uint32_t chunks;     ///< Of 16 bytes: 4 columns.
  uint32_t broadcast;  ///< Lanes that get each row.
};

CopyShape shape_of(TensorCopy copy) {
  switch (copy) {
    case TensorCopy::k128x256b:
      return {128, 2, 1};
    case TensorCopy::k4x256b:
      return {4, 2, 1};
    case TensorCopy::k128x128b:
      return {128, 1, 1};
    case TensorCopy::k64x128bPairs02:
    case TensorCopy::k64x128bPairs01:
      return {64, 1, 2};
    case TensorCopy::k32x128b:
      return {32, 1, 4};
  }
  return {0, 0, 0};
}

/// Lane of a row's i-th image.
uint32_t lane_of(TensorCopy copy, uint32_t row, uint32_t i) {
  switch (copy) {
    case TensorCopy::k4x256b:
      return 32 * row;
    case TensorCopy::k64x128bPairs02:
      return row + 64 * i;
    case TensorCopy::k64x128bPairs01:
      return row % 32 + row / 32 * 64 + 32 * i;
    case TensorCopy::k32x128b:
      return row + 32 * i;
    default:
      return row;
  }
}

class CopyOp final : public TensorOp {
 public:
  CopyOp(Warp& w, uint32_t lane, uint32_t group, TensorCopy copy, uint32_t address,
         const TensorDescriptor& source)
      : TensorOp(w, lane, group, copy == TensorCopy::k4x256b ? Kind::kCopy4x256b : Kind::kCopy),
        copy_(copy),
        address_(address),
        source_(source) {}

 private:
  void perform() override {
    for (size_t i = 0; i < ctas(); ++i) copy_into(cta(i));
  }

  /// Four columns of a lane.
  static void put(TensorMemory& t, uint32_t column, uint32_t lane,
                  const std::array<uint32_t, 4>& words) {
    for (uint32_t k = 0; k < 4; ++k) {
      t.column(column + k)[lane] = words[k];
      t.written[column + k].add(LaneSet::range(lane, 1));
    }
  }

  void copy_into(Cta& cta) const {
    const CopyShape shape = shape_of(copy_);
    TensorMemory& t = tensor_memory(cta);
    const uint32_t column = address_ & 0xffff, base = address_ >> 16;
    t.check(column, 4 * shape.chunks, "tcgen05.cp");
    exec::tell_tensor(cta, {base, kTensorLanes - base, column, 4 * shape.chunks}, Access::kWrite);
    for (uint32_t row = 0; row < shape.rows; ++row) {
      for (uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
        std::array<uint32_t, 4> words;
        std::memcpy(words.data(), source_.chunk(cta, MajorLayout::kK, row, chunk), sizeof words);
        for (uint32_t i = 0; i < shape.broadcast; ++i) {
          put(t, column + 4 * chunk, base + lane_of(copy_, row, i), words);
        }
      }
    }
  }

  TensorCopy copy_;
  uint32_t address_;
  TensorDescriptor source_;
};

// ---- shift -------------------------------------------------------------------------------------

constexpr uint32_t kShiftColumns = 8;  ///< 32 bytes.

class ShiftOp final : public TensorOp {
 public:
  ShiftOp(Warp& w, uint32_t lane, uint32_t group, uint32_t address)
      : TensorOp(w, lane, group, Kind::kShift), address_(address) {}

 private:
  /// Row r of the 32 gets what row r + 1 held; the last one stays.
  void perform() override {
    const uint32_t column = address_ & 0xffff, base = address_ >> 16;
    for (size_t i = 0; i < ctas(); ++i) {
      TensorMemory& t = tensor_memory(cta(i));
      t.check(column, kShiftColumns, "tcgen05.shift");
      exec::tell_tensor(cta(i), {base, 32, column, kShiftColumns}, Access::kWrite);
      for (uint32_t c = column; c < column + kShiftColumns; ++c) {
        uint32_t* cells = t.column(c) + base;
        std::copy(cells + 1, cells + 32, cells);
      }
    }
  }

  uint32_t address_;
};

// ---- commit ------------------------------------------------------------------------------------

class CommitOp final : public TensorOp {
 public:
  CommitOp(Warp& w, uint32_t lane, uint32_t group, std::vector<uint32_t> barriers)
      : TensorOp(w, lane, group, Kind::kCommit), barriers_(std::move(barriers)) {}

 private:
  void perform() override {
    for (const uint32_t b : barriers_) mbarrier_arrive(*cluster, b, 1, 0);
  }

  std::vector<uint32_t> barriers_;
};

/// The shared::cluster address that [a + imm] gives.
uint32_t commit_address(const Warp& w, const Inst& i, uint32_t lane) {
  const bool wide = i.mod[15] == 8;
  uint64_t address = wide ? w.reg<uint64_t>(i.a)[lane] : w.reg<uint32_t>(i.a)[lane];
  address += static_cast<uint64_t>(i.imm);
  if (static_cast<Space>(i.mod[14]) == Space::kGeneric) {
    if ((address & kWindows) != kSharedWindow) {
      throw Fault("mbarrier address " + hex(address) + " is not in shared memory");
    }
    address &= ~kWindows;
  }
  if (!wide) address &= 0xffffffff;
  if (address >> 32 != 0) throw Fault("shared address " + hex(address) + " exceeds 32 bits");
  return static_cast<uint32_t>(address);
}

}  // namespace

Step tensor_copy(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t lane = issuing_lane(mask);
  use_group(*w.cta, i.mod[0]);
  const auto copy = static_cast<TensorCopy>(i.mod[1]);
  const uint32_t address = w.reg<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.imm);
  const uint32_t highest = lane_of(copy, shape_of(copy).rows - 1, shape_of(copy).broadcast - 1);
  if ((address >> 16) + highest >= kTensorLanes) {
    throw Fault("tensor memory address " + hex(address) + " reaches lane " +
                std::to_string((address >> 16) + highest) + "; allowed: up to 127");
  }
  tensor_memory(*w.cta).check(address & 0xffff, 4 * shape_of(copy).chunks, "tcgen05.cp");
  const TensorDescriptor source = TensorDescriptor::parse(w.reg<uint64_t>(i.b)[lane], "the source");
  issue(w, i.mod[0], std::make_unique<CopyOp>(w, lane, i.mod[0], copy, address, source));
  return Step::kNext;
}

Step tensor_shift(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t lane = issuing_lane(mask);
  use_group(*w.cta, i.mod[0]);
  const uint32_t address = w.reg<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.imm);
  if ((address >> 16) % 32 != 0 || address >> 16 >= kTensorLanes) {
    throw Fault("tensor memory address " + hex(address) + " names lane " +
                std::to_string(address >> 16) + "; allowed: 0, 32, 64 or 96");
  }
  tensor_memory(*w.cta).check(address & 0xffff, kShiftColumns, "tcgen05.shift");
  issue(w, i.mod[0], std::make_unique<ShiftOp>(w, lane, i.mod[0], address));
  return Step::kNext;
}

Step tensor_commit(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t lane = issuing_lane(mask);
  use_group(*w.cta, i.mod[0]);
  const uint32_t address = commit_address(w, i, lane);
  std::vector<uint32_t> barriers;
  if (i.b == kNone) {
    barriers.push_back(address);
  } else {
    const uint32_t ctas = w.reg<uint32_t>(i.b)[lane] & 0xffff;
    for (uint32_t rank = 0; rank < 16; ++rank) {
      if ((ctas >> rank & 1) == 0) continue;
      barriers.push_back(rank << kRankShift | (address & kOffsetMask));
    }
    if (barriers.empty()) throw Fault("a multicast to no CTA");
  }
  for (const uint32_t b : barriers) cta_of(*w.cta->cluster, b);
  issue(w, i.mod[0], std::make_unique<CommitOp>(w, lane, i.mod[0], std::move(barriers)));
  return Step::kNext;
}

Handler tensor_handler(TensorInst inst) {
  switch (inst) {
    case TensorInst::kAlloc:
      return tensor_alloc;
    case TensorInst::kDealloc:
      return tensor_dealloc;
    case TensorInst::kRelinquish:
      return tensor_relinquish;
    case TensorInst::kLoad:
      return tensor_load;
    case TensorInst::kLoadReduce:
      return tensor_load_reduce;
    case TensorInst::kStore:
      return tensor_store;
    case TensorInst::kWaitLoad:
      return tensor_wait_load;
    case TensorInst::kWaitStore:
      return tensor_wait_store;
    case TensorInst::kMma:
      return tensor_mma;
    case TensorInst::kCopy:
      return tensor_copy;
    case TensorInst::kShift:
      return tensor_shift;
    case TensorInst::kCommit:
      return tensor_commit;
  }
  return nullptr;
}

}  // namespace exec
}  // namespace fa4::emulator
