// SPDX-License-Identifier: BSD-3-Clause
// Calls, PTX ISA 9.7.12.5: there is no stack. A function's body is written out at each call of it,
// in a scope of its own; what .param variables hold lies in local memory, under the caller's name
// and the callee's.
#include <algorithm>

#include "emulator/decode/decoder.h"
#include "emulator/exec/warp_handlers.h"

namespace fa4::emulator::decode {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxStatements = size_t{1} << 20;

}  // namespace

uint32_t Decoder::carry() {
  if (carry_ == kNone) carry_ = temporary_predicate();
  return carry_;
}

void Decoder::use_predicate(Field field, uint32_t predicate, bool is_write) {
  note(field, predicate, is_write);
  inst.*field = 0;
}

void Decoder::next_part(bool guarded) {
  inst = {};
  inst.list = static_cast<uint32_t>(kernel_.lists.size());
  pending_.clear();
  if (guarded) read_guard();
}

Space Decoder::param_space(const Operand& address) {
  if (address.kind != Operand::Kind::kAddress || address.name.empty()) return Space::kParam;
  const auto symbol = find_symbol(address.name);
  return symbol && symbol->space == Space::kLocal ? Space::kLocal : Space::kParam;
}

bool Decoder::return_from_call() {
  if (calls_.empty()) return false;
  calls_.back().returns.push_back(static_cast<uint32_t>(kernel_.code.size()));
  return true;
}

Symbol Decoder::argument_symbol(const Operand& o) {
  if (o.kind != Operand::Kind::kName || o.offset != 0)
    fail("arguments that are no .param variables");
  const auto symbol = find_symbol(o.name);
  if (!symbol || symbol->space != Space::kLocal) {
    fail(std::string(o.name) + ": arguments that are no .param variables are not supported");
  }
  return *symbol;
}

/// call {(results),} function {, (arguments)}
void Decoder::call() {
  want_operands(1, 3);
  size_t at = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (operand(0).kind == Operand::Kind::kList) results = &operand(at++);
  const Operand& name = operand(at++);
  if (name.kind != Operand::Kind::kName || declared(name)) fail("indirect calls are not supported");
  if (at < operand_count()) arguments = &operand(at++);
  if (at < operand_count() || (arguments != nullptr && arguments->kind != Operand::Kind::kList)) {
    fail("indirect calls are not supported");
  }
  const ptx::Function* callee = nullptr;
  for (const ptx::Function& f : module_.functions) {
    if (f.name == name.name && !f.is_entry && (callee == nullptr || f.has_body)) callee = &f;
  }
  if (callee == nullptr) fail(std::string(name.name) + " is not declared as a function");

  // Lanes whose guard does not hold go around.
  uint32_t around = kNone;
  if (inst.guard != kNone) {
    inst.guard ^= 1;
    around = static_cast<uint32_t>(kernel_.code.size());
    emit(exec::warp_handler(exec::WarpOp::kBranch), Class::kControl, kBranch);
  }
  if (callee->has_body) {
    inline_body(*callee, results, arguments);
  } else {
    call_external(name.name, results, arguments);
  }
  if (around != kNone) kernel_.code[around].target = static_cast<uint32_t>(kernel_.code.size());
}

void Decoder::inline_body(const ptx::Function& f, const Operand* results,
                          const Operand* arguments) {
  const bool again =
      std::any_of(calls_.begin(), calls_.end(), [&](const Call& c) { return c.function == &f; });
  if (again) fail(std::string(f.name) + ": recursive calls are not supported");
  if (calls_.size() >= kMaxDepth) fail("calls nested that deep");
  const size_t results_given = results != nullptr ? results->parts.size() : 0;
  const size_t given = arguments != nullptr ? arguments->parts.size() : 0;
  if (results_given != f.results.size() || given != f.params.size()) {
    fail(std::string(f.name) + " has " + std::to_string(f.params.size()) + " arguments and " +
         std::to_string(f.results.size()) + " results; " + std::to_string(given) + " and " +
         std::to_string(results_given) + " are given");
  }
  std::vector<std::pair<std::string_view, Symbol>> symbols;
  for (size_t i = 0; i < given; ++i) {
    symbols.emplace_back(f.params[i].name, argument_symbol(arguments->parts[i]));
  }
  for (size_t i = 0; i < results_given; ++i) {
    symbols.emplace_back(f.results[i].name, argument_symbol(results->parts[i]));
  }
  const uint32_t caller_scope = scope_;
  const ptx::Function* caller = function_;
  const ptx::Instruction* source = source_;
  const ptx::Statement statement = statement_;
  open_scope(false);
  const uint32_t scope = scope_;
  for (const auto& [name, symbol] : symbols) scopes_[scope].symbols[name] = symbol;
  function_ = &f;
  calls_.push_back({&f, {}});
  for (const ptx::Statement& s : f.body) {
    if (++written_out_ > kMaxStatements) fail("calls make the kernel too large");
    decode_statement(s);
  }
  const auto end = static_cast<uint32_t>(kernel_.code.size());
  for (const uint32_t pc : calls_.back().returns) kernel_.code[pc].target = end;
  calls_.pop_back();
  function_ = caller;
  source_ = source;
  statement_ = statement;
  if (!scopes_[scope].keeps_local) local_top_ = scopes_[scope].local_top;
  scope_ = caller_scope;
  next_part(false);
}

/// What a module only declares is the driver's to bring: printing, assertions, allocation.
void Decoder::call_external(std::string_view name, const Operand* results,
                            const Operand* arguments) {
  next_part(false);
  const bool assertion = name == "__assertfail" || name == "__assert_fail";
  if (assertion && arguments != nullptr && arguments->parts.size() >= 3) {
    inst.a = static_cast<uint32_t>(argument_symbol(arguments->parts[0]).value);
    inst.b = static_cast<uint32_t>(argument_symbol(arguments->parts[1]).value);
    inst.c = static_cast<uint32_t>(argument_symbol(arguments->parts[2]).value);
    return emit(exec::warp_handler(exec::WarpOp::kAssertionFailed), Class::kControl, kEnds);
  }
  if (name == "vprintf" && arguments != nullptr && arguments->parts.size() == 2) {
    inst.a = kNone;
    inst.b = static_cast<uint32_t>(argument_symbol(arguments->parts[0]).value);
    inst.c = static_cast<uint32_t>(argument_symbol(arguments->parts[1]).value);
    if (results != nullptr && !results->parts.empty()) {
      inst.a = static_cast<uint32_t>(argument_symbol(results->parts[0]).value);
    }
    return emit(exec::warp_handler(exec::WarpOp::kPrint), Class::kControl);
  }
  inst.imm = static_cast<int64_t>(kernel_.externals.size());
  kernel_.externals.emplace_back(name);
  emit(exec::warp_handler(exec::WarpOp::kExternal), Class::kControl, kEnds);
}

}  // namespace fa4::emulator::decode
