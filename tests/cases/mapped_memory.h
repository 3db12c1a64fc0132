// SPDX-License-Identifier: BSD-3-Clause
// Memory from mmap: more of it than the machine has, and memory that ends where a page ends.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "support/host_tensor.h"

namespace fa4::cases {

/// Address space that becomes memory page by page as it is touched. Zero at first.
class Mapping {
 public:
  explicit Mapping(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = memory == MAP_FAILED ? nullptr : memory;
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Mapping(Mapping&& other) noexcept
      : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;

  /// nullptr where the machine gives no such address space.
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }
  /// From here on nothing may be read or written.
  void forbid_from(size_t offset) { mprotect(data() + offset, bytes_ - offset, PROT_NONE); }

 private:
  size_t bytes_;
  void* data_;
};

/// Calls body(pointer to the element) for each element, row-major.
template <class Body>
void for_each_element(const Tensor& t, const Body& body) {
  int64_t count = 1;
  for (int i = 0; i < t.rank; ++i) count *= t.dims[i];
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, offset = 0;
    for (int i = t.rank - 1; i >= 0; --i) {
      offset += rest % t.dims[i] * t.strides[i];
      rest /= t.dims[i];
    }
    body(static_cast<std::byte*>(t.data) + offset * size_of(t.dtype));
  }
}
/// Writes elements, given row-major, to a view.
inline void scatter(const std::vector<std::byte>& elements, const Tensor& t) {
  const std::byte* next = elements.data();
  const auto size = static_cast<size_t>(size_of(t.dtype));
  for_each_element(t, [&](std::byte* element) {
    std::memcpy(element, next, size);
    next += size;
  });
}
/// A view's elements, row-major.
inline std::vector<std::byte> gather(const Tensor& t) {
  std::vector<std::byte> elements;
  for_each_element(t, [&](const std::byte* element) {
    elements.insert(elements.end(), element, element + size_of(t.dtype));
  });
  return elements;
}

/// A contiguous copy of a tensor whose last byte is the last one before memory that may not be
/// touched, so that reads past the end crash.
class AtPageEnd {
 public:
  explicit AtPageEnd(const test::HostTensor& x) : mapping_(mapping_bytes(x)), view_(x.view()) {
    const size_t end = mapping_.bytes() - kPage;
    mapping_.forbid_from(end);
    view_.data = mapping_.data() + end - bytes_of(x);
    int64_t stride = 1;
    for (int i = view_.rank - 1; i >= 0; --i) {
      view_.strides[i] = stride;
      stride *= view_.dims[i];
    }
    scatter(x.bytes(), view_);
  }
  const Tensor& view() const { return view_; }

 private:
  static constexpr size_t kPage = 65536;  // a multiple of every machine's page
  static size_t bytes_of(const test::HostTensor& x) { return x.size() * size_of(x.dtype()); }
  static size_t mapping_bytes(const test::HostTensor& x) {
    return (bytes_of(x) + kPage - 1) / kPage * kPage + kPage;
  }
  Mapping mapping_;
  Tensor view_;
};

}  // namespace fa4::cases
