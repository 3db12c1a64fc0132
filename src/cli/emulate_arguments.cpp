// SPDX-License-Identifier: BSD-3-Clause
#include "cli/emulate_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/npy.h"
#include "emulator/tensor_map.h"

namespace fa4::cli {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 36;  ///< Of a new array.
constexpr size_t kMaxParameter = 32764;          ///< All that PTX allows a kernel.

/// What is wrong with a word; add() says which it is.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class T>
T parse(const std::string& text, const char* what, int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_integral_v<T>) {
    result = std::from_chars(text.data(), end, value, base);
  } else {
    result = std::from_chars(text.data(), end, value);
  }
  if (text.empty() || result.ec != std::errc() || result.ptr != end) {
    throw Wrong(fmt::format("'{}' is no {}", text, what));
  }
  return value;
}

/// Whole numbers of `bits`, negative ones as they are stored, hexadecimal with 0x.
uint64_t parse_whole(const std::string& text, int bits, bool is_signed) {
  const std::string what =
      fmt::format("{} number of {} bits", is_signed ? "whole" : "unsigned", bits);
  if (text.starts_with("0x") || text.starts_with("0X")) {
    const auto value = parse<uint64_t>(text.substr(2), what.c_str(), 16);
    if (bits < 64 && value >> bits != 0) throw Wrong(fmt::format("'{}' is no {}", text, what));
    return value;
  }
  if (!is_signed) {
    const auto value = parse<uint64_t>(text, what.c_str());
    if (bits < 64 && value >> bits != 0) throw Wrong(fmt::format("'{}' is no {}", text, what));
    return value;
  }
  const auto value = parse<int64_t>(text, what.c_str());
  const int64_t limit = bits < 64 ? int64_t{1} << (bits - 1) : 0;
  if (limit != 0 && (value < -limit || value >= limit)) {
    throw Wrong(fmt::format("'{}' is no {}", text, what));
  }
  return static_cast<uint64_t>(value);
}

/// Array has no unsigned types; their bits are kept in signed ones.
DType parse_dtype(const std::string& name) {
  if (name == "f32") return DType::kFloat32;
  if (name == "f64") return DType::kFloat64;
  if (name == "f16") return DType::kFloat16;
  if (name == "bf16") return DType::kBFloat16;
  if (name == "s32" || name == "u32") return DType::kInt32;
  if (name == "s64" || name == "u64") return DType::kInt64;
  if (name == "b8") return DType::kBool;
  throw Wrong(fmt::format(
      "type '{}' is unknown; allowed: f16, bf16, f32, f64, s32, u32, s64, u64, b8", name));
}

std::vector<int64_t> parse_dims(const std::string& text, size_t most) {
  std::vector<int64_t> dims;
  for (const std::string& part : split(text, ',')) {
    dims.push_back(parse<int64_t>(part, "dim"));
    if (dims.back() < 1) throw Wrong(fmt::format("dim {} is below 1", part));
  }
  if (dims.size() > most) {
    throw Wrong(fmt::format("'{}' has {} dims; allowed: 1 to {}", text, dims.size(), most));
  }
  return dims;
}

Array new_array(const std::string& type, const std::string& dims_text, int fill) {
  const DType dtype = parse_dtype(type);
  const std::vector<int64_t> dims = parse_dims(dims_text, Tensor::kMaxRank);
  const int64_t count = count_elements(dims);
  if (count < 0 || count > kMaxBytes / size_of(dtype)) {
    throw Wrong(fmt::format("'{}' is more than {} bytes", dims_text, kMaxBytes));
  }
  Array array(dtype, dims);
  std::memset(array.data(), fill, array.bytes());
  return array;
}

emulator::MapType map_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return emulator::MapType::kF32;
    case DType::kFloat64:
      return emulator::MapType::kF64;
    case DType::kFloat16:
      return emulator::MapType::kF16;
    case DType::kBFloat16:
      return emulator::MapType::kBF16;
    case DType::kInt32:
      return emulator::MapType::kS32;
    case DType::kInt64:
      return emulator::MapType::kS64;
    default:
      return emulator::MapType::kU8;
  }
}

emulator::Swizzle parse_swizzle(const std::string& text) {
  constexpr const char* kNames[] = {"none", "32", "64", "128", "128/32", "128/32flip", "128/64"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<emulator::Swizzle>(i);
  }
  throw Wrong(fmt::format("swizzle '{}'; allowed: {}", text, fmt::join(kNames, ", ")));
}

void want_parts(const std::vector<std::string>& parts, size_t least, size_t most,
                const char* form) {
  if (parts.size() < least || parts.size() > most) {
    throw Wrong(fmt::format("has {} parts; allowed: {}", parts.size(), form));
  }
}

}  // namespace

EmulateArguments::EmulateArguments(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) add(i, words[i]);
}

void EmulateArguments::add(size_t number, const std::string& word) {
  const std::vector<std::string> parts = split(word, ':');
  const std::string& kind = parts[0];
  memory_of_argument_.push_back(-1);
  try {
    if (kind == "in") {
      want_parts(parts, 2, 3, "in:FILE.npy or in:FILE.npy:bf16");
      if (parts.size() == 3 && parts[2] != "bf16")
        throw Wrong("ends with '" + parts[2] + "'; allowed: bf16");
      add_array(read_npy_file(parts[1], parts.size() == 3).value(), "", false);
    } else if (kind == "io") {
      want_parts(parts, 3, 3, "io:FILE.npy:FILE.npy");
      add_array(read_npy_file(parts[1]).value(), parts[2], true);
    } else if (kind == "out") {
      want_parts(parts, 4, 4, "out:FILE.npy:TYPE:DIMS");
      add_array(new_array(parts[2], parts[3], 0xff), parts[1], true);
    } else if (kind == "zeros") {
      want_parts(parts, 3, 3, "zeros:TYPE:DIMS");
      add_array(new_array(parts[1], parts[2], 0), "", true);
    } else if (kind == "map") {
      want_parts(parts, 3, 4, "map:ARGUMENT:BOX or map:ARGUMENT:BOX:SWIZZLE");
      add_map(parts);
    } else if (kind == "bytes") {
      want_parts(parts, 2, 2, "bytes:FILE");
      std::ifstream file(parts[1], std::ios::binary);
      std::string bytes(kMaxParameter + 1, '\0');
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      if (file.bad() || !file.is_open()) throw std::runtime_error(parts[1] + ": cannot be read");
      bytes.resize(static_cast<size_t>(file.gcount()));
      if (bytes.empty() || bytes.size() > kMaxParameter) {
        throw Wrong(fmt::format("the file has {} bytes or more; allowed: 1 to {}", bytes.size(),
                                kMaxParameter));
      }
      add_bytes(bytes.data(), bytes.size(), 64);
    } else {
      want_parts(parts, 2, 2, "TYPE:VALUE, in:, io:, out:, zeros:, map: or bytes:");
      add_number(kind, parts[1]);
    }
  } catch (const Wrong& wrong) {
    throw UsageError(fmt::format("argument {}: is '{}': {}", number, word, wrong.what()));
  }
}

void EmulateArguments::add_number(const std::string& type, const std::string& text) {
  if (type == "f64") {
    const auto x = parse<double>(text, "number");
    return add_bytes(&x, 8, 8);
  }
  if (type == "f32" || type == "f16" || type == "bf16") {
    const auto x = parse<float>(text, "number");
    if (type == "f32") return add_bytes(&x, 4, 4);
    Array narrow(type == "f16" ? DType::kFloat16 : DType::kBFloat16, {1});
    set(narrow, 0, x);
    return add_bytes(narrow.data(), 2, 2);
  }
  for (const int bits : {8, 16, 32, 64}) {
    for (const char letter : {'u', 's', 'b'}) {
      if (type != letter + std::to_string(bits)) continue;
      const uint64_t x = parse_whole(text, bits, letter == 's');
      const auto bytes = static_cast<size_t>(bits / 8);
      return add_bytes(&x, bytes, bytes);
    }
  }
  throw Wrong(
      fmt::format("'{}' is unknown; allowed: u8 to u64, s8 to s64, b8 to b64, f16, bf16, f32, f64, "
                  "in, io, out, "
                  "zeros, map, bytes",
                  type));
}

void EmulateArguments::add_array(Array array, std::string file, bool writable) {
  memory_of_argument_.back() = static_cast<int>(memory_.size());
  const std::byte* data = array.data();
  memory_.push_back({std::move(array), std::move(file), writable});
  add_bytes(&data, 8, 8);
}

void EmulateArguments::add_map(const std::vector<std::string>& parts) {
  const auto argument = parse<size_t>(parts[1], "number of an argument");
  if (argument >= memory_of_argument_.size() || memory_of_argument_[argument] < 0) {
    throw Wrong(fmt::format("argument {} is no array before it", argument));
  }
  const Array& array = memory_[static_cast<size_t>(memory_of_argument_[argument])].array;
  const std::vector<int64_t> box = parse_dims(parts[2], 5);
  const size_t rank = array.dims().size();
  if (box.size() != rank) {
    throw Wrong(fmt::format("the box has {} dims, the array {}", box.size(), rank));
  }
  if (rank > 5) throw Wrong(fmt::format("the array has {} dims; allowed: 1 to 5", rank));
  emulator::TensorMapSpec spec;
  spec.address = reinterpret_cast<uint64_t>(array.data());
  spec.type = map_type(array.dtype());
  spec.rank = static_cast<uint32_t>(rank);
  uint64_t stride = static_cast<uint64_t>(size_of(array.dtype()));
  for (size_t i = 0; i < rank; ++i) {
    spec.dims[i] = static_cast<uint64_t>(array.dims()[rank - 1 - i]);
    spec.box[i] = static_cast<uint32_t>(std::min<int64_t>(box[i], 1 << 16));
    spec.strides[i] = i == 0 ? 0 : stride;
    stride *= spec.dims[i];
  }
  if (parts.size() == 4) spec.swizzle = parse_swizzle(parts[3]);
  const auto bytes = emulator::encode_tensor_map(spec);
  if (!bytes.ok()) throw Wrong(bytes.status().message());
  add_bytes(bytes->data(), bytes->size(), 64);
}

void EmulateArguments::add_bytes(const void* data, size_t bytes, size_t align) {
  const size_t at = (parameters_.size() + align - 1) / align * align;
  if (at + bytes > kMaxParameter) {
    throw Wrong(fmt::format("the arguments are more than {} bytes", kMaxParameter));
  }
  parameters_.resize(at + bytes);
  std::memcpy(parameters_.data() + at, data, bytes);
}

emulator::MemoryMap EmulateArguments::memory() const {
  emulator::MemoryMap map;
  for (const Memory& m : memory_) {
    if (m.array.bytes() > 0) map.add(m.array.data(), m.array.bytes(), m.writable);
  }
  return map;
}

std::string EmulateArguments::results() const {
  std::string bytes;
  for (const Memory& m : memory_) {
    if (m.writable) bytes.append(reinterpret_cast<const char*>(m.array.data()), m.array.bytes());
  }
  return bytes;
}

std::vector<std::string> EmulateArguments::write() const {
  std::vector<std::string> lines;
  for (const Memory& m : memory_) {
    if (m.file.empty()) continue;
    write_npy_file(m.file, m.array).check();
    lines.push_back(fmt::format("wrote {} to {}", describe(m.array), m.file));
  }
  return lines;
}

}  // namespace fa4::cli
