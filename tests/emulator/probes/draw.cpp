// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/draw.h"

#include <bit>

#include "emulator/numeric.h"

namespace fa4::emulator::probes {
namespace {

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

// Zeros, ones, infinities, NaNs, subnormals, the ends of the ranges of every format that
// conversions know, and what lies half-way between two of its numbers.
constexpr uint32_t kFloats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
    0x7f800001, 0xffffffff, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff,
    0xff7fffff, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x3f801000, 0x3f803000, 0x3f800fff,
    0x477fe000, 0x477ff000, 0x477fefff, 0xc7800000, 0x33000000, 0x33000001, 0x33800000, 0x38800000,
    0x387fc000, 0x387fe000, 0x7f7f8000, 0x7f7f7fff, 0x43e00000, 0x43e80000, 0x43e80001, 0x43f00000,
    0x47600000, 0x47700000, 0x47700001, 0x3b000000, 0x3a800000, 0x3ac00000, 0x37800000, 0x37000000,
    0x37400000, 0x3f880000, 0x3f980000, 0x3f900000, 0x3fb00000, 0x3f000000, 0xbf000000, 0x3fc00000,
    0xbfc00000, 0x40200000, 0xc0200000, 0x4f000000, 0xcf000000, 0x4effffff, 0x4f800000, 0x4f7fffff,
    0x5f000000, 0xdf000000, 0x5f800000, 0x5effffff, 0x47000000, 0xc7000000, 0x46fffe00, 0x437f0000,
    0x43000000, 0xc3000000, 0x42fe0000, 0x4b000001, 0x4b800001, 0xcb000001, 0x7fbfffff, 0x3eaaaaab};
constexpr uint32_t kExponents[] = {
    0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x80000001, 0x3f800000,
    0xbf800000, 0xc2fc0000, 0xc2fe0000, 0xc2fd0000, 0xc3150000, 0xc3160000, 0xc3158000, 0xc3200000,
    0x42fe0000, 0x42ffffff, 0x43000000, 0x43100000, 0x3f000000, 0xbf000000, 0x33800000, 0xb3800000};
constexpr uint64_t kDoubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001,
    0x0000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
    0x47efffffefffffff, 0x47effffff0000000, 0x3690000000000000, 0x36a0000000000000,
    0x380fffffc0000000, 0x3ff0000010000000, 0x3ff0000030000000, 0x41dfffffffc00000,
    0x41e0000000000000, 0x43e0000000000000, 0xc3e0000000000000, 0x4004000000000000};
constexpr uint32_t kHalves[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01,
                                0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x3f80, 0xbf80,
                                0x7f80, 0xff80, 0x7fc0, 0x007f, 0x0080, 0x7f7f, 0xff7f, 0x4000};
constexpr uint64_t kInts[] = {0,          1,          2,          0x7f,       0x80,
                              0xff,       0x100,      0x7fff,     0x8000,     0xffff,
                              0x10000,    0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe,
                              0xffffffff, 0xffffff80, 0xffff8000, 0x01000001, 0x00ffffff};
constexpr uint64_t kLongs[] = {0x0000000000000000, 0x0000000000000001, 0x7fffffffffffffff,
                               0x8000000000000000, 0xffffffffffffffff, 0x00000000ffffffff,
                               0x0000000100000000, 0xffffffff00000000, 0x0000000080000000,
                               0x8000000000000001, 0x0010000000000001, 0x0000008000000001};

template <class T, size_t kCount>
uint64_t one_of(const T (&values)[kCount], Random& random) {
  return values[random.below(kCount)];
}

uint64_t any_double(Random& random) {
  if (random.below(3) == 0) return one_of(kDoubles, random);
  return std::bit_cast<uint64_t>(static_cast<double>(random.uniform(-1, 1)) +
                                 1e-9 * static_cast<double>(random.uniform(-1, 1)));
}

uint64_t any_float(Random& random) {
  if (random.below(4) == 0) return one_of(kFloats, random);
  const float size = random.below(2) == 0 ? 4.0f : 1000.0f;
  return random.below(2) == 0 ? random.word() : bits(random.uniform(-size, size));
}

/// Two halves a word: specials in one of four, else drawn.
template <class F>
uint64_t halves(Random& random, F drawn) {
  uint64_t word = 0;
  for (int i = 0; i < 2; ++i) {
    const uint64_t half = random.below(4) == 0 ? one_of(kHalves, random) : drawn();
    word |= half << 16 * i;
  }
  return word;
}

uint64_t any(Draw kind, uint32_t operand, Random& random) {
  switch (kind) {
    case Draw::kFloat:
      return any_float(random);
    case Draw::kNear:
      return random.below(8) == 0
                 ? one_of(kFloats, random)
                 : bits(random.uniform(-1, 1) * (random.below(2) == 0 ? 1 : 1e-3f));
    case Draw::kExponent:
      return bits(random.uniform(-1, 1) * (random.below(2) == 0 ? 140.0f : 2.0f));
    case Draw::kPositive:
      return random.word() & 0x7fffffff;
    case Draw::kAngle:
      return bits(random.uniform(-6.2831853f, 6.2831853f));
    case Draw::kTable:
      return 0x3f800000 | (random.word() & 0x7fffff);
    case Draw::kDouble:
      return any_double(random);
    case Draw::kHalf:
      return halves(random, [&] { return random.below(65536); });
    case Draw::kHalfNear:
      return halves(random, [&] { return to_float16(random.uniform(-3, 3)); });
    case Draw::kBrainNear:
      return halves(random, [&] { return to_bfloat16(random.uniform(-3, 3)); });
    case Draw::kInt:
      return random.below(3) == 0 ? one_of(kInts, random) : random.word() >> random.below(32);
    case Draw::kLong:
      return random.below(3) == 0 ? one_of(kLongs, random) : random.next() >> random.below(64);
    case Draw::kShift:
      return operand == 0 ? any(Draw::kLong, 0, random) : random.below(72);
    case Draw::kField:
      return operand < 2 ? any(Draw::kLong, 0, random) : random.below(72) << 8 | random.below(72);
    case Draw::kFew:
      return random.below(3) * 0x100000001;
  }
  return 0;
}

/// The specials that come first, in `a`.
std::vector<uint64_t> specials(Draw kind) {
  switch (kind) {
    case Draw::kFloat:
      return {std::begin(kFloats), std::end(kFloats)};
    case Draw::kPositive:
      return {std::begin(kFloats), std::begin(kFloats) + 17};
    case Draw::kAngle:  // without the largest, where PTX promises nothing
      return {std::begin(kFloats), std::begin(kFloats) + 15};
    case Draw::kExponent:
      return {std::begin(kExponents), std::end(kExponents)};
    case Draw::kDouble:
      return {std::begin(kDoubles), std::end(kDoubles)};
    case Draw::kHalf:
    case Draw::kHalfNear:
    case Draw::kBrainNear:
      return {std::begin(kHalves), std::end(kHalves)};
    case Draw::kInt:
      return {std::begin(kInts), std::end(kInts)};
    case Draw::kLong:
      return {std::begin(kLongs), std::end(kLongs)};
    default:
      return {};
  }
}

}  // namespace

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

float Random::uniform(float low, float high) {
  // In float64 the product is exact, so that no compiler's contraction changes the sum.
  const double part = static_cast<double>(next() >> 40) * 0x1p-24;
  return static_cast<float>(low + (static_cast<double>(high) - low) * part);
}

float Random::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(next() >> 40) * 0x1p-24;
  return static_cast<float>(sum);
}

std::vector<std::array<uint64_t, 3>> draw(Draw kind, uint32_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::array<uint64_t, 3>> triples(count);
  const std::vector<uint64_t> first = specials(kind);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t operand = 0; operand < 3; ++operand) {
      triples[i][operand] = any(kind, operand, random);
    }
    if (i < first.size()) triples[i][0] = first[i];
  }
  return triples;
}

}  // namespace fa4::emulator::probes
