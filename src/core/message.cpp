// SPDX-License-Identifier: BSD-3-Clause
#include "core/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace fa4::core {

std::string format_dims(const TensorSpec& spec) {
  std::string text = "[";
  for (int i = 0; i < std::min(spec.rank, Tensor::kMaxRank); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(spec.dims[i]);
  }
  if (spec.rank >= 0 && spec.rank <= Tensor::kMaxRank) return text + "]";
  return text + (spec.rank > 0 ? ", ...]" : "]") + " (rank " + std::to_string(spec.rank) + ")";
}

std::string format_spec(const TensorSpec& spec) {
  return std::string(to_string(spec.dtype)) + " " + format_dims(spec);
}

std::string format_number(double x) {
  if (std::isnan(x)) return "nan";  // of either sign
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

}  // namespace fa4::core
