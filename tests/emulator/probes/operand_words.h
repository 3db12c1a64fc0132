// SPDX-License-Identifier: BSD-3-Clause
// Matrix operands as words of memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/matrix_operand.h"
#include "emulator/probes/draw.h"

namespace fa4::emulator::probes {

/// How operands are drawn.
enum class Numbers : uint8_t {
  kExact,  ///< Whole numbers of at most 4: sums are exact in every order.
  kReal,   ///< About normal.
};

/// The element's bits in its type.
uint32_t element_bits(ElementType type, float value);
std::vector<uint32_t> operand_words(ElementType type, uint32_t words, Numbers numbers,
                                    Random& random);
/// Accumulators: "f32", "f16" (two a word) or "s32".
std::vector<uint32_t> accumulator_words(const std::string& type, uint32_t words, Numbers numbers,
                                        Random& random);
/// "bf16"
const char* name_of(ElementType type);
/// "{x0, x1, x2}"
std::string register_list(const std::string& prefix, uint32_t count, uint32_t first = 0);

}  // namespace fa4::emulator::probes
