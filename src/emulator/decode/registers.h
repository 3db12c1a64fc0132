// SPDX-License-Identifier: BSD-3-Clause
// Virtual registers of a kernel while it is decoded, and their places in the register file.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "emulator/program.h"

namespace fa4::emulator::decode {

struct VirtualRegister {
  Type type = Type::kB32;
  uint8_t bytes = 4;       ///< Of a lane in the file: 4, 8, 16; 0 for a predicate.
  int32_t preset = -1;     ///< Index in RegisterTable::presets.
  uint32_t predicate = 0;  ///< Its number, if it is one.
};

/// A place in an instruction that names a register.
struct RegisterRef {
  uint32_t pc = 0;
  uint32_t reg = 0;
  uint32_t Inst::*field = nullptr;  ///< Null: an entry of Kernel::lists.
  uint32_t list_index = 0;
  bool is_read = false;
  bool is_write = false;
};

class RegisterTable {
 public:
  uint32_t add(Type type);
  uint32_t constant(uint64_t value, uint8_t bytes);
  uint32_t preset(const Preset& p);
  /// A predicate that is always true, or always false.
  uint32_t constant_predicate(bool value);
  /// A register nobody reads.
  uint32_t sink(uint8_t bytes);

  const VirtualRegister& operator[](uint32_t i) const { return registers_[i]; }
  size_t size() const { return registers_.size(); }
  std::vector<RegisterRef>& refs() { return refs_; }

  /// Gives every register its place, fills the kernel's register fields, uses and presets.
  /// `share`: registers that are never alive at once may share a place.
  void place(Kernel& kernel, bool share);

 private:
  std::vector<uint32_t> share_places(const Kernel& kernel, std::array<uint32_t, 3>& counts) const;

  std::vector<VirtualRegister> registers_;
  std::vector<Preset> presets_;
  std::map<std::pair<uint64_t, uint8_t>, uint32_t> constants_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> by_preset_;
  uint32_t sinks_[3] = {kNone, kNone, kNone};
  uint32_t constant_predicates_[2] = {kNone, kNone};
  uint32_t predicates_ = 0;
  std::vector<RegisterRef> refs_;
};

}  // namespace fa4::emulator::decode
