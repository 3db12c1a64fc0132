// SPDX-License-Identifier: BSD-3-Clause
#include "core/message.h"

#include <array>
#include <charconv>

namespace fa4::core {

std::string format_dims(const TensorSpec& spec) {
  std::string text = "[";
  for (int i = 0; i < spec.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(spec.dims[i]);
  }
  return text + "]";
}

std::string format_spec(const TensorSpec& spec) {
  return std::string(to_string(spec.dtype)) + " " + format_dims(spec);
}

std::string format_number(double x) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

}  // namespace fa4::core
