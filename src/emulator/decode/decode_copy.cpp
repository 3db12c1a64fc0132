// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/decode/families.h"

namespace fa4::emulator::decode {

std::span<const OpcodeEntry> copy_opcodes() { return {}; }
std::span<const OpcodeEntry> matrix_opcodes() { return {}; }

}  // namespace fa4::emulator::decode
