// SPDX-License-Identifier: BSD-3-Clause
// Every PTX wrapper of device/ptx becomes the instruction that its comment names.
#include "device/wrappers.h"

namespace fa4::gpu {
namespace {

constexpr char kKernel[] = R"(
#include "ptx/cluster.cuh"
#include "ptx/math.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
using namespace fa4;
extern "C" __global__ void all_wrappers(const __grid_constant__ TensorMap map, float* out, u32* n,
                                        u64* words) {
  __shared__ __align__(1024) u16 tile[64 * 64];
  __shared__ u64 barrier;
  CALLS
}
)";

const WrapperRow kRows[] = {
    {"ptx::mbarrier_init(&barrier, 1);", {"mbarrier.init.shared::cta.b64"}},
    {"ptx::mbarrier_arrive(&barrier);", {"mbarrier.arrive.shared::cta.b64"}},
    {"ptx::mbarrier_arrive_expect(&barrier, 16);", {"mbarrier.arrive.expect_tx.shared::cta.b64"}},
    {"ptx::mbarrier_wait(&barrier, 0);", {"mbarrier.try_wait.parity.shared::cta.b64"}},
    {"n[0] = ptx::mbarrier_test_wait(&barrier, 0);", {"mbarrier.test_wait.parity.shared::cta.b64"}},
    {"ptx::fence_mbarrier_init();", {"fence.mbarrier_init.release.cluster"}},
    {"ptx::fence_async_shared();", {"fence.proxy.async.shared::cta"}},
    {"ptx::barrier_sync(1, 128);", {"barrier.cta.sync.aligned"}},
    {"ptx::barrier_arrive(2, 128);", {"barrier.cta.arrive.aligned"}},
    {"n[1] = ptx::elect_one();", {"elect.sync"}},
    {"n[2] = ptx::all_lanes(n[9] > 0);", {"vote.sync.all.pred"}},
    {"out[0] = ptx::shuffle_xor(out[9], 1);", {"shfl.sync.bfly.b32"}},
    {"n[3] = ptx::broadcast(n[9], 0);", {"shfl.sync.idx.b32"}},
    {"n[4] = ptx::atomic_increment(n + 8, 1);", {"atom.relaxed.gpu.global.inc.u32"}},
    {"words[0] = ptx::atomic_exchange_if(words + 1, 2, 3);", {"atom.acq_rel.gpu.global.cas.b64"}},
    {"words[2] = ptx::load_acquire(words + 3);", {"ld.acquire.gpu.global.u64"}},
    {"ptx::store_release(words + 4, 5);", {"st.release.gpu.global.u64"}},
    {"ptx::store_relaxed(n + 6, 7);", {"st.relaxed.gpu.global.u32"}},
    {"ptx::registers_take<64>();", {"setmaxnreg.inc.sync.aligned.u32"}},
    {"ptx::registers_give<24>();", {"setmaxnreg.dec.sync.aligned.u32"}},
    {"ptx::grid_dependency_wait();", {"griddepcontrol.wait"}},
    {"ptx::grid_dependency_release();", {"griddepcontrol.launch_dependents"}},
    {"ptx::tensormap_prefetch(&map);", {"prefetch.tensormap"}},
    {"ptx::tma_load_4d(tile, &map, &barrier, 0, 0, 0, 0);",
     {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"}},
    {"ptx::tma_load_4d_multicast(tile, &map, &barrier, 3, 0, 0, 0, 0);",
     {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster"}},
    {"ptx::store_remote(ptx::map_shared(n, 1), 5, ptx::map_shared(&barrier, 1));",
     {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32"}},
    {"ptx::mbarrier_arrive_remote_after_reads(ptx::map_shared(&barrier, 1));",
     {"mbarrier.arrive.shared::cluster.b64"}},
    {"ptx::cluster_sync();",
     {"barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"}},
    {"ptx::tma_load_5d(tile, &map, &barrier, 0, 0, 0, 0, 0);",
     {"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"}},
    {"ptx::tma_store_5d(&map, tile, 0, 0, 0, 0, 0);",
     {"cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group"}},
    {"out[19] = ptx::unpack(Fp16{}, tile[0]);", {"cvt.f32.f16"}},
    {"ptx::bulk_commit();", {"cp.async.bulk.commit_group"}},
    {"ptx::bulk_wait_read();", {"cp.async.bulk.wait_group.read 0"}},
    {"ptx::bulk_wait();", {"cp.async.bulk.wait_group 0"}},
    {"out[1] = ptx::exp2_approx(out[9]);", {"ex2.approx.ftz.f32"}},
    {"out[2] = ptx::log2_approx(out[9]);", {"lg2.approx.ftz.f32"}},
    {"out[3] = ptx::reciprocal_approx(out[9]);", {"rcp.approx.ftz.f32"}},
    {"out[4] = ptx::tanh_approx(out[9]);", {"tanh.approx.f32"}},
    {"out[5] = ptx::fma(out[9], out[10], out[11]);", {"fma.rn.ftz.f32"}},
    {"out[6] = ptx::max(out[9], out[10]);", {"max.ftz.f32"}},
    {"out[15] = ptx::min(out[9], out[10]);", {"min.ftz.f32"}},
    {"out[7] = ptx::max_nan(out[9], out[10]);", {"max.NaN.ftz.f32"}},
    {"out[8] = ptx::min_nan(out[9], out[10]);", {"min.NaN.ftz.f32"}},
    {"out[12] = ptx::add_round_down(out[9], out[10]);", {"add.rm.ftz.f32"}},
    {"n[5] = ptx::pack(Bf16{}, out[9], out[10]);", {"cvt.rn.bf16x2.f32"}},
    {"n[6] = ptx::pack(Fp16{}, out[9], out[10]);", {"cvt.rn.f16x2.f32"}},
    {"ptx::store_matrix_x4(tile, n[9], n[10], n[11], n[12]);",
     {"stmatrix.sync.aligned.m8n8.x4.shared.b16"}},
    {"u32 a[4]; ptx::load_matrix_x4(tile, a); n[7] = a[0] + a[1] + a[2] + a[3];",
     {"ldmatrix.sync.aligned.m8n8.x4.shared.b16"}},
    {"float f[4] = {}; ptx::mma(Bf16{}, f, {n[0], n[1], n[2], n[3]}, n[4], n[5]); out[16] = f[3];",
     {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"}},
    {"float g[4] = {}; ptx::mma(Fp16{}, g, {n[0], n[1], n[2], n[3]}, n[4], n[5]); out[17] = g[3];",
     {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}},
    {"float h[4] = {out[0], out[1], out[2], out[3]}; ptx::wgmma_wait_after<1>(h, &barrier);",
     {"wgmma.wait_group.sync.aligned 1"}},
    {"float d[8] = {}; ptx::wgmma_fence(); ptx::wgmma_shared<0>(Bf16{}, d, 1, 2, true); "
     "ptx::wgmma_commit(); ptx::wgmma_wait<0>(); out[13] = d[0];",
     {"wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"}},
    {"float e[128] = {}; ptx::wgmma_fence(); ptx::wgmma_registers<1>(Fp16{}, e, n + 9, 2, true); "
     "ptx::wgmma_commit(); ptx::wgmma_wait<0>(); out[14] = e[127];",
     {"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"}},
    {"float i[8] = {}; ptx::wgmma_fence(); ptx::wgmma_shared<1, 4>(Fp16{}, i, 1, 2, false); "
     "ptx::wgmma_commit(); ptx::wgmma_wait<0>(); out[18] = i[0];",
     {"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"}},
    {"float j[64] = {}; ptx::wgmma_fence(); ptx::wgmma_registers<0, 4>(Bf16{}, j, n + 9, 2, true); "
     "ptx::wgmma_commit(); ptx::wgmma_wait<0>(); out[20] = j[63];",
     {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"}},
    {"", {"wgmma.fence.sync.aligned"}},
    {"", {"wgmma.commit_group.sync.aligned"}},
    {"", {"wgmma.wait_group.sync.aligned 0"}},
};

TEST(PtxWrappers, BecomeTheirInstructions) { check_wrappers(kKernel, "sm_90a", kRows); }

}  // namespace
}  // namespace fa4::gpu
