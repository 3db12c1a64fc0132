// SPDX-License-Identifier: BSD-3-Clause
// Statements, scopes, variables and jumps.
#include "emulator/decode/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/exec/tcgen05.h"
#include "emulator/memory.h"
#include "emulator/ptx/parser.h"

namespace fa4::emulator::decode {
namespace {

constexpr uint64_t kMaxModuleBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxLocalBytes = 512 * 1024;
constexpr uint64_t kMaxSharedBytes = 256 * 1024;
constexpr uint64_t kMaxParamBytes = 32764;
constexpr size_t kMaxRegisters = size_t{1} << 22;
/// Of a kernel, and of a module's kernels together. Tables of branches and calls can make a small
/// text large.
constexpr size_t kMaxInstructions = size_t{1} << 20;
constexpr size_t kMaxModuleInstructions = size_t{1} << 22;
constexpr size_t kMaxText = size_t{1} << 27;
/// Instructions times registers: beyond, every register has a place of its own, which costs memory
/// in proportion to the registers instead of to their square.
constexpr size_t kMaxLiveness = size_t{1} << 31;

uint64_t align_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

[[noreturn]] void fail_at(uint32_t line, const std::string& what) {
  throw ptx::SourceError(line, what);
}

std::byte* allocate(ModuleData& data, const ptx::Variable& v) {
  if (v.bytes() > kMaxModuleBytes) {
    fail_at(v.line, std::string(v.name) + " has " + std::to_string(v.bytes()) + " bytes");
  }
  const uint64_t align = std::max(v.alignment(), 16u);
  data.storage.push_back(std::make_unique<std::byte[]>(v.bytes() + align));
  const auto raw = reinterpret_cast<uint64_t>(data.storage.back().get());
  return reinterpret_cast<std::byte*>(align_up(raw, align));
}

void store_element(std::byte* at, Type type, const Operand& o,
                   const std::unordered_map<std::string_view, std::byte*>& places, uint32_t line) {
  uint64_t bits = o.bits;
  if (ptx::size_of(type) > sizeof bits || type == Type::kPred) {
    fail_at(line, "initial values of a variable of ." + std::string(ptx::name_of(type)));
  }
  if (o.kind == Operand::Kind::kFloat) {
    const double x = o.single ? std::bit_cast<float>(static_cast<uint32_t>(o.bits))
                              : std::bit_cast<double>(o.bits);
    bits = type == Type::kF64 ? std::bit_cast<uint64_t>(x)
                              : std::bit_cast<uint32_t>(static_cast<float>(x));
  } else if (o.kind == Operand::Kind::kName) {
    const auto it = places.find(o.name);
    if (it == places.end() || ptx::size_of(type) != 8) {
      fail_at(line, "an initial value that is not a number: " + std::string(o.name));
    }
    bits = reinterpret_cast<uint64_t>(it->second) + static_cast<uint64_t>(o.offset);
  }
  std::memcpy(at, &bits, ptx::size_of(type));
}

/// "_ZN3fa44sm907consumeI...": consume. What is not mangled so stays as it is.
std::string source_name(std::string_view mangled) {
  std::string_view rest = mangled, name;
  if (rest.substr(0, 2) != "_Z") return std::string(mangled);
  rest.remove_prefix(rest.substr(0, 3) == "_ZN" ? 3 : 2);
  while (!rest.empty() && rest[0] >= '1' && rest[0] <= '9') {
    size_t length = 0;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9' && length < mangled.size()) {
      length = 10 * length + static_cast<size_t>(rest[0] - '0');
      rest.remove_prefix(1);
    }
    name = rest.substr(0, length);
    rest.remove_prefix(name.size());
  }
  return std::string(name.empty() ? mangled : name);
}

/// Registers that a thread has at launch. The assembler gives a kernel with setmaxnreg as many as
/// its bounds allow; without bounds it ignores the instruction.
uint32_t registers_at_launch(const ptx::Function& f, uint32_t max_threads) {
  constexpr uint32_t kOfMultiprocessor = 65536, kMost = 256, kUnit = 8;
  if (f.max_registers != 0) return std::min(f.max_registers, kMost);
  if (max_threads == 0) return 0;
  const uint64_t threads = align_up(max_threads, kLanes) * std::max(f.min_ctas, 1u);
  return std::min(static_cast<uint32_t>(kOfMultiprocessor / threads / kUnit * kUnit), kMost);
}

std::vector<SourceFunction> functions_of(const ptx::Module& module, const ptx::Function& f) {
  std::vector<SourceFunction> all;
  for (const ptx::InlinedFunction& i : f.inlined) {
    const auto text = module.strings.find(i.name_label);
    const std::string_view name =
        text != module.strings.end() ? std::string_view(text->second) : i.name_label;
    all.push_back({source_name(name), i.parent});
  }
  all.front().name = source_name(f.name);
  return all;
}

std::shared_ptr<ModuleData> make_data(const ptx::Module& module) {
  auto data = std::make_shared<ModuleData>();
  std::unordered_map<std::string_view, std::byte*> places;
  uint64_t total = 0;
  for (const ptx::Variable& v : module.variables) {
    if (v.space != Space::kGlobal && v.space != Space::kConst) continue;
    std::byte* at = allocate(*data, v);
    total += v.bytes();
    if (total > kMaxModuleBytes) fail_at(v.line, "variables of more than 1 GiB");
    if (v.initial.size() > v.count * v.vector) fail_at(v.line, "more values than elements");
    const uint64_t step = ptx::size_of(v.type);
    for (size_t i = 0; i < v.initial.size(); ++i) {
      store_element(at + i * step, v.type, v.initial[i], places, v.line);
    }
    places.emplace(v.name, at);
    data->variables.push_back(
        {std::string(v.name), at, static_cast<size_t>(v.bytes()), v.space == Space::kConst});
  }
  return data;
}

}  // namespace

std::shared_ptr<const Program> decode(const std::shared_ptr<const std::string>& source) {
  if (source->size() > kMaxText) {
    fail_at(1, "the text has " + std::to_string(source->size()) +
                   " bytes; allowed: " + std::to_string(kMaxText));
  }
  const ptx::Module module = ptx::parse(*source);
  size_t instructions = 0;
  auto program = std::make_shared<Program>();
  program->source = source;
  program->data = make_data(module);
  std::vector<std::string> files;
  for (const ptx::SourceName& f : module.files) {
    if (f.index >= 4096) continue;
    if (files.size() <= f.index) files.resize(f.index + 1);
    files[f.index] = std::string(f.name);
  }
  for (const ptx::Function& f : module.functions) {
    if (!f.is_entry || !f.has_body) continue;
    auto kernel = std::make_shared<Kernel>();
    kernel->name = std::string(f.name);
    kernel->target = module.target;
    kernel->source = source;
    kernel->data = program->data;
    kernel->files = files;
    kernel->functions = functions_of(module, f);
    Decoder(module, f, *kernel).run();
    instructions += kernel->code.size();
    if (instructions > kMaxModuleInstructions) fail_at(f.line, "kernels that large");
    program->kernels.push_back(std::move(kernel));
  }
  return program;
}

Decoder::Decoder(const ptx::Module& module, const ptx::Function& function, Kernel& kernel)
    : module_(module), function_(&function), kernel_(kernel), scopes_(1) {}

void Decoder::run() {
  declare_params();
  for (const ptx::Statement& s : function_->body) decode_statement(s);
  // Control may fall off the end.
  static const ptx::Instruction implicit_return{{}, false, "ret", {}};
  decode_instruction(implicit_return);
  resolve_jumps();
  const auto product = [](const uint32_t(&x)[3]) { return uint64_t{x[0]} * x[1] * x[2]; };
  const uint64_t bound =
      std::max(product(function_->max_threads), product(function_->need_threads));
  kernel_.max_threads = static_cast<uint32_t>(std::min<uint64_t>(bound, 1024));
  kernel_.registers = registers_at_launch(*function_, kernel_.max_threads);
  for (size_t i = 0; i < 3; ++i) {
    kernel_.cluster[i] = function_->cluster[i];
    kernel_.need_threads[i] = function_->need_threads[i];
  }
  check_registers();
  registers_.place(kernel_, kernel_.code.size() * registers_.size() < kMaxLiveness);
  exec::watch_tensor_loads(kernel_);
}

void Decoder::declare_params() {
  uint64_t at = 0;
  for (const ptx::Variable& v : function_->params) {
    at = align_up(at, v.alignment());
    scopes_[0].symbols[v.name] = {Space::kParam, at, false};
    if (v.bytes() > kMaxParamBytes || at + v.bytes() > kMaxParamBytes) {
      fail_at(v.line, "more than " + std::to_string(kMaxParamBytes) + " bytes of parameters");
    }
    kernel_.params.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(v.bytes())});
    at += v.bytes();
  }
  kernel_.param_bytes = static_cast<uint32_t>(at);
}

/// A variable of the function, or one of the module that it names for the first time.
void Decoder::declare_local(const ptx::Variable& v) {
  Symbol symbol{v.space};
  // What a function is called with lies in the thread's local memory, for as long as the scope.
  if (v.space == Space::kParam) {
    symbol.space = Space::kLocal;
  } else if (v.space == Space::kLocal) {
    scopes_[scope_].keeps_local = true;
  }
  if (symbol.space == Space::kLocal) {
    symbol.value = align_up(local_top_, std::max(v.alignment(), 1u));
    if (v.bytes() > kMaxLocalBytes || symbol.value + v.bytes() > kMaxLocalBytes) {
      fail_at(v.line, "more than 512 KiB of local memory a thread");
    }
    local_top_ = static_cast<uint32_t>(align_up(symbol.value + v.bytes(), 16));
    kernel_.local_bytes = std::max(kernel_.local_bytes, local_top_);
  } else if (v.space == Space::kShared) {
    symbol.value = align_up(kernel_.static_shared_end, std::max(v.alignment(), 1u));
    if (v.bytes() > kMaxSharedBytes || symbol.value + v.bytes() > kMaxSharedBytes) {
      fail_at(v.line, "more than 256 KiB of shared memory");
    }
    kernel_.static_shared_end = static_cast<uint32_t>(symbol.value + v.bytes());
  } else {
    fail_at(v.line, "a variable of that state space in a function");
  }
  scopes_[scope_].symbols[v.name] = symbol;
}

void Decoder::check_registers() const {
  if (registers_.size() <= kMaxRegisters) return;
  fail_at(function_->line, "more than " + std::to_string(kMaxRegisters) + " registers");
}

void Decoder::declare_register(const ptx::RegisterDeclaration& r) {
  check_registers();
  if (r.count > 0) {
    scopes_[scope_].families[r.name] = r;
  } else {
    scopes_[scope_].registers[r.name] = registers_.add(r.type);
  }
}

void Decoder::decode_statement(const ptx::Statement& s) {
  statement_ = s;
  switch (s.kind) {
    case ptx::Statement::Kind::kOpen:
      open_scope(true);
      break;
    case ptx::Statement::Kind::kClose:
      close_scope();
      break;
    case ptx::Statement::Kind::kRegister:
      declare_register(function_->registers[s.index]);
      break;
    case ptx::Statement::Kind::kVariable:
      declare_local(function_->variables[s.index]);
      break;
    case ptx::Statement::Kind::kLabel: {
      const std::string_view label = function_->labels[s.index];
      const auto pc = static_cast<uint32_t>(kernel_.code.size());
      if (!scopes_[scope_].labels.emplace(label, pc).second) {
        fail_at(s.line, "label " + std::string(label) + " stands twice");
      }
      break;
    }
    case ptx::Statement::Kind::kInstruction:
      decode_instruction(function_->instructions[s.index]);
      break;
  }
}

void Decoder::decode_instruction(const ptx::Instruction& i) {
  source_ = &i;
  inst = {};
  inst.list = static_cast<uint32_t>(kernel_.lists.size());
  pending_.clear();
  mods = Modifiers(i.opcode);
  read_guard();
  const DecodeFunction decode_one = find_opcode(mods.base());
  if (decode_one == nullptr) fail("is not an instruction that the emulator knows");
  decode_one(*this);
  if (!mods.rest().empty()) fail("modifier ." + std::string(mods.rest().front()) + " is not known");
}

void Decoder::read_guard() {
  if (source_->guard.empty()) return;
  Operand guard;
  guard.name = source_->guard;
  guard.negated = source_->guard_negated;
  read_predicate(&Inst::guard, guard);
}

void Decoder::emit(Handler handler, Class kind, uint8_t flags) {
  if (handler == nullptr) fail("this form is not known");
  inst.run = handler;
  inst.kind = kind;
  inst.flags = flags;
  const auto pc = static_cast<uint32_t>(kernel_.code.size());
  if (pc >= kMaxInstructions) {
    fail("more than " + std::to_string(kMaxInstructions) +
         " instructions, calls and tables of branches written out");
  }
  for (RegisterRef& r : pending_) {
    r.pc = pc;
    registers_.refs().push_back(r);
  }
  kernel_.code.push_back(inst);
  // What a called function does is its caller's.
  if (calls_.empty()) source_function_ = statement_.source_function;
  kernel_.sites.push_back({statement_.line, statement_.source_file, statement_.source_line,
                           source_function_, source_->opcode});
}

void Decoder::branch_to(const Operand& label) {
  if (label.kind != Operand::Kind::kName) fail("a label is wanted");
  branch_to(label.name);
}

void Decoder::branch_to(std::string_view label) {
  jumps_.push_back({static_cast<uint32_t>(kernel_.code.size()), scope_, statement_.line, label});
}

void Decoder::open_scope(bool sees_outer) {
  Scope scope;
  const auto number = static_cast<uint32_t>(scopes_.size());
  scope.parent = sees_outer ? scope_ : number;
  scope.local_top = local_top_;
  scopes_.push_back(std::move(scope));
  scope_ = number;
}

void Decoder::close_scope() {
  const Scope& scope = scopes_[scope_];
  if (scope.keeps_local) {
    scopes_[scope.parent].keeps_local = true;
  } else {
    local_top_ = scope.local_top;
  }
  scope_ = scope.parent;
}

void Decoder::resolve_jumps() {
  for (const Jump& j : jumps_) {
    std::optional<uint32_t> target;
    for (uint32_t s = j.scope;; s = scopes_[s].parent) {
      const auto it = scopes_[s].labels.find(j.label);
      if (it != scopes_[s].labels.end()) target = it->second;
      if (target || s == scopes_[s].parent) break;
    }
    if (!target) fail_at(j.line, "label " + std::string(j.label) + " is not declared");
    kernel_.code[j.pc].target = *target;
  }
}

void Decoder::fail(const std::string& what) const {
  fail_at(statement_.line, std::string(source_->opcode) + ": " + what);
}

Type Decoder::take_type() {
  const auto type = mods.take_type();
  if (!type) fail("a type is wanted");
  return *type;
}

bool Decoder::take_high() {
  const int part = mods.take_one({"lo", "hi"});
  if (part < 0) fail(".lo or .hi is wanted");
  return part == 1;
}

std::optional<Symbol> Decoder::find_symbol(std::string_view name) {
  for (uint32_t s = scope_;; s = scopes_[s].parent) {
    const auto it = scopes_[s].symbols.find(name);
    if (it != scopes_[s].symbols.end()) return it->second;
    if (s == scopes_[s].parent) break;
  }
  if (const auto it = module_symbols_.find(name); it != module_symbols_.end()) return it->second;
  for (const ModuleData::Variable& v : kernel_.data->variables) {
    if (v.name != name) continue;
    const Symbol symbol{v.constant ? Space::kConst : Space::kGlobal,
                        reinterpret_cast<uint64_t>(v.data), false};
    module_symbols_.emplace(name, symbol);
    return symbol;
  }
  for (const ptx::Variable& v : module_.variables) {
    if (v.name != name || v.space != Space::kShared) continue;
    const uint32_t at = scope_;
    scope_ = 0;
    if (v.is_extern) {
      // All of them begin where the static ones end: resolved when that is known.
      kernel_.dynamic_align = std::max(kernel_.dynamic_align, v.alignment());
      module_symbols_[v.name] = {Space::kShared, 0, true};
    } else {
      declare_local(v);
      module_symbols_[v.name] = scopes_[0].symbols[v.name];
    }
    scope_ = at;
    return module_symbols_[v.name];
  }
  return std::nullopt;
}

}  // namespace fa4::emulator::decode
