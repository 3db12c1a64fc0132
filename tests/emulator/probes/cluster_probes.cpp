// SPDX-License-Identifier: BSD-3-Clause
// Clusters: special registers, distributed shared memory, barriers of other CTAs, multicast.
#include <string>

#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kThreads = 32;

/// Clusters of `cluster` CTAs of 32 threads; `h` is the thread's place in the output, `each` words
/// for every thread of the grid; `rank` and `other` its CTA's and the next one's in the cluster.
Probe probe_of(const std::string& name, uint32_t cluster, uint32_t clusters, uint32_t each,
               const std::string& body) {
  Probe probe;
  probe.name = "cluster/" + name;
  probe.cluster = cluster;
  probe.blocks = cluster * clusters;
  probe.threads = kThreads;
  probe.output_words = probe.blocks * kThreads * each;
  for (uint32_t i = 0; i < 256; ++i) probe.input.push_back(i * 0x01020305);
  probe.ptx = kernel_text(
      ".reg .b32 x, y, m, n, rank, other;\n.reg .b64 g, h;\n.reg .pred p, first;\n"
      "setp.eq.u32 first, t, 0;\nmov.u32 rank, %cluster_ctarank;\nadd.u32 other, rank, 1;\n"
      "mov.u32 n, %cluster_nctarank;\nrem.u32 other, other, n;\nmov.u32 n, %ctaid.x;\n"
      "mad.lo.u32 n, n, 32, t;\nmul.wide.u32 h, n, " +
          std::to_string(4 * each) +
          ";\nadd.u64 h, out, h;\nmul.wide.u32 g, n, 4;\nadd.u64 g, in, g;\n"
          "ld.global.u32 x, [g];\nmov.u32 m, cells;\nmad.lo.u32 m, t, 4, m;\n" +
          body,
      ".shared .align 128 .b8 cells[256];\n.shared .align 8 .b64 bar;\n");
  return probe;
}

const char* const kMeet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

Probe registers() {
  std::string body = "mov.u32 x, %tid.x;\n";
  uint32_t offset = 0;
  for (const char* name :
       {"%ctaid.x", "%nctaid.x", "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank",
        "%cluster_nctarank", "%clusterid.x", "%nclusterid.x", "%ntid.x", "%laneid", "%lanemask_lt",
        "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"}) {
    body += std::string("mov.u32 x, ") + name + ";\nst.global.u32 [h+" + std::to_string(offset) +
            "], x;\n";
    offset += 4;
  }
  return probe_of("registers", 2, 2, offset / 4, body);
}

Probe addresses() {
  return probe_of("addresses", 4, 1, 4, std::string(R"(
st.shared.u32 [m], x;
)") + kMeet + R"(
mapa.shared::cluster.u32 n, m, other;
ld.shared::cluster.u32 y, [n];
st.global.u32 [h], y;
getctarank.shared::cluster.u32 y, n;
st.global.u32 [h+4], y;
.reg .b64 a, b;
cvt.u64.u32 a, m;
cvta.shared.u64 a, a;
mapa.u64 b, a, other;
ld.u32 y, [b];
st.global.u32 [h+8], y;
.reg .b32 s;
mov.b32 y, 0;
isspacep.shared::cluster p, b;
selp.u32 s, 1, 0, p;
or.b32 y, y, s;
isspacep.shared::cta p, a;
selp.u32 s, 2, 0, p;
or.b32 y, y, s;
isspacep.global p, h;
selp.u32 s, 4, 0, p;
or.b32 y, y, s;
isspacep.global p, a;
selp.u32 s, 8, 0, p;
or.b32 y, y, s;
st.global.u32 [h+12], y;
)" + kMeet);
}

Probe stores() {
  return probe_of("stores", 2, 2, 2, std::string(R"(
mov.b32 y, 100;
st.shared.u32 [m+128], y;
)") + kMeet + R"(
mapa.shared::cluster.u32 n, m, other;
st.shared::cluster.u32 [n], x;
red.shared::cluster.add.u32 [n+128], rank;
atom.shared::cluster.add.u32 y, [n+128], t;
)" + kMeet + R"(
ld.shared.u32 y, [m];
st.global.u32 [h], y;
ld.shared.u32 y, [m+128];
st.global.u32 [h+4], y;
)");
}

Probe arrivals() {
  return probe_of("arrivals", 4, 1, 1, std::string(R"(
@first mbarrier.init.shared::cta.b64 [bar], 32;
fence.mbarrier_init.release.cluster;
)") + kMeet + R"(
mapa.shared::cluster.u32 n, m, other;
st.shared::cluster.u32 [n], x;
mov.u32 n, bar;
mapa.shared::cluster.u32 n, n, other;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [n];
)" + kWaitForBar + R"(
ld.shared.u32 y, [m];
st.global.u32 [h], y;
)" + kMeet);
}

/// Rank 0 copies to all, or to those of a mask; each waits for its own barrier.
Probe multicast(uint32_t mask) {
  const std::string bits = std::to_string(mask);
  return probe_of("multicast" + bits, 4, 1, 2, std::string(R"(
mov.b32 y, 0xaaaaaaaa;
st.shared.u32 [m], y;
st.shared.u32 [m+128], y;
@first mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async;
)") + kMeet + R"(
.reg .b32 mine;
.reg .b16 mask;
mov.b32 mine, 1;
shl.b32 mine, mine, rank;
and.b32 mine, mine, )" + bits + R"(;
setp.ne.u32 p, mine, 0;
selp.u32 y, 256, 0, p;
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], y;
mov.b16 mask, )" + bits + R"(;
setp.eq.u32 p, rank, 0;
and.pred p, p, first;
@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [cells], [in], 256, [bar], mask;
)" + kWaitForBar + R"(
ld.shared.u32 y, [m];
st.global.u32 [h], y;
ld.shared.u32 y, [m+128];
st.global.u32 [h+4], y;
)" + kMeet);
}

/// Shared memory to the next CTA's, whose barrier counts the bytes.
Probe remote_copy() {
  return probe_of("copy", 2, 1, 1, std::string(R"(
st.shared.u32 [m], x;
@first mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async;
)") + kMeet + R"(
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
mov.u32 y, cells;
add.u32 y, y, 128;
mapa.shared::cluster.u32 y, y, other;
mov.u32 n, bar;
mapa.shared::cluster.u32 n, n, other;
@first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [y], [cells], 128, [n];
)" + kWaitForBar + R"(
ld.shared.u32 y, [m+128];
st.global.u32 [h], y;
)" + kMeet);
}

}  // namespace

std::vector<Probe> cluster_probes() {
  return {registers(),   addresses(),   stores(),     arrivals(),
          multicast(15), multicast(10), remote_copy()};
}

}  // namespace fa4::emulator::probes
