// SPDX-License-Identifier: BSD-3-Clause
// An opcode's words: "ld.volatile.shared.u32" is ld, volatile, shared, u32. Whoever decodes takes
// what it understands; what nobody took is an error, so that no form passes unseen.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/types.h"

namespace fa4::emulator::decode {

class Modifiers {
 public:
  Modifiers() = default;
  explicit Modifiers(std::string_view opcode);

  std::string_view base() const { return base_; }
  /// Takes the word, wherever it stands.
  bool take(std::string_view word);
  /// Takes the first of the words that is there; its index, or -1.
  int take_one(std::initializer_list<std::string_view> words);
  /// Takes the first word that names a type.
  std::optional<ptx::Type> take_type();
  /// The words not taken, in order.
  const std::vector<std::string_view>& rest() const { return words_; }

 private:
  std::string_view base_;
  std::vector<std::string_view> words_;
};

}  // namespace fa4::emulator::decode
