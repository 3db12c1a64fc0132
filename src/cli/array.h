// SPDX-License-Identifier: BSD-3-Clause
// A tensor that owns its memory.
#pragma once

#include <fa4/types.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fa4::cli {

/// Row-major, 64-byte aligned, up to Tensor::kMaxRank dims. A default Array is absent.
class Array {
 public:
  Array() = default;
  /// Zeros. Throws std::bad_alloc, or std::length_error if the size does not fit 63 bits.
  Array(DType dtype, std::vector<int64_t> dims);

  bool present() const { return !dims_.empty(); }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements() * size_of(dtype_)); }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

  /// The array as a tensor; absent if the array is.
  Tensor view() const;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> dims_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Product of dims; -1 if it does not fit 63 bits or a dim is negative.
int64_t count_elements(const std::vector<int64_t>& dims);

/// Element i, whatever the dtype.
double get(const Array& array, int64_t i);
/// Rounds x to the array's dtype.
void set(Array& array, int64_t i, double x);
/// A float array in another float dtype, rounded to nearest even.
Array convert(const Array& array, DType dtype);
/// "float32 [1, 128, 8, 64]".
std::string describe(const Array& array);

/// fp32, fp64, bf16, fp16 and their long names; empty optional for anything else.
std::optional<DType> parse_float_dtype(const std::string& name);
/// "fp32", "bf16", ...
const char* short_name(DType dtype);

}  // namespace fa4::cli
