// SPDX-License-Identifier: BSD-3-Clause
// Inputs of probes: special values first, then values drawn from a seed. The same everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fa4::emulator::probes {

/// SplitMix64: its whole state is one number, and it draws the same in every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() >> 33) % n; }
  uint32_t word() { return static_cast<uint32_t>(next() >> 32); }
  /// Of [low, high), a multiple of 2^-24 of its width.
  float uniform(float low, float high);
  /// About normal: a sum of twelve uniform numbers.
  float normal();

 private:
  uint64_t state_;
};

/// Kinds of inputs a, b, c of an instruction.
enum class Draw : uint8_t {
  kFloat,      ///< float32, specials, all exponents
  kNear,       ///< float32 whose exponents are close, so that sums round and cancel
  kExponent,   ///< float32 for 2^x
  kPositive,   ///< float32 from 2^-140 on, specials
  kAngle,      ///< float32 within [-2 pi, 2 pi]
  kTable,      ///< float32 in [1, 2): the fractions of a table
  kDouble,     ///< float64
  kHalf,       ///< two 16-bit floats a word, any bits
  kHalfNear,   ///< two float16 a word of moderate size
  kBrainNear,  ///< two bfloat16 a word of moderate size
  kInt,        ///< 32 bits, edges of ranges
  kLong,       ///< 64 bits
  kShift,      ///< a: 64 bits; b, c: 0 to 71
  kField,      ///< a, b: 64 bits; c: length << 8 | position
  kFew,        ///< a: one of few values, 64 bits
};

/// `count` triples.
std::vector<std::array<uint64_t, 3>> draw(Draw kind, uint32_t count, uint64_t seed);

}  // namespace fa4::emulator::probes
