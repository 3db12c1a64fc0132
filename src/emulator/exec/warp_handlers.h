// SPDX-License-Identifier: BSD-3-Clause
// Handlers of exec_warp.cpp, which says which operands each takes, and of exec_memory.cpp.
#pragma once

#include "emulator/program.h"

namespace fa4::emulator::exec {

enum class WarpOp : uint8_t {
  kShuffle,
  kVote,
  kElect,
  kMatch32,
  kMatch64,
  kRedux,
  kReduxFloat,
  kActiveMask,
  kBranch,
  kExit,
  kTrap,
  kBadIndex,         ///< brx.idx beyond its list.
  kExternal,         ///< A function that the module lacks: imm = its number in Kernel::externals.
  kAssertionFailed,  ///< a, b, c = local offsets of message, file, line.
  /// vprintf: a, b, c = local offsets of the result (or kNone), the format's address, the
  /// arguments' address.
  kPrint,
};
enum class ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
enum class ReduceOp : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareSwap,
  kIncrement,
  kDecrement,
};
Handler warp_handler(WarpOp op);
Step print_text(Warp& w, const Inst& i, uint32_t mask);

/// Memory. a address, list = the vector's registers (of atomics: d result, b and c operands).
struct MemoryForm {
  Space space = Space::kGeneric;
  Type type = Type::kB32;      ///< Of an element in memory.
  uint8_t register_bytes = 4;  ///< As declared: 2, 4, 8 or 16.
};
Handler load(const MemoryForm& form, Inst& inst);
Handler store(const MemoryForm& form, Inst& inst);
/// Atomics with a result d (kNone: red). Vectors: the list has sources, then results.
Handler atomic(const MemoryForm& form, ReduceOp op, bool global, Inst& inst);
enum class AddressOp : uint8_t { kToGeneric, kFromGeneric, kIsSpace, kMapa, kGetRank };
/// cvta, isspacep, mapa, getctarank. mod[14] = Space; mod[13] = bytes of a; mod[12] = bytes of d.
Handler address_handler(AddressOp op);

}  // namespace fa4::emulator::exec
