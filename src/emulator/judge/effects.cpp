// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/effects.h"

namespace fa4::emulator::judge {
namespace {

bool has(std::string_view opcode, std::string_view word) {
  for (size_t at = opcode.find(word); at != std::string_view::npos;
       at = opcode.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (end == opcode.size() || opcode[end] == '.') return true;
  }
  return false;
}

struct Row {
  std::string_view begin;
  Effect effect;
};

/// The first that fits.
constexpr Row kRows[] = {
    {"mov", Effect::kMove},
    {"selp", Effect::kSelect},
    {"ld.", Effect::kLoad},
    {"ldu.", Effect::kLoad},
    {"st.async", Effect::kAsyncStore},
    {"red.async", Effect::kAsyncStore},
    {"st.", Effect::kStore},
    {"atom", Effect::kAtomic},
    {"red.", Effect::kAtomic},
    {"bar.warp.sync", Effect::kWarpSync},
    {"barrier.cluster.arrive", Effect::kClusterArrive},
    {"barrier.cluster.wait", Effect::kClusterWait},
    {"bar.arrive", Effect::kBarrierArrive},
    {"bar.cta.arrive", Effect::kBarrierArrive},
    {"barrier.arrive", Effect::kBarrierArrive},
    {"barrier.cta.arrive", Effect::kBarrierArrive},
    {"bar.", Effect::kBarrierSync},
    {"barrier.", Effect::kBarrierSync},
    {"mbarrier.", Effect::kMbarrier},
    {"fence.proxy.async", Effect::kFenceProxy},
    {"fence.mbarrier_init", Effect::kFenceMbarrierInit},
    {"fence.proxy", Effect::kPlain},
    {"fence", Effect::kFence},
    {"membar", Effect::kFence},
    {"cp.async.bulk.commit_group", Effect::kBulkCommit},
    {"cp.async.bulk.prefetch", Effect::kPlain},
    {"cp.async.mbarrier.arrive", Effect::kCopyArrive},
    {"cp.async.commit_group", Effect::kCopyCommit},
    {"cp.async.wait_group", Effect::kCopyWait},
    {"cp.async.wait_all", Effect::kCopyWaitAll},
    {"wgmma.fence", Effect::kWgmmaFence},
    {"wgmma.commit_group", Effect::kWgmmaCommit},
    {"wgmma.wait_group", Effect::kWgmmaWait},
    {"wgmma.mma_async", Effect::kWgmma},
    {"tcgen05.alloc", Effect::kTensorAlloc},
    {"tcgen05.dealloc", Effect::kTensorDealloc},
    {"tcgen05.ld", Effect::kTensorLoad},
    {"tcgen05.st", Effect::kTensorStore},
    {"tcgen05.wait::ld", Effect::kTensorWaitLoad},
    {"tcgen05.wait::st", Effect::kTensorWaitStore},
    {"tcgen05.mma", Effect::kTensorMma},
    {"tcgen05.cp", Effect::kTensorCopy},
    {"tcgen05.shift", Effect::kTensorCopy},
    {"tcgen05.commit", Effect::kTensorCommit},
    {"tcgen05.fence::before_thread_sync", Effect::kTensorFenceBefore},
    {"tcgen05.fence::after_thread_sync", Effect::kTensorFenceAfter},
    {"clusterlaunchcontrol.try_cancel", Effect::kTryCancel},
    {"ret", Effect::kExit},
    {"exit", Effect::kExit},
};

Effect bulk_effect(std::string_view opcode) {
  if (has(opcode, "wait_group.read")) return Effect::kBulkWaitRead;
  if (has(opcode, "wait_group")) return Effect::kBulkWait;
  return has(opcode, "bulk_group") ? Effect::kBulkStore : Effect::kBulkLoad;
}

}  // namespace

EffectInfo effect_of(std::string_view opcode) {
  EffectInfo info;
  for (const Row& row : kRows) {
    if (opcode.substr(0, row.begin.size()) != row.begin) continue;
    info.effect = row.effect;
    break;
  }
  const bool bulk = opcode.find("cp.async.bulk") == 0 || opcode.find("cp.reduce.async.bulk") == 0;
  if (bulk && info.effect == Effect::kPlain && !has(opcode, "prefetch")) {
    info.effect = bulk_effect(opcode);
  } else if (info.effect == Effect::kPlain && opcode.find("cp.async.") == 0 && !bulk) {
    info.effect = Effect::kCopy;
  }
  const bool relaxed = has(opcode, ".relaxed");
  const bool wide = has(opcode, ".cluster") || has(opcode, ".gpu") || has(opcode, ".sys");
  info.cta_scope = !wide;
  info.acquires = has(opcode, ".acquire") || has(opcode, ".acq_rel");
  info.releases = has(opcode, ".release") || has(opcode, ".acq_rel");
  info.strong = relaxed || info.acquires || info.releases || has(opcode, ".volatile") ||
                has(opcode, ".mmio") || info.effect == Effect::kAtomic;
  switch (info.effect) {
    case Effect::kClusterArrive:
      info.releases = !relaxed;
      break;
    case Effect::kClusterWait:
      info.acquires = true;
      break;
    case Effect::kMbarrier:
      info.acquires = info.releases = !relaxed;
      break;
    default:
      break;
  }
  return info;
}

std::vector<EffectInfo> effects_of(const Kernel& kernel) {
  std::vector<EffectInfo> all;
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    all.push_back(effect_of(kernel.sites[pc].opcode));
    // The `ret` of a function that is written out is a branch.
    if (all.back().effect == Effect::kExit && (kernel.code[pc].flags & kEnds) == 0) {
      all.back().effect = Effect::kPlain;
    }
    all.back().checks_late =
        !kernel.after_loads.empty() && kernel.after_loads[pc] != kernel.code[pc].run;
  }
  return all;
}

}  // namespace fa4::emulator::judge
