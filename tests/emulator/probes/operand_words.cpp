// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/operand_words.h"

#include <algorithm>
#include <bit>

#include "emulator/numeric.h"

namespace fa4::emulator::probes {
namespace {

float number(ElementType type, Numbers numbers, Random& random) {
  if (type == ElementType::kU8)
    return static_cast<float>(random.below(numbers == Numbers::kExact ? 5 : 256));
  if (type == ElementType::kS8 && numbers == Numbers::kReal) {
    return static_cast<float>(random.below(256)) - 128;
  }
  if (numbers == Numbers::kExact) return static_cast<float>(random.below(9)) - 4;
  return random.normal();
}

}  // namespace

uint32_t element_bits(ElementType type, float value) {
  switch (type) {
    case ElementType::kF16:
      return to_float16(value);
    case ElementType::kBF16:
      return to_bfloat16(value);
    case ElementType::kTF32:
      return std::bit_cast<uint32_t>(value);
    case ElementType::kE4M3:
      return encode_small(value, kFloatE4M3, Round::kNearest, true);
    case ElementType::kE5M2:
      return encode_small(value, kFloatE5M2, Round::kNearest, true);
    case ElementType::kS8:
    case ElementType::kU8:
      return static_cast<uint32_t>(static_cast<int32_t>(value)) & 0xff;
  }
  return 0;
}

std::vector<uint32_t> operand_words(ElementType type, uint32_t words, Numbers numbers,
                                    Random& random) {
  std::vector<uint32_t> all(words);
  for (uint32_t& word : all) {
    for (uint32_t shift = 0; shift < 32; shift += 8 * size_of(type)) {
      word |= element_bits(type, number(type, numbers, random)) << shift;
    }
  }
  return all;
}

std::vector<uint32_t> accumulator_words(const std::string& type, uint32_t words, Numbers numbers,
                                        Random& random) {
  if (type == "f32") return operand_words(ElementType::kTF32, words, numbers, random);
  if (type == "f16") return operand_words(ElementType::kF16, words, numbers, random);
  std::vector<uint32_t> all(words);
  for (uint32_t& word : all) word = random.below(2001) - 1000;
  return all;
}

const char* name_of(ElementType type) {
  constexpr const char* kNames[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  return kNames[static_cast<int>(type)];
}

std::string register_list(const std::string& prefix, uint32_t count, uint32_t first) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "") + prefix + std::to_string(first + i);
  }
  return text + "}";
}

}  // namespace fa4::emulator::probes
