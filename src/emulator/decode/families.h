// SPDX-License-Identifier: BSD-3-Clause
// The tables of opcodes. A new family is a file with such a function, and a line in families.cpp.
#pragma once

#include <span>

#include "emulator/decode/decoder.h"

namespace fa4::emulator::decode {

std::span<const OpcodeEntry> arithmetic_opcodes();
std::span<const OpcodeEntry> move_opcodes();     ///< mov, cvt, selp, setp, prefetches
std::span<const OpcodeEntry> memory_opcodes();   ///< ld, st, atom, red, cvta
std::span<const OpcodeEntry> control_opcodes();  ///< bra, ret, warps' shfl, vote, elect
std::span<const OpcodeEntry> sync_opcodes();     ///< bar, barrier, mbarrier, fence
std::span<const OpcodeEntry> copy_opcodes();     ///< cp.async, cp.async.bulk
std::span<const OpcodeEntry> tensor_opcodes();   ///< tcgen05
std::span<const OpcodeEntry> tensor_map_opcodes();
std::span<const OpcodeEntry> launch_opcodes();  ///< clusterlaunchcontrol
std::span<const OpcodeEntry> rare_opcodes();    ///< What compilers seldom write: mul24, dp2a, testp
std::span<const OpcodeEntry> matrix_opcodes();  ///< ldmatrix, stmatrix, mma, wgmma

/// st.async and red.async, which tables of st and red come to.
void async_store(Decoder& d, bool reduces);

}  // namespace fa4::emulator::decode
