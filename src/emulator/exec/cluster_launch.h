// SPDX-License-Identifier: BSD-3-Clause
// Cluster launch control: PTX ISA 9.7.13.17, 9.7.13.18.
#pragma once

#include "emulator/program.h"

namespace fa4::emulator::exec {

enum class LaunchInst : uint8_t {
  kTryCancel,    ///< [a + low half of imm] the response, [b + high half] the mbarrier. mod[14]:
                 ///< Space, mod[13], mod[12]: sizes of the addresses, mod[0]: to all CTAs.
  kIsCanceled,   ///< predicate d of response a
  kFirstCta,     ///< list = x, y, z and something, of response a
  kFirstCtaAxis  ///< d, mod[0]: the axis
};
Handler launch_handler(LaunchInst inst);

}  // namespace fa4::emulator::exec
