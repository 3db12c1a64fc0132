// SPDX-License-Identifier: BSD-3-Clause
// Matrix instructions of warps and warpgroups.
#pragma once

#include "emulator/matrix_operand.h"
#include "emulator/program.h"

namespace fa4::emulator::exec {

/// a: address; the list has 1, 2 or 4 registers. mod[0]: transposed, mod[14], mod[15] as in
/// Accessor.
Handler load_matrix();
Handler store_matrix();

/// The list: D (read and written), then A's 4 registers if they are in registers.
/// a: descriptor of A, b: of B, c: predicate scale-d.
struct WgmmaForm {
  ElementType a = ElementType::kBF16;
  ElementType b = ElementType::kBF16;
  uint32_t columns = 0;  ///< N
  bool a_in_registers = false;
  bool negate_a = false;
  bool negate_b = false;
  bool a_m_major = false;
  bool b_n_major = false;
  Type d = Type::kF32;  ///< kF32, kF16 or kS32.
};
Handler wgmma(const WgmmaForm& form, Inst& inst);
/// imm: groups that may stay pending.
Handler wgmma_wait();
Handler wgmma_commit();

/// mma.sync: the list has D, A, B, C; mod: see exec_mma.cpp.
struct MmaForm {
  uint32_t m = 16, n = 8, k = 16;
  ElementType a = ElementType::kBF16;
  ElementType b = ElementType::kBF16;
  Type d = Type::kF32;
};
Handler mma(const MmaForm& form, Inst& inst);

}  // namespace fa4::emulator::exec
