// SPDX-License-Identifier: BSD-3-Clause
// A rule, and two kernels that differ in a line or two: one breaks the rule, its twin does not.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "emulator/emulator.h"

namespace fa4::emulator::test {

struct RuleCase {
  std::string name;
  Rule rule;
  /// The body. Lines that begin with '-' stand only in the kernel that breaks the rule, those with
  /// '+' only in its twin.
  std::string body;
  uint32_t threads = 64;
  uint32_t cluster = 1;  ///< CTAs.
  bool always = true;    ///< Found whatever the schedule.
};
inline std::ostream& operator<<(std::ostream& out, const RuleCase& c) { return out << c.name; }

// ---- parts of bodies ---------------------------------------------------------------------------

/// All of the data, 8 x 512 bytes, is written, and the asynchronous proxy may look.
inline const std::string kFill = R"(
    mov.u32 b, 0;
FILL:
    shl.b32 c, b, 9;
    add.u32 c, c, a;
    st.shared.u32 [c], b;
    add.u32 b, b, 1;
    setp.lt.u32 q, b, 8;
    @q bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
)";
/// Thread 0 makes the mbarrier, for one arrival.
inline const std::string kBarrier = R"(
    @one mbarrier.init.shared::cta.b64 [bar], 1;
    @one fence.mbarrier_init.release.cluster;
    bar.sync 0;
)";
/// Thread 0 brings 256 bytes to data.
inline const std::string kLoad = R"(
    @one mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [IN], 256, [bar];
)";
/// Waits for its first phase.
inline const std::string kWait = R"(
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
    @!done bra WAIT;
)";
/// 32 columns of tensor memory: `base` is their address, `own` that of the warp's lanes.
inline const std::string kAllocated = R"(
    @!first bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
ALLOCATED:
    bar.sync 0;
    ld.shared.u32 base, [slot];
    shl.b32 own, warp, 21;
    add.u32 own, own, base;
)";
/// And all lanes of the first column are written.
inline const std::string kAllocate = kAllocated + R"(
    tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {tid};
    tcgen05.wait::st.sync.aligned;
)";
/// What kAllocated took is given back.
inline const std::string kFree = R"(
    bar.sync 0;
    @!first bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 base, 32;
FREED:
)";

// ------------------------------------------------------------------------------------------------

/// What the judge says of a kernel: the error's or the first warning's text; empty: nothing.
std::string verdict(const RuleCase& c, bool twin, const RunOptions& options);

/// Both kernels in several schedules: the rule is named in some of them, of the twin nothing is
/// said.
void check_rule(const RuleCase& c);

}  // namespace fa4::emulator::test
