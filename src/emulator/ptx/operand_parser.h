// SPDX-License-Identifier: BSD-3-Clause
// The parser's cursor over tokens, and the grammar of operands.
#pragma once

#include <string>
#include <vector>

#include "emulator/ptx/ast.h"
#include "emulator/ptx/lexer.h"

namespace fa4::emulator::ptx {

std::string quoted(const Token& t);

class TokenStream {
 public:
  explicit TokenStream(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool is_end() const { return peek().kind == TokenKind::kEnd; }
  const Token& take() {
    const Token& t = peek();
    if (!is_end()) ++at_;
    return t;
  }
  /// Takes the next token if it is this word or character.
  bool accept(std::string_view text) {
    const Token& t = peek();
    if ((t.kind != TokenKind::kWord && t.kind != TokenKind::kPunct) || t.text != text) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text);
  const Token& word(const char* what);
  uint64_t integer();
  /// "line n: <what>, at 'token'".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

Operand parse_operand(TokenStream& in);

}  // namespace fa4::emulator::ptx
