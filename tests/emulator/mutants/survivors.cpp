// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mutants/survivors.h"

namespace fa4::emulator::mutants {
namespace {

constexpr const char* kFewTiles = "needs twice as many tiles of keys as there are stages, or more";

constexpr Survivor kSurvivors[] = {
    {"list_not_awaited", "kernels of a stream run one after another here"},
    {"chain_freed_without_fence",
     "the loads are waited for and a bar.sync follows: for tcgen05.dealloc the judge asks for no "
     "more"},
    {"pair_mail_overtaken",
     "all tiles here have keys, whose stages hold the CTAs together; gpu/variant_test.cpp has "
     "tiles "
     "without"},
    {"lanes_skip_apart", kFewTiles},
    {"forward_causal/no_barrier/1", kFewTiles},
};

constexpr const char* kGeneric =
    "copies and tcgen05.commit come to their mbarrier by the generic proxy (PTX ISA 9.7.9.25, "
    "9.7.9.27, 9.7.16.12), and in a kernel without clusters bar.sync orders them after its "
    "initialisation";

constexpr Survivor kEquivalents[] = {
    {"no_fence_of_init", kGeneric},
    {"forward_lengths/no_fence/0", kGeneric},
    {"forward_overlap/no_fence/0", kGeneric},
    {"chain_no_fence_of_init", kGeneric},
    {"chain/no_fence/0", kGeneric},
    {"forward_ordered/no_wait/10",
     "K of a skipped tile is not read; V, which is waited for, tells that K's stage was taken"},
    {"forward_ordered/init_count/18", "a barrier that only kernels use that clean V"},
    {"forward_pair/no_fence/0",
     "the cluster's barrier, which releases and acquires, orders the initialisation too"},
    {"forward_lengths/commit_early/1",
     "the commit after the next product takes this one along, and both are waited for"},
    {"forward_lengths/no_wgmma_fence/2",
     "the registers of S were last used before the fence of O's product, which comes before"},
};

}  // namespace

std::span<const Survivor> survivors() { return kSurvivors; }
std::span<const Survivor> equivalents() { return kEquivalents; }

}  // namespace fa4::emulator::mutants
