// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/decode/families.h"

#include <unordered_map>

namespace fa4::emulator::decode {
namespace {

using Table = std::unordered_map<std::string_view, DecodeFunction>;

Table make_table() {
  Table table;
  for (const auto family :
       {arithmetic_opcodes(), move_opcodes(), memory_opcodes(), control_opcodes(), sync_opcodes(),
        copy_opcodes(), matrix_opcodes(), tensor_opcodes(), tensor_map_opcodes(), launch_opcodes(),
        rare_opcodes()}) {
    for (const OpcodeEntry& entry : family) table.emplace(entry.name, entry.decode);
  }
  return table;
}

}  // namespace

DecodeFunction find_opcode(std::string_view name) {
  static const Table table = make_table();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace fa4::emulator::decode
