// SPDX-License-Identifier: BSD-3-Clause
// The real input of `fa4 demo`: q, k and v of a sentence encoder (data/minilm/README.md).
#pragma once

#include <fa4/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fa4::cli {

struct DemoText {
  std::string text;
  std::vector<std::string> tokens;  ///< As attention sees them, [CLS] and [SEP] included.
};

struct DemoFixture {
  std::filesystem::path folder;
  std::string model;
  std::string source;
  int64_t layers = 0, heads = 0, head_dim = 0;
  std::vector<DemoText> texts;
  std::vector<int32_t> cu_seqlens;  ///< [texts + 1]
  std::vector<Float16> q, k, v;     ///< [layers, total, heads, head_dim]
  std::vector<float> torch_out;     ///< [layers, total, heads, head_dim], dense float32 attention
  std::vector<float> torch_lse;     ///< [layers, heads, total]

  int64_t total() const { return cu_seqlens.back(); }
  int64_t length(size_t text) const { return cu_seqlens[text + 1] - cu_seqlens[text]; }
  int64_t longest() const;
  /// Sum over the texts of length^2: scores of one head.
  int64_t scores_per_head() const;
};

/// The fixture's folder: `given`, else beside the installed program, else where this program was
/// built from. Throws with the places it looked at if there is none.
std::filesystem::path find_demo_fixture(const std::optional<std::filesystem::path>& given);

/// Reads and checks (dtype, dims, CRC-32) all files. Throws std::runtime_error naming the file.
DemoFixture load_demo_fixture(const std::filesystem::path& folder);

/// CRC-32 as zlib and PNG define it.
uint32_t crc32(const std::string& bytes);

}  // namespace fa4::cli
