// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_fixture.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/demo_folders.h"
#include "cli/npy.h"

namespace fa4::cli {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file) throw std::runtime_error(fmt::format("can't read {}", path.string()));
  return bytes.str();
}

/// Reads one array and compares it with its line in the manifest and with what the demo wants.
template <class T>
std::vector<T> read_array(const fs::path& folder, const nlohmann::json& manifest,
                          const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
  const fs::path path = folder / name;
  const std::string crc = fmt::format("{:08x}", crc32(read_file(path)));
  const std::string expected = manifest.at("files").at(name).at("crc32");
  if (crc != expected) {
    throw std::runtime_error(
        fmt::format("{}: CRC-32 is {}, manifest.json says {}", path.string(), crc, expected));
  }
  const Array array = read_npy_file(path.string()).value();
  if (array.dtype() != dtype || array.dims() != dims) {
    throw std::runtime_error(fmt::format("{}: is {}, must be {}", path.string(), describe(array),
                                         describe(Array(dtype, dims))));
  }
  return {array.as<T>(), array.as<T>() + array.elements()};
}

void read_texts(const nlohmann::json& manifest, DemoFixture& fixture) {
  std::vector<int32_t> ends = {0};
  for (const nlohmann::json& sequence : manifest.at("sequences")) {
    fixture.texts.push_back({sequence.at("text"), sequence.at("tokens")});
    ends.push_back(ends.back() + static_cast<int32_t>(fixture.texts.back().tokens.size()));
  }
  if (fixture.cu_seqlens != ends) {
    throw std::runtime_error(fmt::format("{}: is [{}], the tokens in manifest.json say [{}]",
                                         (fixture.folder / "cu_seqlens.npy").string(),
                                         fmt::join(fixture.cu_seqlens, ", "),
                                         fmt::join(ends, ", ")));
  }
}

/// The folder of this program, if the system tells.
fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

int64_t DemoFixture::longest() const {
  int64_t longest = 0;
  for (size_t i = 0; i < texts.size(); ++i) longest = std::max(longest, length(i));
  return longest;
}

int64_t DemoFixture::scores_per_head() const {
  int64_t scores = 0;
  for (size_t i = 0; i < texts.size(); ++i) scores += length(i) * length(i);
  return scores;
}

uint32_t crc32(const std::string& bytes) {
  constexpr uint32_t kPolynomial = 0xEDB88320U;  // Of zlib, bits reversed.
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x & 1U) != 0 ? kPolynomial ^ (x >> 1U) : x >> 1U;
    table[i] = x;
  }
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
  }
  return ~crc;
}

fs::path find_demo_fixture(const std::optional<fs::path>& given) {
  std::vector<fs::path> places;
  if (given) {
    places = {*given};
  } else {
    places = {program_folder() / kInstalledData / "minilm", fs::path(kSourceData) / "minilm"};
  }
  std::string looked;
  for (const fs::path& place : places) {
    if (fs::exists(place / "manifest.json")) return place.lexically_normal();
    looked += fmt::format(" {}", (place / "manifest.json").lexically_normal().string());
  }
  throw std::runtime_error(
      fmt::format("no input: there is no{}; name its folder with --data", looked));
}

DemoFixture load_demo_fixture(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  DemoFixture fixture;
  fixture.folder = folder;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(read_file(path));
    fixture.model = manifest.at("model");
    fixture.source = manifest.at("source");
    fixture.layers = manifest.at("layers");
    fixture.heads = manifest.at("heads");
    fixture.head_dim = manifest.at("head_dim");
    const auto count = static_cast<int64_t>(manifest.at("sequences").size());
    fixture.cu_seqlens =
        read_array<int32_t>(folder, manifest, "cu_seqlens.npy", DType::kInt32, {count + 1});
    read_texts(manifest, fixture);
    const int64_t layers = fixture.layers, heads = fixture.heads, total = fixture.total();
    const std::vector<int64_t> rows = {layers, total, heads, fixture.head_dim};
    fixture.q = read_array<Float16>(folder, manifest, "q.npy", DType::kFloat16, rows);
    fixture.k = read_array<Float16>(folder, manifest, "k.npy", DType::kFloat16, rows);
    fixture.v = read_array<Float16>(folder, manifest, "v.npy", DType::kFloat16, rows);
    fixture.torch_out = read_array<float>(folder, manifest, "out.npy", DType::kFloat32, rows);
    fixture.torch_lse =
        read_array<float>(folder, manifest, "lse.npy", DType::kFloat32, {layers, heads, total});
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", path.string(), error.what()));
  }
  return fixture;
}

}  // namespace fa4::cli
