// SPDX-License-Identifier: BSD-3-Clause
// A PTX module as it is written: names not yet resolved, opcodes not yet understood. Names point
// into the source text, which must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/types.h"

namespace fa4::emulator::ptx {

struct Operand {
  enum class Kind : uint8_t {
    kName,     ///< Register, variable, label or function, with `offset` for variables.
    kInteger,  ///< `bits`
    kFloat,    ///< `bits`: a float's image if `single`, else a double's.
    kAddress,  ///< [name + offset], or [bits]; `parts` holds what follows: [map, {c0, c1}].
    kVector,   ///< {a, b}
    kPair,     ///< a|b
    kList,     ///< (a, b): of a call
    kSink,     ///< _
  };
  Kind kind = Kind::kName;
  bool negated = false;  ///< !p
  bool single = false;
  std::string_view name;
  uint64_t bits = 0;
  int64_t offset = 0;
  std::vector<Operand> parts;
};

struct Instruction {
  std::string_view guard;  ///< Empty if there is none.
  bool guard_negated = false;
  std::string_view opcode;
  std::vector<Operand> operands;
};

/// A variable or a parameter.
struct Variable {
  Space space = Space::kGeneric;
  Type type = Type::kB8;
  std::string_view name;
  bool is_extern = false;
  uint32_t vector = 1;
  uint32_t align = 0;  ///< 0: that of the type.
  uint64_t count = 1;  ///< Elements; 0 for an array whose size is not given.
  /// Initial values in order, elements not named are 0. A value may be the address of a variable.
  std::vector<Operand> initial;
  uint32_t line = 0;

  uint64_t bytes() const { return count * vector * size_of(type); }
  uint32_t alignment() const { return align != 0 ? align : vector * size_of(type); }
};

struct RegisterDeclaration {
  Type type = Type::kB32;
  std::string_view name;  ///< A prefix if `count` is not 0.
  uint32_t count = 0;
};

/// name: .branchtargets a, b, c;
struct BranchTable {
  std::string_view name;
  std::vector<std::string_view> labels;
};

struct Statement {
  enum class Kind : uint8_t { kInstruction, kLabel, kRegister, kVariable, kOpen, kClose };
  Kind kind = Kind::kInstruction;
  uint32_t line = 0;         ///< Of the PTX text.
  uint32_t source_file = 0;  ///< From .loc, 0 if there is none.
  uint32_t source_line = 0;
  uint32_t source_function = 0;  ///< Index in the function's `inlined`.
  uint32_t index = 0;            ///< In the function's list of this kind; a label's in `labels`.
};

/// A source function that the compiler has written out where it is called.
struct InlinedFunction {
  uint32_t parent = 0;          ///< Index of the one that calls it: lower than its own.
  std::string_view name_label;  ///< Of its name in Module::strings.
};

struct Function {
  bool is_entry = false;
  bool has_body = false;
  std::string_view name;
  uint32_t line = 0;
  std::vector<Variable> results;
  std::vector<Variable> params;
  uint32_t max_threads[3] = {0, 0, 0};   ///< .maxntid, 0 if not given.
  uint32_t need_threads[3] = {0, 0, 0};  ///< .reqntid
  uint32_t cluster[3] = {0, 0, 0};       ///< .reqnctapercluster
  uint32_t max_registers = 0;
  uint32_t min_ctas = 0;  ///< .minnctapersm

  std::vector<Statement> body;
  std::vector<Instruction> instructions;
  std::vector<std::string_view> labels;
  std::vector<BranchTable> tables;
  std::vector<RegisterDeclaration> registers;
  std::vector<Variable> variables;
  std::vector<InlinedFunction> inlined{1};  ///< The first is the function itself.
};

struct SourceName {
  uint32_t index = 0;
  std::string_view name;
};

struct Module {
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::string target;  ///< "sm_90a"
  std::vector<SourceName> files;
  std::map<std::string_view, std::string> strings;  ///< Of .debug_str, by label.
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

}  // namespace fa4::emulator::ptx
