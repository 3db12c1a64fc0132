// SPDX-License-Identifier: BSD-3-Clause
// Operations of the tensor core in flight, and the order in which they complete.
//
// PTX ISA 9.7.16.6.2 orders few pairs: mma after mma on the same accumulator, cp or shift before a
// later mma, shift before cp.4x256b, mma before shift. All else may be reordered, and here it is,
// with one exception: products of one pipe always complete in order, as hardware does and as known
// kernels rely on (the scores of the next tile may overwrite probabilities that the product before
// reads).
#pragma once

#include "emulator/async.h"
#include "emulator/machine.h"
#include "emulator/tensor_memory.h"

namespace fa4::emulator {

/// A thread of a cluster: CTA rank, warp and lane in one number.
inline uint64_t thread_of(const Warp& w, uint32_t lane) {
  return uint64_t{w.cta->rank} << 32 | (w.index * kLanes + lane);
}

class TensorOp : public AsyncOp {
 public:
  enum class Kind : uint8_t { kMma, kCopy, kCopy4x256b, kShift, kCommit };

  TensorOp(Warp& w, uint32_t lane, uint32_t group, Kind kind)
      : AsyncOp(*w.cta->cluster, w.pc),
        group_(group),
        kind_(kind),
        thread_(thread_of(w, lane)),
        cta_(w.cta),
        pipe_(nullptr) {}

  bool ready() const final;
  bool step() final;
  /// Enters the pipe: the CTA's own, or the pair's.
  void enter();

 protected:
  /// Does the work.
  virtual void perform() = 0;
  /// The CTAs whose tensor memory it touches, the issuer's first.
  size_t ctas() const { return group_; }
  Cta& cta(size_t i) const { return i == 0 ? *cta_ : peer_of(*cta_); }
  /// The CTA of the pair with that lowest bit of its rank; of a single CTA itself.
  Cta& cta_of_pair(uint32_t i) const {
    return group_ == 1 || (cta_->rank & 1) == i ? *cta_ : peer_of(*cta_);
  }

  uint32_t group_;

 private:
  bool waits_for(const TensorOp& earlier) const;

  Kind kind_;
  uint64_t thread_;
  Cta* cta_;
  TensorPipe* pipe_;
};

/// Checks that the peer is there, enters the operation into its pipe and starts it.
void issue(Warp& w, uint32_t group, std::unique_ptr<TensorOp> op);

}  // namespace fa4::emulator
