// SPDX-License-Identifier: BSD-3-Clause
// What the judge looks for: one list, of which docs/emulator.md shows a copy.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fa4::emulator {

enum class Level : uint8_t {
  kWarning,  ///< Against the text of PTX, and known to be forgiven by hardware or by kernels in
             ///< use.
  kError,
};

enum class Rule : uint8_t {
  kRegisterUndefined,
  kSharedUndefined,
  kTensorUndefined,
  kSharedRace,
  kWarpRace,
  kGlobalRace,
  kProxyFence,
  kProxyOrder,
  kTensorMapFence,
  kMbarrierInitFence,
  kMbarrierOvertaken,
  kMbarrierSkipped,
  kMbarrierScope,
  kMbarrierBytesAtExit,
  kWgmmaFence,
  kWgmmaRegisters,
  kTensorRace,
  kTensorLoadWait,
  kTensorStoreWait,
  kTensorFence,
  kTensorDealloc,
  kExitBulkStore,
  kExitCopy,
  kExitProduct,
  kExitPeer,
  // The machine's own, which are looked for always.
  kDeadlock,
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kMbarrierMissing,
  kMbarrierReinit,
  kMbarrierOverwritten,
  kMbarrierCount,
  kMbarrierBytes,
  kNamedBarrier,
  kTensorAllocation,
  kTensorUnallocated,
  kTensorForeignLanes,
  kWgmmaDiffers,
};
constexpr int kRules = static_cast<int>(Rule::kWgmmaDiffers) + 1;

struct RuleText {
  Rule rule;
  std::string_view name;
  Level level;
  std::string_view meaning;
  std::string_view section;  ///< Of the PTX ISA, 9.1.
  bool always = false;       ///< Looked for with checks off too.
};

/// In the order of the enumeration.
std::span<const RuleText> all_rules();
const RuleText& text_of(Rule rule);

}  // namespace fa4::emulator
