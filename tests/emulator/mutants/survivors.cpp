// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/mutants/survivors.h"

namespace fa4::emulator::mutants {
namespace {

constexpr const char* kProxy =
    "the order between the generic and the asynchronous proxy is not looked at";
constexpr const char* kTensorFence = "tcgen05.fence does nothing: order is that of the schedule";
constexpr const char* kWgmmaFence = "wgmma.fence does nothing: products read registers when issued";
constexpr const char* kLanes =
    "lanes of a warp run together, so that the others never lag behind the one that arrives";
constexpr const char* kExit = "shared memory stays until copies that read it are complete";
constexpr const char* kStream = "kernels of a stream run one after another";

constexpr Survivor kSurvivors[] = {
    {"exit_with_store_pending", kExit},
    {"forward_ordered/no_group_wait/4", kExit},
    {"forward_ordered/no_commit/3", kExit},
    {"list_not_awaited", kStream},
    {"queue_released_by_leader_alone", kLanes},
    {"cleaned_by_leader_alone", kLanes},
    {"forward_ordered/no_barrier/6", kLanes},
    {"no_fence_of_init", kProxy},
    {"no_fence_of_o", kProxy},
    {"no_fence_of_rows", kProxy},
    {"no_fence_of_clean_v", kProxy},
    {"gemm_no_proxy_fence", kProxy},
    {"chain_no_proxy_fence", kProxy},
    {"chain_no_fence_of_init", kProxy},
    {"forward_causal/no_fence/0", kProxy},
    {"forward_ordered/no_fence/0", kProxy},
    {"forward_lengths/no_fence/1", kProxy},
    {"chain/no_fence/0", kProxy},
    {"no_fence_of_scores", kWgmmaFence},
    {"no_fence_of_output", kWgmmaFence},
    {"forward_causal/no_wgmma_fence/0", kWgmmaFence},
    {"forward_lengths/no_wgmma_fence/2", kWgmmaFence},
    {"gemm_no_fence_before", kTensorFence},
    {"gemm_no_fence_after", kTensorFence},
    {"gemm_no_fence_of_result", kTensorFence},
    {"chain_p_no_fence_before", kTensorFence},
    {"chain_p_no_fence_after", kTensorFence},
    {"chain_s_no_fence_after", kTensorFence},
    {"chain_o_no_fence_after", kTensorFence},
    {"chain_freed_without_fence", kTensorFence},
    {"gemm_pair/no_fence/4", kTensorFence},
    {"chain/no_fence/2", kTensorFence},
    {"chain/no_fence/3", kTensorFence},
};

constexpr const char* kUnreached =
    "stands where this configuration never comes: with no left side every row sees tile 0, so that "
    "no tile is left to skip behind a warpgroup's last";
constexpr const char* kConsumed =
    "every loaded register is used before, which waits for its load (PTX ISA 9.7.16.6.4.5)";

constexpr Survivor kEquivalents[] = {
    {"forward_causal/arrive_twice/11", kUnreached},
    {"forward_ordered/parity/17", kUnreached},
    {"forward_ordered/arrive_twice/11", kUnreached},
    {"forward_ordered/barrier_threads/6", kUnreached},
    {"forward_ordered/init_count/18", "a barrier that only kernels use that clean V"},
    {"gemm_loads_not_awaited", kConsumed},
    {"gemm/no_tensor_wait/1", kConsumed},
    {"gemm_pair/no_tensor_wait/1", kConsumed},
    {"chain/no_tensor_wait/6", kConsumed},
};

}  // namespace

std::span<const Survivor> survivors() { return kSurvivors; }
std::span<const Survivor> equivalents() { return kEquivalents; }

}  // namespace fa4::emulator::mutants
