// SPDX-License-Identifier: BSD-3-Clause
// Which handler runs an instruction: what decode_*.cpp asks for once it knows the operation and its
// types. A null pointer means that there is no such form.
#pragma once

#include <cstdint>

#include "emulator/numeric.h"
#include "emulator/program.h"

namespace fa4::emulator::exec {

// ---- exec_integer.cpp: d = op(a, b, c) ---------------------------------------------------------

enum class IntegerOp : uint8_t {
  kAdd,
  kSub,
  kMulLow,
  kMulHigh,
  kDiv,
  kRem,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kShl,
  kShr,  // a, b
  kAbs,
  kNeg,
  kNot,
  kCnot,
  kPopc,
  kClz,
  kBrev,
  kBfind,
  kBfindShift,  // a; the shift that brings the bit found to the top
  kMadLow,
  kMadHigh,
  kSad,
  kBfe,
  kShfLeftClamp,
  kShfLeftWrap,
  kShfRightClamp,
  kShfRightWrap,
  kPrmt,
  kLop3,  // a, b, c; lop3's table in imm, prmt's mode in mod[0]
  kBfi,   // a, b, c, e
  kMulWide,
  kMadWide,
  kAddSaturate,
  kSubSaturate,
  kDp4a,
};
/// `type` of the sources; shifts and bit fields take b (and c) as 32-bit numbers.
Handler integer(IntegerOp op, Type type);
/// exec_bits.cpp: the part of integer() for shifts, bit fields and permutations.
Handler bits(IntegerOp op, Type type);

// ---- exec_carry.cpp -----------------------------------------------------------------------------

enum class CarryOp : uint8_t { kAdd, kSub, kMadLow, kMadHigh };
/// d = a + b, a - b, a * b + c, with the carry (or borrow) predicate f coming in and e going out;
/// each may be kNone.
Handler carry(CarryOp op, Type type);

// ---- exec_rare.cpp ------------------------------------------------------------------------------

enum class RareOp : uint8_t { kMul24, kMad24, kBmsk, kSzext, kDp2a };
/// d = op(a, b, c), 32 bits. mod[0], mod[1]: kMul24, kMad24: upper part, signed; kBmsk, kSzext:
/// wrap, signed; kDp2a: a signed, b signed, and mod[2] upper half of b.
Handler rare(RareOp op);
enum class TestOp : uint8_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
/// Predicate d = whether a is such a number; mod[0] = TestOp.
Handler test_property(Type type);

// ---- exec_predicate.cpp ------------------------------------------------------------------------

enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};
enum class Combine : uint8_t { kNothing, kAnd, kOr, kXor };
/// d, e = predicates (e kNone if not wanted); mod[0] = Combine with predicate c.
Handler setp(Compare compare, Type type, bool flush);
/// d = predicate c ? a : b
Handler selp(uint32_t bytes);
enum class PredicateOp : uint8_t { kAnd, kOr, kXor, kNot, kMove };
Handler predicate(PredicateOp op);

// ---- exec_float.cpp ----------------------------------------------------------------------------

enum class FloatOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFma,
  kMin,
  kMax,
  kMinNan,
  kMaxNan,
  kAbs,
  kNeg,
  kDiv,
  kRcp,
  kSqrt,
  kRsqrt,
  kEx2,
  kLg2,
  kSin,
  kCos,
  kTanh,
  kCopysign,
  kMin3,
  kMax3,
  kMinNan3,
  kMaxNan3,
  kDivApprox,
};
struct FloatForm {
  FloatOp op = FloatOp::kAdd;
  Type type = Type::kF32;
  Round round = Round::kNearest;  ///< Of add, sub, mul, fma.
  bool flush = false;
  bool saturate = false;
  bool relu = false;  ///< 16-bit types.
};
/// d = op(a, b, c). What the handler needs to know is put into the instruction's mod.
Handler floating(const FloatForm& form, Inst& inst);
/// exec_half.cpp: the part of floating() for 16-bit types.
Handler half_precision(const FloatForm& form, Inst& inst);

// ---- exec_convert.cpp --------------------------------------------------------------------------

struct Conversion {
  Type to = Type::kF32;
  Type from = Type::kF32;
  Round round = Round::kNearest;
  bool to_whole = false;  ///< .rni, .rzi and so on.
  bool flush = false;
  bool saturate = false;  ///< .sat: floats to [0, 1], whole numbers to the type's range.
  bool relu = false;
  bool finite = false;  ///< .satfinite
  uint8_t extend =
      0;  ///< Bytes of the register that a narrow whole number is extended to; 0: none.
};
/// d = a; for the x2 forms d = {a, b}, a the upper half. The Conversion lies in mod[0..8].
Handler convert(const Conversion& conversion, Inst& inst);
/// The same where `a` is a 64-bit register of whose low bits a narrow whole number is made. Null if
/// it can't be done: another type than a whole one of 32 or 64 bits comes out, or .sat.
Handler convert_low_bits(const Conversion& conversion);

// ---- exec_move.cpp -----------------------------------------------------------------------------

Handler move(uint32_t bytes);
/// d = the list's registers, lowest first, and back: of `bytes` each into one of `total`.
Handler pack(uint32_t bytes, uint32_t total);
Handler unpack(uint32_t bytes, uint32_t total);
/// d = the number of instructions run so far: for %clock, %clock64, %globaltimer.
Handler read_clock(uint32_t bytes);

}  // namespace fa4::emulator::exec
