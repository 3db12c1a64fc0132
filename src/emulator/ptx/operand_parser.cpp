// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/ptx/operand_parser.h"

#include <bit>

namespace fa4::emulator::ptx {
namespace {

constexpr int kMaxDepth = 6;
using Kind = Operand::Kind;

Operand parse_nested(TokenStream& in, int depth);

Operand parse_number(TokenStream& in) {
  Operand o;
  const bool minus = in.accept("-");
  const bool invert = !minus && in.accept("~");
  const Token& t = in.take();
  o.kind = t.kind == TokenKind::kFloat ? Kind::kFloat : Kind::kInteger;
  o.single = t.single;
  o.bits = t.bits;
  if (t.kind == TokenKind::kInteger) {
    if (minus) o.bits = 0 - o.bits;
    if (invert) o.bits = ~o.bits;
  } else if (t.kind != TokenKind::kFloat || invert) {
    in.fail("a number is wanted");
  } else if (minus) {
    o.bits ^= t.single ? uint64_t{1} << 31 : uint64_t{1} << 63;
  }
  return o;
}

/// "+ 4", "- 4", "+-4" behind a name; repeated.
int64_t parse_offset(TokenStream& in) {
  uint64_t sum = 0;
  while (in.peek().text == "+" || in.peek().text == "-") {
    bool minus = in.take().text == "-";
    if (in.accept("-")) minus = !minus;
    const uint64_t n = in.integer();
    sum += minus ? 0 - n : n;
  }
  return static_cast<int64_t>(sum);
}

Operand parse_address(TokenStream& in, int depth) {
  Operand o;
  in.expect("[");
  if (in.peek().kind == TokenKind::kWord) {
    o.name = in.take().text;
    o.offset = parse_offset(in);
  } else {
    const Operand n = parse_number(in);
    if (n.kind != Kind::kInteger) in.fail("an address is wanted");
    o.bits = n.bits;
  }
  o.kind = Kind::kAddress;
  while (in.accept(",")) o.parts.push_back(parse_nested(in, depth + 1));
  in.expect("]");
  return o;
}

Operand parse_sequence(TokenStream& in, Kind kind, const char* close, int depth) {
  Operand o;
  o.kind = kind;
  in.take();
  while (!in.accept(close)) {
    if (!o.parts.empty()) in.expect(",");
    o.parts.push_back(parse_nested(in, depth + 1));
  }
  return o;
}

Operand parse_name(TokenStream& in) {
  Operand o;
  o.negated = in.accept("!");
  o.name = in.word("an operand").text;
  o.kind = o.name == "_" ? Kind::kSink : Kind::kName;
  o.offset = parse_offset(in);
  return o;
}

Operand parse_nested(TokenStream& in, int depth) {
  if (depth > kMaxDepth) in.fail("operands nested that deep");
  const Token& t = in.peek();
  if (t.text == "[") return parse_address(in, depth);
  if (t.text == "{") return parse_sequence(in, Kind::kVector, "}", depth);
  if (t.text == "(") return parse_sequence(in, Kind::kList, ")", depth);
  const bool number = t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat ||
                      t.text == "-" || t.text == "~";
  if (number) return parse_number(in);
  Operand o = parse_name(in);
  if (!in.accept("|")) return o;
  Operand pair;
  pair.kind = Kind::kPair;
  pair.parts.push_back(std::move(o));
  pair.parts.push_back(parse_name(in));
  return pair;
}

}  // namespace

std::string quoted(const Token& t) {
  if (t.kind == TokenKind::kEnd) return "the end of the text";
  return std::string("'").append(t.text.substr(0, 60)).append("'");
}

void TokenStream::expect(std::string_view text) {
  if (!accept(text)) fail(std::string("'").append(text).append("' is wanted"));
}

const Token& TokenStream::word(const char* what) {
  if (peek().kind != TokenKind::kWord) fail(std::string(what) + " is wanted");
  return take();
}

uint64_t TokenStream::integer() {
  if (peek().kind != TokenKind::kInteger) fail("a whole number is wanted");
  return take().bits;
}

void TokenStream::fail(const std::string& what) const {
  throw SourceError(peek().line, what + ", at " + quoted(peek()));
}

Operand parse_operand(TokenStream& in) { return parse_nested(in, 0); }

}  // namespace fa4::emulator::ptx
