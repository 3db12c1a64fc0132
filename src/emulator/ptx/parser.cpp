// SPDX-License-Identifier: BSD-3-Clause
// The grammar of PTX modules and functions (PTX ISA 4.2 to 5.5): recursive descent, one token
// ahead.
#include "emulator/ptx/parser.h"

#include <array>
#include <map>
#include <utility>

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/operand_parser.h"

namespace fa4::emulator::ptx {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 32;

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Module run() {
    while (!in_.is_end()) parse_directive();
    return std::move(module_);
  }

 private:
  using Position = std::array<uint32_t, 3>;  ///< File, line, column.

  // ---- module ----------------------------------------------------------------------------------

  void parse_directive() {
    const Token& t = in_.peek();
    if (in_.accept(";")) return;
    if (t.text == ".version") return parse_version();
    if (t.text == ".target") return parse_target();
    if (in_.accept(".address_size")) {
      if (in_.integer() != 64) in_.fail("an address size that is not 64");
      return;
    }
    if (t.text == ".file") return parse_file();
    if (t.text == ".section") return parse_section();
    if (in_.accept(".pragma")) return skip_to_semicolon();
    if (in_.accept(".alias")) return skip_to_semicolon();
    bool is_extern = false;
    while (true) {
      if (in_.accept(".extern")) {
        is_extern = true;
      } else if (!in_.accept(".visible") && !in_.accept(".weak") && !in_.accept(".common")) {
        break;
      }
    }
    if (in_.peek().text == ".entry" || in_.peek().text == ".func") return parse_function();
    if (!find_space(in_.peek().text)) in_.fail("a directive is wanted");
    parse_variables(module_.variables, is_extern);
  }

  void parse_version() {
    in_.take();
    const Token& t = in_.take();
    const std::string text(t.text);
    const size_t dot = text.find('.');
    if (t.kind != TokenKind::kFloat || dot == std::string::npos || text.size() > 8) {
      in_.fail("a version is wanted, such as 9.0");
    }
    module_.version_major = static_cast<uint32_t>(std::atoi(text.c_str()));
    module_.version_minor = static_cast<uint32_t>(std::atoi(text.c_str() + dot + 1));
  }

  void parse_target() {
    in_.take();
    do {
      const Token& t = in_.word("a target");
      if (starts_with(t.text, "sm_")) module_.target = std::string(t.text);
    } while (in_.accept(","));
  }

  void parse_file() {
    in_.take();
    SourceName file;
    file.index = static_cast<uint32_t>(in_.integer());
    file.name = in_.take().text;
    while (in_.accept(",")) in_.take();
    module_.files.push_back(file);
  }

  /// Of debug information only .debug_str is of interest: labels, and bytes behind each.
  void parse_section() {
    in_.take();
    const bool has_strings = in_.peek().text == ".debug_str";
    while (!in_.is_end() && in_.peek().text != "{") in_.take();
    std::string* text = nullptr;
    while (!in_.is_end() && in_.peek().text != "}") {
      const Token& t = in_.take();
      if (!has_strings) continue;
      if (in_.peek().text == ":") text = &module_.strings[t.text];
      if (t.kind != TokenKind::kInteger || text == nullptr) continue;
      if (t.bits != 0) {
        *text += static_cast<char>(t.bits);
      } else {
        text = nullptr;
      }
    }
    in_.expect("}");
  }

  void skip_to_semicolon() {
    while (!in_.is_end() && in_.peek().text != ";") in_.take();
    in_.expect(";");
  }

  // ---- variables -------------------------------------------------------------------------------

  static bool find_space(std::string_view text) {
    return text == ".global" || text == ".shared" || text == ".const" || text == ".local" ||
           text == ".param" || text == ".reg" || starts_with(text, ".shared::");
  }

  Space parse_space() {
    const std::string_view text = in_.take().text;
    if (text == ".global") return Space::kGlobal;
    if (text == ".const") return Space::kConst;
    if (text == ".local") return Space::kLocal;
    if (text == ".param") return Space::kParam;
    if (starts_with(text, ".shared")) return Space::kShared;
    in_.fail("a state space is wanted");
  }

  /// What stands before a variable's name.
  Variable parse_prefix() {
    Variable v;
    v.line = in_.peek().line;
    v.space = parse_space();
    while (true) {
      const Token& t = in_.peek();
      if (in_.accept(".align")) {
        v.align = static_cast<uint32_t>(in_.integer());
        if (v.align == 0 || v.align > (1u << 20) || (v.align & (v.align - 1)) != 0) {
          in_.fail("an alignment that is not a power of two");
        }
      } else if (in_.accept(".v2")) {
        v.vector = 2;
      } else if (in_.accept(".v4")) {
        v.vector = 4;
      } else if (t.text == ".ptr") {
        parse_pointer_attributes();
      } else if (starts_with(t.text, ".attribute")) {
        in_.take();
        in_.expect("(");
        while (!in_.is_end() && !in_.accept(")")) in_.take();
      } else if (const auto type = find_type(t.text); type && t.text[0] == '.') {
        v.type = *type;
        in_.take();
      } else {
        return v;
      }
    }
  }

  void parse_pointer_attributes() {
    in_.take();
    while (in_.accept(".global") || in_.accept(".shared") || in_.accept(".const") ||
           in_.accept(".local")) {
    }
    if (in_.accept(".align")) in_.integer();
  }

  void parse_variables(std::vector<Variable>& out, bool is_extern) {
    const Variable prefix = parse_prefix();
    do {
      Variable v = prefix;
      v.is_extern = is_extern;
      parse_declarator(v);
      out.push_back(std::move(v));
    } while (in_.accept(","));
    in_.expect(";");
  }

  void parse_declarator(Variable& v) {
    v.line = in_.peek().line;
    v.name = in_.word("a name").text;
    bool open = false, first = true;
    while (in_.accept("[")) {
      if (in_.accept("]")) {
        if (!first) in_.fail("only the first dimension may be open");
        open = true;
      } else {
        const uint64_t n = in_.integer();
        if (n > kMaxElements || v.count * n > kMaxElements) in_.fail("an array that large");
        v.count *= n;
        in_.expect("]");
      }
      first = false;
    }
    if (in_.accept("=")) parse_initial(v.initial, 0);
    if (open) v.count = v.initial.size();
  }

  void parse_initial(std::vector<Operand>& out, int depth) {
    if (depth > 8) in_.fail("braces nested that deep");
    if (in_.accept("{")) {
      while (!in_.accept("}")) {
        parse_initial(out, depth + 1);
        if (!in_.accept(",") && in_.peek().text != "}") in_.fail("',' or '}' is wanted");
      }
    } else {
      out.push_back(parse_operand(in_));
    }
  }

  // ---- functions -------------------------------------------------------------------------------

  void parse_function() {
    Function f;
    f.is_entry = in_.take().text == ".entry";
    while (in_.accept(".attribute")) {
      in_.expect("(");
      while (!in_.is_end() && !in_.accept(")")) in_.take();
    }
    if (in_.peek().text == "(") parse_params(f.results);
    f.line = in_.peek().line;
    f.name = in_.word("a function's name").text;
    if (in_.peek().text == "(") parse_params(f.params);
    parse_bounds(f);
    if (!in_.accept(";")) {
      f.has_body = true;
      parse_body(f);
    }
    module_.functions.push_back(std::move(f));
  }

  void parse_params(std::vector<Variable>& out) {
    in_.expect("(");
    if (in_.accept(")")) return;
    do {
      if (in_.peek().text == ".reg") in_.fail("parameters in registers are not supported");
      Variable v = parse_prefix();
      if (in_.peek().kind == TokenKind::kWord) parse_declarator(v);
      v.space = Space::kParam;
      out.push_back(std::move(v));
    } while (in_.accept(","));
    in_.expect(")");
  }

  void parse_triple(uint32_t (&out)[3]) {
    in_.take();
    for (uint32_t& x : out) x = 1;
    for (uint32_t& x : out) {
      x = static_cast<uint32_t>(in_.integer());
      if (!in_.accept(",")) return;
    }
  }

  void parse_bounds(Function& f) {
    while (true) {
      const std::string_view t = in_.peek().text;
      if (t == ".maxntid") {
        parse_triple(f.max_threads);
      } else if (t == ".reqntid") {
        parse_triple(f.need_threads);
      } else if (t == ".reqnctapercluster") {
        parse_triple(f.cluster);
      } else if (t == ".minnctapersm") {
        in_.take();
        f.min_ctas = static_cast<uint32_t>(in_.integer());
      } else if (t == ".maxnctapersm" || t == ".maxclusterrank") {
        in_.take();
        in_.integer();
      } else if (t == ".maxnreg") {
        in_.take();
        f.max_registers = static_cast<uint32_t>(in_.integer());
      } else if (t == ".blocksareclusters") {
        in_.fail(".blocksareclusters is not supported");
      } else if (t == ".explicitcluster" || t == ".noreturn") {
        in_.take();
      } else if (t == ".pragma") {
        skip_to_semicolon();
      } else {
        return;
      }
    }
  }

  // ---- bodies ----------------------------------------------------------------------------------

  void add(Function& f, Statement::Kind kind, uint32_t line, size_t index) {
    f.body.push_back(
        {kind, line, source_file_, source_line_, source_function_, static_cast<uint32_t>(index)});
  }

  void parse_body(Function& f) {
    const uint32_t first = in_.peek().line;
    in_.expect("{");
    source_file_ = source_line_ = source_function_ = 0;
    inlined_at_.clear();
    inlined_.clear();
    size_t depth = 1;
    while (depth > 0) {
      const uint32_t line = in_.peek().line;
      if (in_.is_end()) throw SourceError(first, "a body that does not end");
      if (in_.accept("{")) {
        ++depth;
        add(f, Statement::Kind::kOpen, line, 0);
      } else if (in_.accept("}")) {
        if (--depth > 0) add(f, Statement::Kind::kClose, line, 0);
      } else {
        parse_statement(f);
      }
    }
  }

  void parse_statement(Function& f) {
    const Token& t = in_.peek();
    const uint32_t line = t.line;
    if (in_.accept(";")) return;
    if (t.text == ".loc") return parse_location(f);
    if (t.text == ".pragma") return skip_to_semicolon();
    if (t.text == ".reg") return parse_registers(f);
    if (find_space(t.text)) {
      const size_t first = f.variables.size();
      parse_variables(f.variables, false);
      for (size_t i = first; i < f.variables.size(); ++i) {
        add(f, Statement::Kind::kVariable, line, i);
      }
      return;
    }
    if (t.kind == TokenKind::kWord && in_.peek(1).text == ":") return parse_label(f);
    add(f, Statement::Kind::kInstruction, line, f.instructions.size());
    f.instructions.push_back(parse_instruction());
  }

  void parse_label(Function& f) {
    const Token& name = in_.take();
    in_.take();
    if (in_.accept(".branchtargets")) {
      BranchTable table{name.text, {}};
      do {
        table.labels.push_back(in_.word("a label").text);
      } while (in_.accept(","));
      in_.expect(";");
      f.tables.push_back(std::move(table));
      return;
    }
    if (starts_with(in_.peek().text, ".callprototype"))
      in_.fail("indirect calls are not supported");
    add(f, Statement::Kind::kLabel, name.line, f.labels.size());
    f.labels.push_back(name.text);
  }

  /// .loc file line column [, function_name label+offset, inlined_at file line column]
  void parse_location(Function& f) {
    in_.take();
    const Position here = parse_position();
    source_file_ = here[0];
    source_line_ = here[1];
    std::string_view name;
    source_function_ = 0;
    while (in_.accept(",")) {
      const std::string_view what = in_.take().text;
      if (what == "function_name") {
        name = in_.take().text;
        if (in_.accept("+")) in_.integer();
      } else if (what == "inlined_at") {
        // The call stands at a position which some .loc before has told the function of.
        const auto caller = inlined_at_.find(parse_position());
        const uint32_t parent = caller != inlined_at_.end() ? caller->second : 0;
        source_function_ = inlined(f, parent, name);
      } else {
        in_.fail("function_name or inlined_at is wanted");
      }
    }
    inlined_at_[here] = source_function_;
  }

  Position parse_position() {
    Position p{};
    for (uint32_t& x : p) x = static_cast<uint32_t>(in_.integer());
    return p;
  }

  /// The function of that name within another one.
  uint32_t inlined(Function& f, uint32_t parent, std::string_view name) {
    const auto next = static_cast<uint32_t>(f.inlined.size());
    const auto [it, is_new] = inlined_.try_emplace({parent, name}, next);
    if (is_new) f.inlined.push_back({parent, name});
    return it->second;
  }

  void parse_registers(Function& f) {
    const uint32_t line = in_.take().line;
    const Token& t = in_.take();
    const auto type = find_type(t.text);
    if (!type) throw SourceError(t.line, "a register type is wanted, not " + quoted(t));
    do {
      RegisterDeclaration r;
      r.type = *type;
      r.name = in_.word("a register's name").text;
      if (in_.accept("<")) {
        const uint64_t count = in_.integer();
        if (count == 0 || count > (1u << 24)) in_.fail("that many registers");
        r.count = static_cast<uint32_t>(count);
        in_.expect(">");
      }
      add(f, Statement::Kind::kRegister, line, f.registers.size());
      f.registers.push_back(r);
    } while (in_.accept(","));
    in_.expect(";");
  }

  Instruction parse_instruction() {
    Instruction i;
    if (in_.accept("@")) {
      i.guard_negated = in_.accept("!");
      i.guard = in_.word("a guard predicate").text;
    }
    i.opcode = in_.word("an instruction").text;
    while (!in_.accept(";")) {
      if (!i.operands.empty() && !in_.accept(",")) in_.fail("',' or ';' is wanted");
      i.operands.push_back(parse_operand(in_));
    }
    return i;
  }

  std::vector<Token> tokens_;
  TokenStream in_{tokens_};
  Module module_;
  uint32_t source_file_ = 0;
  uint32_t source_line_ = 0;
  uint32_t source_function_ = 0;
  std::map<Position, uint32_t> inlined_at_;  ///< The function that a position was last told of.
  std::map<std::pair<uint32_t, std::string_view>, uint32_t> inlined_;  ///< By parent and name.
};

}  // namespace

Module parse(std::string_view source) { return Parser(source).run(); }

}  // namespace fa4::emulator::ptx
