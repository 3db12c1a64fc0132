// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/exec/cluster_launch.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

constexpr uint32_t kCanceled = 1;
constexpr uint32_t kFailed = 0;
/// The first CTA's place after a failure, which the text leaves undefined.
constexpr uint32_t kPoisonWord = 0xffffffff;
/// With random timing a request fails once in so many times although clusters are left: they are
/// then launched as ever.
constexpr uint64_t kSpuriousFailures = 16;

/// What lies in the 16 bytes of a response: x, y, z, kCanceled or kFailed.
using Response = std::array<uint32_t, 4>;

class CancelOp final : public AsyncOp {
 public:
  struct Target {
    uint32_t response, barrier;  ///< shared::cluster addresses.
  };
  CancelOp(Warp& w, std::vector<Target> targets)
      : AsyncOp(*w.cta->cluster, w.pc), worker_(w.worker), targets_(std::move(targets)) {}

  bool step() override {
    const Response response = request();
    for (const Target& t : targets_) {
      std::memcpy(resolve_shared(*cluster, t.response, sizeof response, sizeof response,
                                 Access::kWrite, Proxy::kAsync),
                  response.data(), sizeof response);
      mbarrier_complete(*cluster, t.barrier, sizeof response);
    }
    return true;
  }

 private:
  Response request() {
    Grid& grid = worker_->grid();
    const bool refused =
        grid.options.timing == Timing::kRandom && worker_->random()() % kSpuriousFailures == 0;
    if (refused) return {kPoisonWord, kPoisonWord, kPoisonWord, kFailed};
    uint64_t rest = grid.next_cluster.fetch_add(1);
    if (rest >= grid.clusters) return {kPoisonWord, kPoisonWord, kPoisonWord, kFailed};
    Response r{0, 0, 0, kCanceled};
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t clusters = grid.blocks[i] / grid.cluster[i];
      r[i] = static_cast<uint32_t>(rest % clusters) * grid.cluster[i];
      rest /= clusters;
    }
    return r;
  }

  Worker* worker_;
  std::vector<Target> targets_;
};

uint32_t shared_address(const Warp& w, uint32_t slot, bool wide, uint32_t offset, Space space,
                        uint32_t lane) {
  uint64_t address = wide ? w.reg<uint64_t>(slot)[lane] : w.reg<uint32_t>(slot)[lane];
  address += static_cast<uint64_t>(static_cast<int32_t>(offset));
  if (space == Space::kGeneric) {
    if ((address & kWindows) != kSharedWindow) {
      throw Fault("generic address " + hex(address) + " is not in shared memory");
    }
    address &= ~kWindows;
  }
  if (!wide) address &= 0xffffffff;
  if (address >> kRankShift != w.cta->rank) {
    throw Fault("shared::cta address " + hex(address) + " is not one of this CTA");
  }
  return static_cast<uint32_t>(address);
}

Response response_of(const Warp& w, uint32_t slot, uint32_t lane) {
  const uint64_t* words = w.reg<uint64_t>(slot);
  return std::bit_cast<Response>(
      std::array<uint64_t, 2>{words[lane], words[static_cast<size_t>(kLanes) + lane]});
}

Step try_cancel(Warp& w, const Inst& i, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  const auto space = static_cast<Space>(i.mod[14]);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t response =
        shared_address(w, i.a, i.mod[13] == 8, static_cast<uint32_t>(i.imm), space, lane);
    const uint32_t barrier =
        shared_address(w, i.b, i.mod[12] == 8, static_cast<uint32_t>(i.imm >> 32), space, lane);
    std::vector<CancelOp::Target> targets;
    if (i.mod[0] == 0) {
      targets.push_back({response, barrier});
    } else {
      for (const auto& cta : cluster.ctas) {
        if (cta->live_warps == 0) throw Fault("a multicast response to a CTA that has exited");
        targets.push_back({cta->shared_base() | (response & kOffsetMask),
                           cta->shared_base() | (barrier & kOffsetMask)});
      }
    }
    w.worker->start(std::make_unique<CancelOp>(w, std::move(targets)));
  }
  return Step::kNext;
}

template <class F>
void for_each_lane(uint32_t mask, F f) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    f(static_cast<uint32_t>(std::countr_zero(rest)));
  }
}

Step is_canceled(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t canceled = 0;
  for_each_lane(mask, [&](uint32_t l) {
    if (response_of(w, i.a, l)[3] == kCanceled) canceled |= 1u << l;
  });
  w.set_lanes(i.d, canceled, mask);
  return Step::kNext;
}

Step first_cta(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.program().lists[i.list];
  for_each_lane(mask, [&](uint32_t l) {
    const Response r = response_of(w, i.a, l);
    for (uint32_t k = 0; k < i.list_size; ++k) {
      w.reg<uint32_t>(list[k])[l] = k < 3 ? r[k] : kPoisonWord;
    }
  });
  return Step::kNext;
}

Step first_cta_axis(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(mask,
                [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = response_of(w, i.a, l)[i.mod[0]]; });
  return Step::kNext;
}

}  // namespace

namespace exec {

Handler launch_handler(LaunchInst inst) {
  switch (inst) {
    case LaunchInst::kTryCancel:
      return try_cancel;
    case LaunchInst::kIsCanceled:
      return is_canceled;
    case LaunchInst::kFirstCta:
      return first_cta;
    case LaunchInst::kFirstCtaAxis:
      return first_cta_axis;
  }
  return nullptr;
}

}  // namespace exec
}  // namespace fa4::emulator
