// SPDX-License-Identifier: BSD-3-Clause
// vprintf: what printf of a kernel becomes. Formats are those of C, as the CUDA C++ Programming
// Guide lists them for devices: flags "-+ #0", width (a number or *), precision, h, l, ll, and the
// conversions d i u o x X c f F e E g G a A s p %. Arguments lie one behind the other, each at a
// multiple of its own size; float has become double, and small integers int.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "emulator/exec/warp_handlers.h"
#include "emulator/machine.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

constexpr size_t kMostText = size_t{1} << 16;
constexpr int kMostWidth = 4096;

/// Formats what one lane prints.
class Printer {
 public:
  Printer(Warp& warp, uint64_t format, uint64_t arguments, uint32_t lane)
      : warp_(&warp), arguments_(arguments), lane_(lane), format_(text_at(format)) {}

  std::string run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(format_, at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) conversion();
    }
    return std::move(out_);
  }
  /// Arguments that were printed.
  int32_t count() const { return count_; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    std::string shown;
    for (const char c : format_) shown += c == '\n' ? std::string("\\n") : std::string(1, c);
    throw Fault("vprintf of \"" + shown + "\": " + what);
  }

  std::string text_at(uint64_t address) const {
    std::string text;
    while (text.size() < kMostText) {
      const auto* c =
          resolve(*warp_, Space::kGeneric, address + text.size(), 1, 1, Access::kRead, lane_);
      if (*c == std::byte{0}) return text;
      text += static_cast<char>(*c);
    }
    throw Fault("vprintf: a text of more than " + std::to_string(kMostText) + " bytes");
  }

  template <class T>
  T next() {
    if (arguments_ == 0) fail("has conversions, and there are no arguments");
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value,
                resolve(*warp_, Space::kGeneric, arguments_ + offset_, sizeof value, 1,
                        Access::kRead, lane_),
                sizeof value);
    offset_ += sizeof value;
    ++count_;
    return value;
  }

  /// A number or *; -1: none.
  int number() {
    if (peek() == '*') {
      ++at_;
      return check_width(next<int32_t>());
    }
    if (peek() < '0' || peek() > '9') return -1;
    int n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) n = check_width(10 * n + (peek() - '0'));
    return n;
  }
  int check_width(int n) const {
    if (n < -kMostWidth || n > kMostWidth) {
      fail("a width of " + std::to_string(n) + "; allowed: up to " + std::to_string(kMostWidth));
    }
    return n;
  }
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  void conversion() {
    const size_t begin = at_++;
    spec_.assign(1, '%');
    for (; peek() != '\0' && std::string_view("-+ #0").find(peek()) != std::string_view::npos;
         ++at_) {
      spec_ += peek();
    }
    if (const int width = number(); width != -1) spec_ += std::to_string(width);
    if (peek() == '.') {
      ++at_;
      // A negative one counts as none.
      if (const int precision = number(); precision >= -1) {
        spec_ += '.';
        spec_ += std::to_string(std::max(precision, 0));
      }
    }
    size_ = 0;
    for (; peek() == 'h' || peek() == 'l'; ++at_) size_ += peek() == 'l' ? 1 : -1;
    if (peek() == 'z' || peek() == 'j' || peek() == 't') {
      ++at_;
      size_ = 2;
    }
    const char kind = peek();
    if (kind != '\0') ++at_;
    if (!convert(kind)) {
      fail("conversion \"" + format_.substr(begin, at_ - begin) +
           "\" is unknown; allowed: d i u o x X c f F e E g G a A s p %");
    }
  }

  template <class T>
  void put(const char* size, char kind, T value) {
    const std::string spec = spec_ + size + kind;
    const int length = std::snprintf(nullptr, 0, spec.c_str(), value);
    if (length < 0) fail("cannot be printed");
    std::string text(static_cast<size_t>(length) + 1, '\0');
    std::snprintf(text.data(), text.size(), spec.c_str(), value);
    text.pop_back();
    out_ += text;
  }

  bool convert(char kind) {
    switch (kind) {
      case 'd':
      case 'i':
        put_integer<int64_t, int32_t, int16_t, int8_t>(kind);
        return true;
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        put_integer<uint64_t, uint32_t, uint16_t, uint8_t>(kind);
        return true;
      case 'c':
        put("", kind, next<int32_t>());
        return true;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        put("", kind, next<double>());
        return true;
      case 's': {
        const auto address = next<uint64_t>();
        put("", kind, (address == 0 ? std::string("(null)") : text_at(address)).c_str());
        return true;
      }
      case 'p':
        put("", kind, std::bit_cast<void*>(next<uint64_t>()));
        return true;
      case '%':
        out_ += '%';
        return true;
      default:
        return false;
    }
  }

  template <class Long, class Int, class Short, class Byte>
  void put_integer(char kind) {
    if (size_ > 0) return put("ll", kind, static_cast<long long>(next<Long>()));
    const Int value = next<Int>();
    if (size_ == 0) return put("", kind, value);
    put("", kind, size_ == -1 ? Int{static_cast<Short>(value)} : Int{static_cast<Byte>(value)});
  }

  Warp* warp_;
  uint64_t arguments_;
  uint32_t lane_;
  std::string format_, out_, spec_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
  int size_ = 0;  ///< l counts 1, h counts -1.
  int32_t count_ = 0;
};

uint64_t parameter(Warp& w, uint32_t offset, uint32_t lane) {
  uint64_t x = 0;
  std::memcpy(&x, resolve(w, Space::kLocal, offset, sizeof x, 1, Access::kRead, lane), sizeof x);
  return x;
}

}  // namespace

Step print_text(Warp& w, const Inst& i, uint32_t mask) {
  std::string all;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t format = parameter(w, i.b, lane);
    int32_t result = -1;  // of a null format
    if (format != 0) {
      Printer printer(w, format, parameter(w, i.c, lane), lane);
      all += printer.run();
      result = printer.count();
    }
    if (i.a == kNone) continue;
    std::memcpy(resolve(w, Space::kLocal, i.a, 4, 4, Access::kWrite, lane), &result, 4);
  }
  Grid& grid = w.worker->grid();
  if (grid.options.print && !all.empty()) {
    const std::lock_guard lock(grid.print_mutex);
    grid.options.print(all);
  }
  return Step::kNext;
}

}  // namespace fa4::emulator::exec
