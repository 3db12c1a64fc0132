// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/residency.h"

#include <algorithm>
#include <cstring>

#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

constexpr size_t kAlign = 64;
/// What nobody wrote: a NaN as float32 and as 16-bit floats, and no address.
constexpr int kPoisonByte = 0xff;

size_t storage_bytes(const Kernel& kernel) {
  return kernel.register_bytes + kernel.predicates * sizeof(uint32_t) + kAlign;
}

uint32_t axis(const std::array<uint32_t, 3>& x, uint8_t i) { return x[i]; }

/// What a preset holds in all lanes; kTid and kLaneId are not among them.
uint64_t uniform_value(const Warp& warp, const Preset& p) {
  const Cta& cta = *warp.cta;
  const Grid& grid = warp.worker->grid();
  switch (p.kind) {
    case PresetKind::kConstant:
      return p.value;
    case PresetKind::kShared:
      return p.value + cta.shared_base();
    case PresetKind::kDynamicStart:
      return p.value + cta.shared_base() + warp.program().dynamic_start();
    case PresetKind::kWarpId:
      return warp.index;
    case PresetKind::kNWarpId:
      return grid.block_warps();
    case PresetKind::kNTid:
      return axis(grid.threads, p.axis);
    case PresetKind::kCtaId:
      return axis(cta.id, p.axis);
    case PresetKind::kNCtaId:
      return axis(grid.blocks, p.axis);
    case PresetKind::kClusterId:
      return axis(cta.cluster->id, p.axis);
    case PresetKind::kNClusterId:
      return axis(grid.blocks, p.axis) / axis(grid.cluster, p.axis);
    case PresetKind::kClusterCtaId:
      return axis(cta.id, p.axis) % axis(grid.cluster, p.axis);
    case PresetKind::kClusterNCtaId:
      return axis(grid.cluster, p.axis);
    case PresetKind::kClusterCtaRank:
      return cta.rank;
    case PresetKind::kClusterNCtaRank:
      return grid.cluster_ctas();
    case PresetKind::kSmId:
      return cta.cluster->index % grid.options.multiprocessors;
    case PresetKind::kNSmId:
      return grid.options.multiprocessors;
    case PresetKind::kDynamicShared:
      return grid.dynamic_shared;
    case PresetKind::kTotalShared:
      return grid.shared_bytes();
    case PresetKind::kIsExplicitCluster:
      return grid.cluster_ctas() > 1 ? 1 : 0;
    default:
      return 0;
  }
}

uint32_t lane_value(const Warp& warp, const Preset& p, uint32_t lane) {
  const Grid& grid = warp.worker->grid();
  const uint32_t thread = warp.index * kLanes + lane;
  switch (p.kind) {
    case PresetKind::kLaneId:
      return lane;
    case PresetKind::kLaneMaskEq:
      return 1u << lane;
    case PresetKind::kLaneMaskLt:
      return (1u << lane) - 1;
    case PresetKind::kLaneMaskLe:
      return (2u << lane) - 1;
    case PresetKind::kLaneMaskGt:
      return ~((2u << lane) - 1);
    case PresetKind::kLaneMaskGe:
      return ~((1u << lane) - 1);
    default:
      break;
  }
  if (p.axis == 0) return thread % grid.threads[0];
  if (p.axis == 1) return thread / grid.threads[0] % grid.threads[1];
  return thread / (grid.threads[0] * grid.threads[1]);
}

bool differs_by_lane(PresetKind kind) {
  switch (kind) {
    case PresetKind::kTid:
    case PresetKind::kLaneId:
    case PresetKind::kLaneMaskEq:
    case PresetKind::kLaneMaskLt:
    case PresetKind::kLaneMaskLe:
    case PresetKind::kLaneMaskGt:
    case PresetKind::kLaneMaskGe:
      return true;
    default:
      return false;
  }
}

void fill_presets(const Warp& warp) {
  for (const Preset& p : warp.program().presets) {
    if (differs_by_lane(p.kind)) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        warp.reg<uint32_t>(p.slot)[lane] = lane_value(warp, p, lane);
      }
      continue;
    }
    const uint64_t value = uniform_value(warp, p);
    if (p.bytes == 4) {
      std::fill_n(warp.reg<uint32_t>(p.slot), kLanes, static_cast<uint32_t>(value));
    } else {
      std::fill_n(warp.reg<uint64_t>(p.slot), kLanes, value);
    }
  }
  for (const uint32_t p : warp.program().true_predicates) warp.predicates[p] = kAllLanes;
  for (const uint32_t p : warp.program().false_predicates) warp.predicates[p] = 0;
}

}  // namespace

std::unique_ptr<Warp> Pool::make_warp(Worker& worker, Cta& cta, uint32_t index) {
  const Grid& grid = worker.grid();
  const Kernel& kernel = *grid.kernel;
  auto warp = std::make_unique<Warp>();
  warp->worker = &worker;
  warp->cta = &cta;
  warp->kernel = &kernel;
  warp->code = kernel.code.data();
  warp->index = index;
  warp->registers_owned = kernel.registers;
  const uint32_t threads = grid.block_threads() - index * kLanes;
  warp->born = threads >= kLanes ? kAllLanes : (1u << threads) - 1;
  warp->alive = warp->mask = warp->born;
  if (storage_.empty()) {
    const size_t bytes = storage_bytes(kernel);
    warp->storage = std::make_unique<std::byte[]>(bytes);
    std::memset(warp->storage.get(), kPoisonByte, bytes);
  } else {
    warp->storage = std::move(storage_.back());
    storage_.pop_back();
  }
  void* at = warp->storage.get();
  size_t space = storage_bytes(kernel);
  warp->registers = static_cast<std::byte*>(std::align(kAlign, 1, at, space));
  warp->predicates = reinterpret_cast<uint32_t*>(warp->registers + kernel.register_bytes);
  warp->local.resize(size_t{kernel.local_bytes} * kLanes, static_cast<std::byte>(kPoisonByte));
  fill_presets(*warp);
  return warp;
}

std::unique_ptr<Cta> Pool::make_cta(Worker& worker, Cluster& cluster, uint32_t rank) {
  const Grid& grid = worker.grid();
  auto cta = std::make_unique<Cta>();
  cta->cluster = &cluster;
  cta->rank = rank;
  const std::array<uint32_t, 3> in_cluster = {rank % grid.cluster[0],
                                              rank / grid.cluster[0] % grid.cluster[1],
                                              rank / (grid.cluster[0] * grid.cluster[1])};
  for (size_t i = 0; i < 3; ++i) cta->id[i] = cluster.id[i] * grid.cluster[i] + in_cluster[i];
  cta->shared.resize(grid.shared_bytes(), static_cast<std::byte>(kPoisonByte));
  cta->live_warps = grid.block_warps();
  for (uint32_t i = 0; i < cta->live_warps; ++i) {
    cta->warps.push_back(make_warp(worker, *cta, i));
  }
  for (uint32_t i = 0; i < (cta->live_warps + 3) / 4; ++i) {
    cta->wgmma.push_back(std::make_unique<WgmmaQueue>());
  }
  return cta;
}

std::unique_ptr<Cluster> Pool::make_cluster(Worker& worker, uint64_t index) {
  const Grid& grid = worker.grid();
  auto cluster = std::make_unique<Cluster>();
  cluster->worker = &worker;
  cluster->index = index;
  uint64_t rest = index;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t clusters = grid.blocks[i] / grid.cluster[i];
    cluster->id[i] = static_cast<uint32_t>(rest % clusters);
    rest /= clusters;
  }
  for (uint32_t rank = 0; rank < grid.cluster_ctas(); ++rank) {
    cluster->ctas.push_back(make_cta(worker, *cluster, rank));
    cluster->live_warps += cluster->ctas.back()->live_warps;
  }
  return cluster;
}

void Pool::take_back(Cluster& cluster) {
  for (const auto& cta : cluster.ctas) {
    for (const auto& warp : cta->warps) storage_.push_back(std::move(warp->storage));
  }
}

}  // namespace fa4::emulator
