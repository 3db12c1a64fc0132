// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/decode/modifiers.h"

#include <algorithm>

namespace fa4::emulator::decode {

Modifiers::Modifiers(std::string_view opcode) {
  size_t begin = 0;
  while (begin <= opcode.size()) {
    const size_t end = std::min(opcode.find('.', begin), opcode.size());
    const std::string_view word = opcode.substr(begin, end - begin);
    if (begin == 0) {
      base_ = word;
    } else {
      words_.push_back(word);
    }
    begin = end + 1;
  }
}

bool Modifiers::take(std::string_view word) {
  const auto it = std::find(words_.begin(), words_.end(), word);
  if (it == words_.end()) return false;
  words_.erase(it);
  return true;
}

int Modifiers::take_one(std::initializer_list<std::string_view> words) {
  int index = 0;
  for (const std::string_view word : words) {
    if (take(word)) return index;
    ++index;
  }
  return -1;
}

std::optional<ptx::Type> Modifiers::take_type() {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (const auto type = ptx::find_type(words_[i])) {
      words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace fa4::emulator::decode
