// SPDX-License-Identifier: BSD-3-Clause
// A kernel as the machine runs it: dense instructions whose operands are places in a warp's
// register file.
//
// A register of 32 lanes is an array of 32 words, 32 or 64 bits wide (16-bit registers lie in
// 32-bit words, upper half zero; .b128 in two 64-bit arrays). An operand is its byte offset in the
// warp's register file. Constants, special registers and the addresses of variables are registers
// too: `presets` says what they hold when a warp starts. Predicates are 32-bit masks in a file of
// their own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/types.h"

namespace fa4::emulator {

using ptx::Space;
using ptx::Type;

struct Inst;
struct Warp;

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffff;
constexpr uint32_t kNone = 0xffffffff;

/// What a handler did with the instruction.
enum class Step : uint8_t {
  kNext,   ///< Done; the next instruction follows.
  kJump,   ///< Done; the handler has set warp.pc.
  kBlock,  ///< Not done: warp.wait says for what it waits. Run again when that may have come.
  kYield,  ///< As kNext, but another warp should run now.
};

/// Runs one instruction for the lanes of `mask`, which is never 0. Throws Fault.
using Handler = Step (*)(Warp& warp, const Inst& inst, uint32_t mask);

/// What an instruction is counted as.
enum class Class : uint8_t {
  kMove,
  kInteger,
  kFloat,
  kSpecial,
  kConvert,
  kPredicate,  ///< The last that is_arithmetic().
  kControl,
  kParam,
  kGlobal,
  kShared,
  kLocal,
  kAtomic,
  kWarp,
  kBarrier,
  kCopy,
  kMatrix,
  kTensor,
  kOther,
};
constexpr int kClasses = static_cast<int>(Class::kOther) + 1;
const char* name_of(Class c);
/// Instructions that touch nothing but registers.
constexpr bool is_arithmetic(Class c) { return c <= Class::kPredicate; }

enum InstFlag : uint8_t {
  kConverged = 1,    ///< .aligned: waits until all living lanes of the warp are here.
  kAsyncResult = 2,  ///< Writes its registers later, at the latest at a kAsyncWait.
  kAsyncWait = 4,
  kBranch = 8,          ///< Goes to `target`, or on.
  kEnds = 16,           ///< Nothing follows for the lanes that execute it.
  kUnguardedMask = 32,  ///< The handler wants all active lanes and looks at the guard itself.
};

/// A predicate operand: 2 * index + (1 if negated).
using PredicateRef = uint32_t;

struct Inst {
  Handler run = nullptr;
  PredicateRef guard = kNone;
  Class kind = Class::kOther;
  uint8_t flags = 0;
  /// Registers: d the result (e may be a second one), a b c the sources. What else stands here is
  /// the handler's business.
  uint32_t d = kNone, a = kNone, b = kNone, c = kNone, e = kNone, f = kNone;
  uint32_t list = 0;  ///< First of `list_size` registers in Kernel::lists.
  uint32_t list_size = 0;
  uint32_t target = kNone;        ///< Of a branch.
  int64_t imm = 0;                ///< Address offset or immediate.
  std::array<uint8_t, 16> mod{};  ///< Modifiers, as decoder and handler agree.
};

/// Where an instruction comes from.
struct Site {
  uint32_t line = 0;  ///< Of the PTX text.
  uint32_t source_file = 0;
  uint32_t source_line = 0;
  uint32_t function = 0;  ///< In Kernel::functions.
  std::string_view opcode;
};

/// One register that an instruction reads or writes: for allocation and for checks.
struct RegisterUse {
  uint32_t pc;
  uint32_t slot;  ///< Byte offset in the register file; 2 * index of a predicate if `predicate`.
  uint8_t bytes;  ///< Of one lane.
  bool write;
  bool predicate;
};

/// What a preset register holds.
enum class PresetKind : uint8_t {
  kConstant,
  kShared,        ///< `value` + the address at which the CTA's shared memory begins.
  kDynamicStart,  ///< `value` + the address of the dynamic shared memory.
  kTid,
  kLaneId,
  kWarpId,
  kNTid,
  kCtaId,
  kNCtaId,
  kClusterId,
  kNClusterId,
  kClusterCtaId,
  kClusterNCtaId,
  kClusterCtaRank,
  kClusterNCtaRank,
  kLaneMaskEq,
  kLaneMaskLt,
  kLaneMaskLe,
  kLaneMaskGt,
  kLaneMaskGe,
  kNWarpId,
  kSmId,
  kNSmId,
  kGridId,
  kDynamicShared,
  kTotalShared,
  kIsExplicitCluster,
};

struct Preset {
  PresetKind kind = PresetKind::kConstant;
  uint8_t bytes = 4;  ///< Of one lane: 4 or 8.
  uint8_t axis = 0;   ///< Of kTid and its like.
  uint32_t slot = 0;
  uint64_t value = 0;
};

/// A module's .global and .const variables: host memory, shared by its kernels.
struct ModuleData {
  struct Variable {
    std::string name;
    std::byte* data;
    size_t bytes;
    bool constant;
  };
  std::vector<std::unique_ptr<std::byte[]>> storage;
  std::vector<Variable> variables;
};

/// Offset of the first shared variable: address 0 stays invalid, and 1024 keeps alignments.
constexpr uint32_t kSharedStart = 1024;

/// A function of the source that is part of a kernel.
struct SourceFunction {
  std::string name;
  uint32_t parent = 0;  ///< The one that calls it: lower than its own number.
};

struct Kernel {
  std::string name;
  std::string target;
  std::shared_ptr<const std::string> source;  ///< What the sites' opcodes point into.
  std::shared_ptr<const ModuleData> data;
  std::vector<std::string> files;  ///< By the number that sites name.
  /// The kernel itself, and, with line information, the functions written out in it.
  std::vector<SourceFunction> functions;
  std::vector<std::string> externals;  ///< Functions that it calls and that the module lacks.

  std::vector<Inst> code;
  std::vector<Site> sites;  ///< As many as code.
  std::vector<uint32_t> lists;
  std::vector<Preset> presets;
  std::vector<uint32_t> true_predicates;  ///< What predicates hold when a warp starts.
  std::vector<uint32_t> false_predicates;
  std::vector<RegisterUse> uses;    ///< By pc.
  std::vector<uint32_t> first_use;  ///< Of a pc, in `uses`; one more than code.
  /// By pc, of kernels that load tensor memory: what the instruction does once loads in flight
  /// into its registers are complete. Its `run` sees to that first.
  std::vector<Handler> after_loads;
  uint32_t register_bytes = 0;  ///< Of a warp.
  uint32_t predicates = 0;
  mutable std::shared_ptr<const void> plan;  ///< The judge's, made at the first judged run.

  struct Param {
    uint32_t offset;
    uint32_t bytes;
  };
  std::vector<Param> params;                  ///< In their order.
  uint32_t param_bytes = 0;                   ///< All of them.
  uint32_t static_shared_end = kSharedStart;  ///< Offset behind the static variables.
  uint32_t dynamic_align = 16;
  uint32_t local_bytes = 0;                  ///< Of one lane.
  uint32_t max_threads = 0;                  ///< 0: no bound was given.
  std::array<uint32_t, 3> need_threads{};    ///< .reqntid; 0: none are required.
  uint32_t registers = 0;                    ///< Of a thread at launch, for setmaxnreg; 0: unknown.
  std::array<uint32_t, 3> cluster{0, 0, 0};  ///< 0: none is required.

  /// Offset of the dynamic shared memory.
  uint32_t dynamic_start() const {
    return (static_shared_end + dynamic_align - 1) / dynamic_align * dynamic_align;
  }
};

struct Program {
  std::shared_ptr<const std::string> source;
  std::vector<std::shared_ptr<const Kernel>> kernels;
  std::shared_ptr<const ModuleData> data;

  std::shared_ptr<const Kernel> find(std::string_view name) const;
};

}  // namespace fa4::emulator
