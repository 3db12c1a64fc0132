// SPDX-License-Identifier: BSD-3-Clause
// PTX text to tokens.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fa4::emulator::ptx {

/// What is wrong with a PTX text, and where. Thrown inside the emulator only: its interface turns
/// it into a Status.
class SourceError : public std::runtime_error {
 public:
  SourceError(uint32_t line, const std::string& message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message) {}
};

enum class TokenKind : uint8_t {
  kEnd,
  kWord,     ///< A name, directive, register or opcode: "ld.global.u32", "%r1", ".reg".
  kInteger,  ///< `bits` is its value.
  kFloat,    ///< `bits` is a float's image if `single`, else a double's.
  kString,   ///< Text between quotes.
  kPunct,    ///< One character.
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  bool single = false;
  uint32_t line = 0;
  std::string_view text;  ///< Points into the source.
  uint64_t bits = 0;
};

/// All tokens of `source`, the last of kind kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace fa4::emulator::ptx
