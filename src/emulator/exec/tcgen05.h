// SPDX-License-Identifier: BSD-3-Clause
// Handlers of the tensor core's instructions, tcgen05: PTX ISA 9.7.16. Each says which operands it
// takes. mod[0] is the cta_group wherever there is one.
#pragma once

#include "emulator/program.h"

namespace fa4::emulator::exec {

enum class TensorInst : uint8_t {
  kAlloc,    ///< [a] = address; b columns. mod[14], mod[15]: space and size of the address.
  kDealloc,  ///< a address, b columns
  kRelinquish,
  kLoad,        ///< list = cells at a + imm. mod[1] TensorShape, mod[2] pack; f: the second half
  kLoadReduce,  ///< as kLoad; d the result, mod[3] TensorReduce, mod[4] 1 abs + 2 NaN
  kStore,       ///< cells at a + imm = list
  kWaitLoad,
  kWaitStore,
  kMma,     ///< d += A B. a descriptor of A or its address, b descriptor, c instruction
            ///< descriptor, e predicate, list disabled lanes. mod[1] TensorKind, mod[2] A in
            ///< tensor memory, mod[3] scale, mod[4] ashift. imm: offsets of d, and A << 32.
  kCopy,    ///< cells at a + imm = matrix b. mod[1] TensorCopy
  kShift,   ///< a + imm
  kCommit,  ///< [a]; b CTAs. mod[14], mod[15] as kAlloc
};
Handler tensor_handler(TensorInst inst);

/// Makes every instruction that touches a register of some tcgen05.ld wait for it: PTX ISA
/// 9.7.16.6.4.5. For a kernel whose registers have their places.
void watch_tensor_loads(Kernel& kernel);

enum class TensorShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
enum class TensorReduce : uint8_t { kMinF32, kMaxF32, kMinU32, kMaxU32, kMinS32, kMaxS32 };
enum class TensorKind : uint8_t { kF16, kTF32, kF8F6F4, kI8 };
enum class TensorCopy : uint8_t {
  k128x256b,
  k4x256b,
  k128x128b,
  k64x128bPairs02,
  k64x128bPairs01,
  k32x128b,
};

/// Registers that a shape with .x1 takes.
constexpr uint32_t registers_of(TensorShape shape) {
  switch (shape) {
    case TensorShape::k16x128b:
      return 2;
    case TensorShape::k16x256b:
      return 4;
    default:
      return 1;
  }
}

}  // namespace fa4::emulator::exec
