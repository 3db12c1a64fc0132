// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/judge.h"
#include "emulator/tensor_memory.h"
#include "emulator/worker.h"

namespace fa4::emulator::judge {
namespace {

std::string triple(const std::array<uint32_t, 3>& x) {
  return std::string("(") + std::to_string(x[0]) + ", " + std::to_string(x[1]) + ", " +
         std::to_string(x[2]) + ")";
}

}  // namespace

/// Whether something against the rule ends the run.
bool Judge::is_error(Rule rule) const {
  return text_of(rule).level == Level::kError && !grid_.options.forgives(rule);
}

bool Judge::wants(Rule rule) const { return warnings_ || is_error(rule); }

void Judge::report(Rule rule, uint32_t pc, uint32_t other_pc, const std::string& text) {
  if (!wants(rule)) return;
  const std::string full = std::string(text_of(rule).name) + ": " + text;
  if (is_error(rule)) throw Fault(full);
  Report r;
  r.rule = rule;
  r.pc = pc;
  r.other_pc = other_pc;
  r.text = full;
  add_report(reports_, r);
}

std::string Judge::place(uint32_t pc, const std::string& who) const {
  const Site& site = kernel_.sites[std::min<size_t>(pc, kernel_.sites.size() - 1)];
  std::string text = who + ", PTX line " + std::to_string(site.line);
  if (site.source_line != 0) {
    const bool named = site.source_file < kernel_.files.size();
    text += std::string(" (") + (named ? kernel_.files[site.source_file] : "file") + ":" +
            std::to_string(site.source_line) + functions_of(kernel_, site) + ")";
  }
  return text + " (" + std::string(site.opcode) + ")";
}

/// Of a component of the grid and a lane.
std::string Judge::name_of(const Event& e) const {
  Layout layout;
  layout.ctas = grid_.cluster_ctas();
  layout.cta_warps = grid_.block_warps();
  const uint32_t cluster = (e.who - 1) / layout.size(), component = (e.who - 1) % layout.size();
  if (!layout.is_warp(component)) return "an operation in flight";
  std::array<uint32_t, 3> id{};
  uint32_t rest = cluster, rank = component / layout.cta_warps;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t clusters = grid_.blocks[i] / grid_.cluster[i];
    id[i] = rest % clusters * grid_.cluster[i] + rank % grid_.cluster[i];
    rest /= clusters;
    rank /= grid_.cluster[i];
  }
  std::string text = "warp " + std::to_string(component % layout.cta_warps);
  if (e.lane != kWholeWarp) text += ", lane " + std::to_string(e.lane);
  return text + " of CTA " + triple(id);
}

std::string Judge::party(const Event& e) const {
  const ClusterWatch* cluster = flight() != nullptr ? flight()->cluster : cluster_;
  const uint32_t component = e.who - cluster->layout.base;
  if (const Issuer* issuer = cluster->issuer(component, e.epoch)) {
    Event by;
    by.who = cluster->layout.base + issuer->warp;
    by.lane = static_cast<uint8_t>(issuer->lane);
    return place(e.pc, "what " + name_of(by) + " started");
  }
  return place(e.pc, name_of(e));
}

/// Who does what is being judged.
std::string Judge::me() const {
  Event e;
  if (const FlightRecord* op = flight()) {
    e.who = op->actor.who();
    e.epoch = op->actor.epoch;
    e.pc = op->actor.pc;
    e.lane = kWholeWarp;
    return party(e);
  }
  e.who = cluster_->layout.base + threads_->component;
  e.pc = pc_;
  e.lane = static_cast<uint8_t>(collective_ ? kWholeWarp : lane);
  return party(e);
}

std::string Judge::address_of(uint64_t cell) const {
  switch (where_) {
    case Where::kShared:
      return "shared address " + hex(where_cta_->cta->shared_base() | cell * 4);
    case Where::kGlobal:
      return "global address " + hex(cell * 4);
    default:
      return "tensor memory column " + std::to_string(cell / (kTensorLanes / 16)) +
             ", lanes from " + std::to_string(cell % (kTensorLanes / 16) * 16);
  }
}

/// Whether the earlier event initialised an mbarrier of another CTA than the actor's.
bool Judge::is_init_of_another(const Event& earlier, uint64_t cell) const {
  const auto it = where_cta_->mbarriers.find(static_cast<uint32_t>(cell * 4) & ~7u);
  if (it == where_cta_->mbarriers.end()) return false;
  const Event& init = it->second.init;
  if (init.who != earlier.who || init.epoch != earlier.epoch || init.pc != earlier.pc) return false;
  const FlightRecord* op = flight();
  return (op != nullptr ? op->cta : warp_->cta->rank) != where_cta_->cta->rank;
}

/// `started`: the other party is an operation of which is known that it was started.
Rule Judge::rule_of(Clash clash, const Event& earlier, const Actor& actor, uint64_t cell,
                    bool started) const {
  if (where_ == Where::kDealloc) return Rule::kTensorDealloc;
  const uint32_t component = earlier.who - actor.base;
  if (where_ == Where::kTensor) {
    const Layout& layout = flight()->cluster->layout;
    const bool of_warp = component >= layout.warps() && component < layout.of_cta(0, 0);
    if (!started || !of_warp) return Rule::kTensorRace;
    return clash == Clash::kWriteAfterRead ? Rule::kTensorLoadWait : Rule::kTensorStoreWait;
  }
  if (where_ == Where::kGlobal) return Rule::kGlobalRace;
  if (is_init_of_another(earlier, cell)) return Rule::kMbarrierInitFence;
  return component == actor.component ? Rule::kWarpRace : Rule::kSharedRace;
}

void Judge::clash(Clash clash, const Event& earlier, const Actor& actor, uint64_t cell) {
  const ClusterWatch& cluster = flight() != nullptr ? *flight()->cluster : *cluster_;
  const Issuer* issuer = cluster.issuer(earlier.who - actor.base, earlier.epoch);
  const bool started =
      issuer != nullptr && ((issuer->warp == actor.component && !actor.async) ||
                            actor.clock->sees(issuer->warp, issuer->warp_epoch, issuer->lane));
  const Rule rule = rule_of(clash, earlier, actor, cell, started);
  if (!wants(rule)) return;
  const char* mine = clash == Clash::kReadAfterWrite ? " reads " : " writes ";
  if (where_ == Where::kDealloc) mine = " frees ";
  const char* theirs = clash == Clash::kWriteAfterRead ? "read" : "write";
  report(rule, actor.pc, earlier.pc,
         me() + mine + address_of(cell) + "; nothing orders it after the " + theirs + " by " +
             party(earlier) + (started ? ", which was started before but not waited for" : ""));
}

void Judge::in_order(Clash how, const Event& earlier, const Actor& actor, uint64_t cell) {
  if (where_ == Where::kTensor) return check_tensor_fence(earlier);
  if (earlier.async || earlier.atomic || how == Clash::kWriteAfterRead) return;
  const bool reads = how == Clash::kReadAfterWrite;
  const uint32_t component = earlier.who - actor.base;
  if (component >= actor.size || actor.clock->fenced(component, earlier.epoch, earlier.lane)) {
    return;
  }
  report(reads ? Rule::kProxyFence : Rule::kProxyOrder, actor.pc, earlier.pc,
         me() + (reads ? " reads " : " writes ") + address_of(cell) +
             " by the asynchronous proxy, with no fence.proxy.async after the access by " +
             party(earlier));
}

}  // namespace fa4::emulator::judge
