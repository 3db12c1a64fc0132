// SPDX-License-Identifier: BSD-3-Clause
#include "cli/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <string_view>

namespace fa4::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint32_t kMaxHeader = 1U << 20;  // NumPy's own headers are below 64 KiB.

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

/// What a file may hold and how much of a bad string a message quotes.
std::string quote(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 24)) {
    const auto code = static_cast<unsigned char>(c);
    result += code >= 0x20 && code < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", code);
  }
  return "'" + result + (text.size() > 24 ? "..." : "") + "'";
}

/// Parses the header, a Python dictionary with three known keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    if (!accept('{')) return error("does not begin with '{'");
    Header header;
    while (!accept('}')) {
      const std::optional<std::string> key = string();
      if (!key) return error("a key is no string");
      if (!accept(':')) return error("a key has no value");
      Status status = value(*key, header);
      if (!status.ok()) return status;
      if (!accept(',') && peek() != '}') return error("an entry ends with neither ',' nor '}'");
    }
    if (peek() != '\0') return error("something follows the dictionary");
    if (header.descr.empty()) return error("'descr' is missing");
    if (!header.fortran_order) return error("'fortran_order' is missing");
    if (!header.shape) return error("'shape' is missing");
    return header;
  }

 private:
  Status error(const std::string& what) const { return invalid_argument("header: " + what); }

  /// The next character that is no space; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  bool accept_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::optional<std::string> string() {
    const char end = peek();
    if (end != '\'' && end != '"') return std::nullopt;
    const size_t close = text_.find(end, at_ + 1);
    if (close == std::string_view::npos) return std::nullopt;
    std::string result(text_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    return result;
  }

  Status value(const std::string& key, Header& header) {
    if (key == "descr") return descr(header);
    if (key == "fortran_order") {
      if (accept_word("True")) {
        header.fortran_order = true;
      } else if (accept_word("False")) {
        header.fortran_order = false;
      } else {
        return error("'fortran_order' is neither True nor False");
      }
      return {};
    }
    if (key == "shape") return shape(header);
    return error("unknown key " + quote(key));
  }

  Status descr(Header& header) {
    if (peek() == '[') return error("'descr' is a structured type; allowed: a plain one");
    const std::optional<std::string> text = string();
    if (!text || text->empty()) return error("'descr' is no string");
    header.descr = *text;
    return {};
  }

  Status shape(Header& header) {
    if (!accept('(')) return error("'shape' is no tuple");
    std::vector<int64_t> dims;
    while (!accept(')')) {
      const char first = peek();
      if (first == '-') return error("'shape' has a negative dim");
      if (std::isdigit(static_cast<unsigned char>(first)) == 0) {
        return error("'shape' has a dim that is no integer");
      }
      int64_t dim = 0;
      if (!integer(dim)) return error("'shape' has a dim that does not fit 63 bits");
      dims.push_back(dim);
      if (dims.size() > 32) return error("'shape' has more than 32 dims");
      if (!accept(',') && peek() != ')') return error("'shape' does not end with ')'");
    }
    header.shape = dims;
    return {};
  }

  bool integer(int64_t& value) {
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      const int64_t digit = text_[at_++] - '0';
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, digit, &value)) {
        return false;
      }
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Result<DType> parse_descr(const std::string& descr, bool bfloat16) {
  if (descr.size() > 1 && descr[0] == '>') {
    return invalid_argument("descr: is " + quote(descr) + ", big-endian; allowed: little-endian");
  }
  const std::string type = std::strchr("<|=", descr[0]) != nullptr ? descr.substr(1) : descr;
  if (type == "f4") return DType::kFloat32;
  if (type == "f8") return DType::kFloat64;
  if (type == "f2") return DType::kFloat16;
  if (type == "i4") return DType::kInt32;
  if (type == "i8") return DType::kInt64;
  if (type == "b1") return DType::kBool;
  if (type == "u2" || type == "V2") {
    if (bfloat16) return DType::kBFloat16;
    return invalid_argument("descr: is " + quote(descr) +
                            "; allowed only where two-byte files are said to hold bfloat16");
  }
  return invalid_argument("descr: is " + quote(descr) + "; allowed: <f4 <f8 <f2 <i4 <i8 |b1");
}

/// Bytes from the read position to the end.
uint64_t remaining(std::istream& in) {
  const std::streampos here = in.tellg();
  in.seekg(0, std::ios::end);
  const std::streampos end = in.tellg();
  in.seekg(here);
  return end > here ? static_cast<uint64_t>(end - here) : 0;
}

Result<std::string> read_header_text(std::istream& in) {
  std::array<char, 8> start{};
  in.read(start.data(), start.size());
  const std::string_view seen(start.data(), static_cast<size_t>(in.gcount()));
  if (seen.empty()) return invalid_argument("is empty; allowed: a .npy file");
  if (seen.substr(0, kMagic.size()) != kMagic.substr(0, std::min(seen.size(), kMagic.size()))) {
    return invalid_argument("begins with " + quote(seen.substr(0, 6)) +
                            "; allowed: a .npy file, which begins with '\\x93NUMPY'");
  }
  if (seen.size() < start.size()) return invalid_argument("ends inside the magic string");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return invalid_argument(
        fmt::format("version: is {}.{}; allowed: 1.0, 2.0 and 3.0", major, minor));
  }
  const std::streamsize length_bytes = major == 1 ? 2 : 4;
  std::array<unsigned char, 4> length{};
  in.read(reinterpret_cast<char*>(length.data()), length_bytes);
  if (in.gcount() != length_bytes) return invalid_argument("ends inside the header's length");
  const uint32_t size = length[0] | length[1] << 8U | static_cast<uint32_t>(length[2]) << 16U |
                        static_cast<uint32_t>(length[3]) << 24U;
  const uint64_t left = remaining(in);
  if (size > left) {
    return invalid_argument(
        fmt::format("header: is {} bytes long, but only {} follow", size, left));
  }
  if (size > kMaxHeader) {
    return invalid_argument(
        fmt::format("header: is {} bytes long; allowed: up to {}", size, kMaxHeader));
  }
  std::string text(size, '\0');
  in.read(text.data(), size);
  if (in.gcount() != static_cast<std::streamsize>(size)) {
    return invalid_argument("could not be read to the end of its header");
  }
  return text;
}

/// Copies Fortran-ordered elements of `size` bytes into C order.
void reorder(const std::byte* src, size_t size, const std::vector<int64_t>& dims, std::byte* dst) {
  std::vector<int64_t> strides(dims.size());
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[i] = count;
    count *= dims[i];
  }
  std::vector<int64_t> index(dims.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(dst + static_cast<size_t>(i) * size, src + static_cast<size_t>(offset) * size,
                size);
    for (size_t axis = dims.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

Result<Array> read_data(std::istream& in, DType dtype, const std::vector<int64_t>& dims,
                        bool fortran_order) {
  const int64_t count = count_elements(dims);
  const auto size = static_cast<uint64_t>(size_of(dtype));
  if (count < 0 || static_cast<uint64_t>(count) > (uint64_t{1} << 62U) / size) {
    return invalid_argument("shape: its size does not fit 62 bits");
  }
  const uint64_t bytes = static_cast<uint64_t>(count) * size;
  const uint64_t left = remaining(in);
  if (left != bytes) {
    return invalid_argument(
        fmt::format("data: are {} bytes; allowed: the {} that the header's "
                    "shape and type need",
                    left, bytes));
  }
  Array array(dtype, dims);
  in.read(reinterpret_cast<char*>(array.data()), static_cast<std::streamsize>(bytes));
  if (in.gcount() != static_cast<std::streamsize>(bytes)) {
    return invalid_argument("data: could not be read to their end");
  }
  if (!fortran_order) return array;
  Array ordered(dtype, dims);
  reorder(array.data(), size, dims, ordered.data());
  return ordered;
}

const char* descr_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kBFloat16:
      return "<u2";
    case DType::kFloat16:
      return "<f2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kBool:
      return "|b1";
  }
  return "";
}

}  // namespace

Result<Array> read_npy(std::istream& in, bool bfloat16) {
  const Result<std::string> text = read_header_text(in);
  if (!text.ok()) return text.status();
  const Result<Header> header = HeaderParser(*text).parse();
  if (!header.ok()) return header.status();
  const Result<DType> dtype = parse_descr(header->descr, bfloat16);
  if (!dtype.ok()) return dtype.status();
  const std::vector<int64_t>& dims = *header->shape;
  if (dims.empty() || dims.size() > Tensor::kMaxRank) {
    return invalid_argument(
        fmt::format("shape: has {} dims; allowed: 1 to {}", dims.size(), Tensor::kMaxRank));
  }
  return read_data(in, *dtype, dims, *header->fortran_order);
}

Result<Array> read_npy_file(const std::string& path, bool bfloat16) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return invalid_argument(fmt::format("{}: could not be opened: {}", path, std::strerror(errno)));
  in.peek();  // A directory opens, but cannot be read.
  if (in.bad()) return invalid_argument(path + ": could not be read");
  in.clear();
  Result<Array> array = read_npy(in, bfloat16);
  if (array.ok()) return array;
  return Status(array.status().code(), path + ": " + array.status().message());
}

Status write_npy(std::ostream& out, const Array& array) {
  std::string shape;
  for (const int64_t dim : array.dims()) shape += fmt::format("{},", dim);
  if (array.dims().size() > 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   descr_of(array.dtype()), shape);
  constexpr size_t kStart = 10;  // Magic string, version, length.
  header.append(63 - (kStart + header.size()) % 64, ' ');
  header += '\n';
  out << kMagic << '\x01' << '\0' << static_cast<char>(header.size() & 0xFFU)
      << static_cast<char>(header.size() >> 8U) << header;
  out.write(reinterpret_cast<const char*>(array.data()),
            static_cast<std::streamsize>(array.bytes()));
  if (!out.flush()) return {StatusCode::kRuntimeError, "could not be written"};
  return {};
}

Status write_npy_file(const std::string& path, const Array& array) {
  std::ofstream out(path, std::ios::binary);
  if (!out) {
    return {StatusCode::kRuntimeError,
            fmt::format("{}: could not be opened for writing: {}", path, std::strerror(errno))};
  }
  const Status status = write_npy(out, array);
  if (status.ok()) return status;
  return {status.code(), path + ": " + status.message()};
}

}  // namespace fa4::cli
