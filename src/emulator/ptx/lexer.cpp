// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/ptx/lexer.h"

#include <bit>
#include <charconv>

namespace fa4::emulator::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word_start(char c) {
  return is_letter(c) || c == '_' || c == '%' || c == '$' || c == '.' || c == '@';
}
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$' || c == '.'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(source_.size() / 4);
    do {
      skip_blank();
      tokens.push_back(next());
    } while (tokens.back().kind != TokenKind::kEnd);
    return tokens;
  }

 private:
  char at(size_t offset) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }

  void skip_blank() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
        ++at_;
      } else if (c == '/' && at(1) == '/') {
        while (at_ < source_.size() && source_[at_] != '\n') ++at_;
      } else if (c == '/' && at(1) == '*') {
        skip_comment();
      } else {
        return;
      }
    }
  }

  void skip_comment() {
    const uint32_t first = line_;
    for (at_ += 2; at_ < source_.size(); ++at_) {
      if (source_[at_] == '\n') ++line_;
      if (source_[at_] == '*' && at(1) == '/') {
        at_ += 2;
        return;
      }
    }
    throw SourceError(first, "a comment that does not end");
  }

  Token token(TokenKind kind, size_t length) {
    Token t;
    t.kind = kind;
    t.line = line_;
    t.text = source_.substr(at_, length);
    at_ += length;
    return t;
  }

  Token next() {
    if (at_ >= source_.size()) return token(TokenKind::kEnd, 0);
    const char c = source_[at_];
    if (is_digit(c) || (c == '.' && is_digit(at(1)))) return number();
    if (c == '"') return string();
    if (is_word_start(c) && c != '@') return word();
    return token(TokenKind::kPunct, 1);
  }

  /// "::" belongs to a word ("shared::cta"), ":" ends a label.
  Token word() {
    size_t n = 1;
    while (true) {
      if (is_word(at(n))) {
        ++n;
      } else if (at(n) == ':' && at(n + 1) == ':' && is_word(at(n + 2))) {
        n += 3;
      } else {
        break;
      }
    }
    return token(TokenKind::kWord, n);
  }

  Token string() {
    size_t n = 1;
    while (at(n) != '"') {
      if (at_ + n >= source_.size() || at(n) == '\n') {
        throw SourceError(line_, "a string that does not end");
      }
      ++n;
    }
    Token t = token(TokenKind::kString, n + 1);
    t.text = t.text.substr(1, n - 1);
    return t;
  }

  Token number() {
    if (source_[at_] == '0' && (at(1) == 'f' || at(1) == 'F')) return hex_float(8, true);
    if (source_[at_] == '0' && (at(1) == 'd' || at(1) == 'D')) return hex_float(16, false);
    size_t n = 0;
    bool real = false;
    const bool prefixed = source_[at_] == '0' && (at(1) == 'x' || at(1) == 'X');
    while (is_digit(at(n)) || is_letter(at(n)) ||
           (!prefixed && (at(n) == '.' || ((at(n) == '+' || at(n) == '-') && n > 0 &&
                                           (at(n - 1) == 'e' || at(n - 1) == 'E'))))) {
      real |= !prefixed && (at(n) == '.' || at(n) == 'e' || at(n) == 'E');
      ++n;
    }
    Token t = token(real ? TokenKind::kFloat : TokenKind::kInteger, n);
    if (real) {
      double value = 0;
      const auto result = std::from_chars(t.text.data(), t.text.data() + n, value);
      if (result.ec != std::errc() || result.ptr != t.text.data() + n) bad_number(t);
      t.bits = std::bit_cast<uint64_t>(value);
    } else {
      t.bits = integer(t);
    }
    return t;
  }

  Token hex_float(size_t digits, bool single) {
    Token t = token(TokenKind::kFloat, std::min(2 + digits, source_.size() - at_));
    t.single = single;
    const auto result =
        std::from_chars(t.text.data() + 2, t.text.data() + t.text.size(), t.bits, 16);
    if (result.ec != std::errc() || result.ptr != t.text.data() + 2 + digits) bad_number(t);
    return t;
  }

  static uint64_t integer(const Token& t) {
    std::string_view text = t.text;
    if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
    int base = 10;
    if (text.size() > 1 && text[0] == '0') {
      const bool hex = text[1] == 'x' || text[1] == 'X';
      const bool binary = text[1] == 'b' || text[1] == 'B';
      base = hex ? 16 : binary ? 2 : 8;
      text.remove_prefix(hex || binary ? 2 : 1);
    }
    uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) bad_number(t);
    return value;
  }

  [[noreturn]] static void bad_number(const Token& t) {
    throw SourceError(t.line, "'" + std::string(t.text.substr(0, 40)) + "' is not a number");
  }

  std::string_view source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fa4::emulator::ptx
