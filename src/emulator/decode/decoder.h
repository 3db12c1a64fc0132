// SPDX-License-Identifier: BSD-3-Clause
// From the syntax tree to a decoded kernel. The decoder resolves names, registers and constants;
// what each instruction means is in decode_*.cpp, one function an opcode, found by table.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/decode/modifiers.h"
#include "emulator/decode/registers.h"
#include "emulator/program.h"
#include "emulator/ptx/ast.h"
#include "emulator/ptx/lexer.h"

namespace fa4::emulator::decode {

using ptx::Operand;

/// Decodes every kernel of a module. Throws ptx::SourceError.
std::shared_ptr<const Program> decode(const std::shared_ptr<const std::string>& source);

/// A variable as instructions see it.
struct Symbol {
  Space space = Space::kGlobal;
  uint64_t value = 0;    ///< Global: host address; shared, local, param: offset.
  bool dynamic = false;  ///< Dynamic shared memory: the offset counts from its start.
};

/// Decodes one kernel. The functions below "the instruction at hand" are what decode_*.cpp uses.
class Decoder {
 public:
  Decoder(const ptx::Module& module, const ptx::Function& function, Kernel& kernel);
  void run();

  // ---- the instruction at hand -----------------------------------------------------------------

  Modifiers mods;
  Inst inst;

  size_t operand_count() const { return source_->operands.size(); }
  const Operand& operand(size_t i) const;
  void want_operands(size_t low, size_t high);
  void want_operands(size_t n) { want_operands(n, n); }
  [[noreturn]] void fail(const std::string& what) const;
  /// Takes the first modifier that is a type, which must be there.
  Type take_type();
  /// Takes .lo or .hi, one of which must be there. True for .hi.
  bool take_high();

  using Field = uint32_t Inst::*;
  /// Operand as source or result of the type; its register must have the type's size, constants
  /// are converted. `loose`: a register may be wider (ld, st, cvt). Returns the register's bytes.
  uint32_t read(Field field, const Operand& o, Type type, bool loose = false);
  uint32_t write(Field field, const Operand& o, Type type, bool loose = false);
  /// Both read and written.
  void update(Field field, const Operand& o, Type type);
  /// Appends the operands of a vector to the instruction's list, in order.
  void read_list(const Operand& vector, Type type, bool loose = false);
  void write_list(const Operand& vector, Type type, bool loose = false);
  void update_list(const Operand& vector, Type type);
  /// Predicates, as PredicateRef. A sink gives kNone.
  void read_predicate(Field field, const Operand& o);
  void write_predicate(Field field, const Operand& o);
  bool is_predicate(const Operand& o) const;
  /// An address: base register to `field`, offset to inst.imm. mod[kAddressBytes] becomes the
  /// base's size, 4 or 8. `space` is what the instruction says; a generic address of a variable
  /// gets its window.
  void address(Field field, const Operand& o, Space space);
  /// A whole number known now.
  int64_t immediate(const Operand& o, int64_t low, int64_t high) const;
  bool is_immediate(const Operand& o) const { return o.kind == Operand::Kind::kInteger; }
  /// A register that holds a constant.
  void constant(Field field, uint64_t value, uint8_t bytes);
  /// A register's declared type, if it is one.
  std::optional<Type> declared(const Operand& o) const;
  /// A special register's preset, if the operand names one.
  bool is_special(const Operand& o) const {
    return !o.name.empty() && o.name[0] == '%' && !declared(o);
  }
  void branch_to(const Operand& label);
  void branch_to(std::string_view label);
  /// `ret`: leaves the function that is being inlined. False if there is none: the kernel's end.
  bool return_from_call();
  /// `call`: the function's body, written out here. Decoder_calls.cpp.
  void call();
  /// The state space of an address given by a name: a parameter of a call lies in local memory.
  Space param_space(const Operand& address);
  /// Predicates that the text does not name: a new one, and the carry of .cc instructions.
  uint32_t temporary_predicate() { return registers_.add(Type::kPred); }
  uint32_t temporary(Type type) { return registers_.add(type); }
  uint32_t carry();
  void use_predicate(Field field, uint32_t predicate, bool is_write);
  void use_temporary(Field field, uint32_t reg, bool is_write) { note(field, reg, is_write); }
  /// One source instruction becomes several: forgets all of the last one but the guard.
  void next_part(bool guarded = true);
  /// Adds the instruction; one source instruction may become several.
  void emit(Handler handler, Class kind, uint8_t flags = 0);

  const ptx::Function& function() const { return *function_; }

 private:
  struct Scope {
    uint32_t parent = 0;
    std::unordered_map<std::string_view, uint32_t> registers;  ///< To virtual registers.
    std::unordered_map<std::string_view, ptx::RegisterDeclaration> families;  ///< %r<10>, by "%r".
    std::unordered_map<std::string_view, Symbol> symbols;
    std::unordered_map<std::string_view, uint32_t> labels;
    uint32_t local_top = 0;    ///< Local memory in use when it opened,
    bool keeps_local = false;  ///< or more, for variables whose address may be known outside.
  };
  /// A function that is being inlined.
  struct Call {
    const ptx::Function* function;
    std::vector<uint32_t> returns;  ///< Instructions that go to its end.
  };
  struct Jump {
    uint32_t pc;
    uint32_t scope;
    uint32_t line;
    std::string_view label;
  };

  void call_external(std::string_view name, const Operand* results, const Operand* arguments);
  void inline_body(const ptx::Function& f, const Operand* results, const Operand* arguments);
  Symbol argument_symbol(const Operand& o);
  void read_guard();
  void open_scope(bool sees_outer);
  void close_scope();
  void check_registers() const;
  void declare_params();
  void declare_local(const ptx::Variable& v);
  void declare_register(const ptx::RegisterDeclaration& r);
  void decode_statement(const ptx::Statement& s);
  void decode_instruction(const ptx::Instruction& i);
  void resolve_jumps();
  std::optional<uint32_t> find_register(std::string_view name);
  std::optional<uint32_t> find_special(std::string_view name);
  std::optional<Symbol> find_symbol(std::string_view name);
  uint32_t reader(const Operand& o, Type type, bool loose);
  uint32_t writer(const Operand& o, Type type, bool loose);
  uint32_t symbol_register(const Symbol& s, int64_t offset, uint8_t bytes, bool generic);
  uint64_t constant_bits(const Operand& o, Type type) const;
  void check_size(uint32_t reg, Type type, bool loose, const Operand& o) const;
  void note(Field field, uint32_t reg, bool is_write);
  void note_list(uint32_t reg, bool is_write, bool is_read);
  PredicateRef predicate(const Operand& o);

  const ptx::Module& module_;
  const ptx::Function* function_;  ///< The kernel's, or the one that is being inlined.
  Kernel& kernel_;
  RegisterTable registers_;
  std::vector<Scope> scopes_;
  uint32_t scope_ = 0;
  std::vector<Jump> jumps_;
  std::vector<Call> calls_;
  size_t written_out_ = 0;  ///< Statements of functions, at all their calls.
  uint32_t local_top_ = 0;
  uint32_t carry_ = kNone;
  uint32_t source_function_ = 0;
  std::unordered_map<std::string_view, Symbol> module_symbols_;  ///< Those used so far.

  const ptx::Instruction* source_ = nullptr;
  ptx::Statement statement_;
  std::vector<RegisterRef> pending_;  ///< Of the instruction at hand.
};

/// Index of the address register's size in Inst::mod, for instructions that have an address.
constexpr size_t kAddressBytes = 15;

using DecodeFunction = void (*)(Decoder&);
/// The function for an opcode's first word, or null. Each family has a table of its own.
struct OpcodeEntry {
  std::string_view name;
  DecodeFunction decode;
};
DecodeFunction find_opcode(std::string_view name);

}  // namespace fa4::emulator::decode
