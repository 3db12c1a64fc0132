// SPDX-License-Identifier: BSD-3-Clause
// Every wrapper of the tensor core and of clusters becomes the instruction that its comment names,
// and ptxas takes it.
#include "device/wrappers.h"

namespace fa4::gpu {
namespace {

constexpr char kKernel[] = R"(
#include "ptx/cluster.cuh"
#include "ptx/tcgen05.cuh"
using namespace fa4;
template <int kGroup, int kCount>
__device__ void all_wrappers(u32* n) {
  __shared__ u32 slot;
  __shared__ u64 barrier;
  u32 r[kCount];
  for (int i = 0; i < kCount; ++i) r[i] = n[i];
  CALLS
  for (int i = 0; i < kCount; ++i) n[i] = r[i];
}
extern "C" __global__ void one(u32* n) { all_wrappers<1, 8>(n); all_wrappers<1, 32>(n); }
extern "C" __global__ void two(u32* n) { all_wrappers<2, 16>(n); all_wrappers<2, 64>(n); }
)";

const WrapperRow kRows[] = {
    {"ptx::tensor_alloc<kGroup>(&slot, 64);",
     {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32"}},
    {"ptx::tensor_relinquish<kGroup>();",
     {"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"}},
    {"ptx::tensor_store(slot, r);",
     {"tcgen05.st.sync.aligned.32x32b.x8.b32", "tcgen05.st.sync.aligned.32x32b.x16.b32",
      "tcgen05.st.sync.aligned.32x32b.x32.b32", "tcgen05.st.sync.aligned.32x32b.x64.b32"}},
    {"ptx::tensor_wait_store();", {"tcgen05.wait::st.sync.aligned"}},
    {"ptx::tensor_load(r, slot);",
     {"tcgen05.ld.sync.aligned.32x32b.x8.b32", "tcgen05.ld.sync.aligned.32x32b.x16.b32",
      "tcgen05.ld.sync.aligned.32x32b.x32.b32", "tcgen05.ld.sync.aligned.32x32b.x64.b32"}},
    {"ptx::tensor_wait_load();", {"tcgen05.wait::ld.sync.aligned"}},
    {"ptx::tensor_fence_before();", {"tcgen05.fence::before_thread_sync"}},
    {"ptx::tensor_fence_after();", {"tcgen05.fence::after_thread_sync"}},
    {"if (threadIdx.x == 0) { u64 m = ptx::matrix_descriptor(0, 16, 1024, "
     "ptx::TensorSwizzle::k128B); u32 f = ptx::instruction_descriptor(128 * kGroup, 128, 1, 1, "
     "false, true);"
     "ptx::tensor_mma<kGroup>(ptx::KindF16{}, slot, m, m, f, n[0] > 0);"
     "ptx::tensor_mma<kGroup>(ptx::KindTf32{}, slot, m, m, f, true);"
     "ptx::tensor_mma<kGroup>(ptx::KindF8{}, slot, m, m, f, false);"
     "ptx::tensor_mma_ta<kGroup>(ptx::KindF16{}, slot, slot + 64, m, f, true);"
     "ptx::tensor_commit<kGroup>(&barrier); ptx::tensor_commit<kGroup>(&barrier, 3); }",
     {"tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::2.kind::f16",
      "tcgen05.mma.cta_group::1.kind::tf32", "tcgen05.mma.cta_group::1.kind::f8f6f4",
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"}},
    {"ptx::tensor_dealloc<kGroup>(slot, 64);", {"tcgen05.dealloc.cta_group::1.sync.aligned.b32"}},
    {"ptx::cluster_arrive(); ptx::cluster_wait();",
     {"barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"}},
    {"ptx::mbarrier_arrive_remote(ptx::map_shared(&barrier, ptx::cluster_rank() ^ 1));",
     {"mapa.shared::cluster.u32", "mbarrier.arrive.release.cluster.shared::cluster.b64",
      "%cluster_ctarank"}},
};

TEST(Tcgen05Wrappers, BecomeTheirInstructions) { check_wrappers(kKernel, "sm_100a", kRows); }

}  // namespace
}  // namespace fa4::gpu
