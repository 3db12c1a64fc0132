// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {

/// Lanes are about to exit.
void Judge::leave(Warp& warp, uint32_t lanes) {
  WarpWatch& w = *threads_;
  for (const auto& [own_lane, bulk] : w.bulk) {
    if ((lanes >> own_lane & 1) == 0 || bulk.read >= bulk.last) continue;
    const Issuer* issuer =
        cluster_->issuer(cluster_->layout.of_warp(w.component, Layout::kBulkRead), bulk.last);
    const uint32_t store = issuer != nullptr ? issuer->pc : pc_;
    report(Rule::kExitBulkStore, pc_, store,
           me() + ": lane " + std::to_string(own_lane) + " exits and has not waited for " +
               place(store, "its store"));
  }
  if ((warp.alive & ~lanes) == 0) {
    if (w.wgmma.issued > w.wgmma.waited) {
      report(Rule::kExitProduct, pc_, 0, me() + " exits and has not waited for its last wgmma");
    }
    if (w.copies.issued > w.copies.waited && !w.copies_arrive) {
      report(Rule::kExitCopy, pc_, 0, me() + " exits and has not waited for its last cp.async");
    }
    if (w.stores > w.stores_waited) {
      report(Rule::kExitProduct, pc_, 0,
             me() + " exits and has not waited for its last tcgen05.st");
    }
  }
  w.threads.leave(lanes);
}

void Judge::warp_ends(Warp& warp) {
  if (warp.cta->live_warps != 0) return;
  cluster_ = &watch_of(*warp.cta->cluster);
  cta_ends(watch_of(*warp.cta));
}

void Judge::cta_ends(CtaWatch& cta) {
  cta.ended = true;
  const ClusterWatch& cluster = *cluster_;
  const Layout& layout = cluster.layout;
  const auto rank = cta.cta->rank;
  Clock own(layout), all(layout);
  for (const auto& w : cluster.warps) {
    const bool mine = w->component / layout.cta_warps == rank;
    for (const LaneGroup& g : w->threads.groups()) {
      if (mine) own.join(g.clock);
      all.join(g.clock);
    }
  }
  const std::string who = "CTA " + std::to_string(rank) + " of cluster " +
                          std::to_string(cluster.cluster->index) + " exits";
  for (const auto& [component, a] : cta.arrivals) {
    if (all.sees(component, a.epoch, kWholeWarp)) continue;
    report(Rule::kExitCopy, a.pc, 0, who + " and nobody has waited for " + place(a.pc, "its copy"));
  }
  for (const auto& [component, e] : cta.remote) {
    const uint32_t index = e.who - layout.base;
    if (layout.is_warp(index) && own.sees(index, e.epoch, e.lane)) continue;
    if (!layout.is_warp(index) && all.sees(index, e.epoch, e.lane)) continue;
    report(Rule::kExitPeer, e.pc, 0,
           who + " and does not know whether " + party(e) + " is over, on its shared memory");
  }
  const uint32_t product = layout.product(rank);
  const uint32_t last = cluster.epochs[product - layout.warps()];
  if (!all.sees(product, last, kWholeWarp)) {
    const Issuer* issuer = cluster.issuer(product, last);
    report(Rule::kExitProduct, issuer != nullptr ? issuer->pc : 0, 0,
           who + " and nobody has waited for its last tcgen05.mma");
  }
  for (const Mbarrier& b : cta.cta->mbarriers.barriers) {
    if (b.bytes == 0) continue;
    report(Rule::kMbarrierBytesAtExit, 0, 0,
           who + " while its mbarrier at " + hex(cta.cta->shared_base() | b.offset) + " awaits " +
               std::to_string(b.bytes) + " bytes");
  }
}

}  // namespace fa4::emulator::judge
