// SPDX-License-Identifier: BSD-3-Clause
#include "cli/array.h"

#include <fmt/core.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>

#include "oracle/numbers.h"

namespace fa4::cli {

int64_t count_elements(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  bool overflow = false;
  bool zero = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return -1;
    if (dim == 0) zero = true;
    overflow = overflow || __builtin_mul_overflow(count, dim, &count);
  }
  if (zero) return 0;
  return overflow ? -1 : count;
}

Array::Array(DType dtype, std::vector<int64_t> dims) : dtype_(dtype), dims_(std::move(dims)) {
  constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 2;
  const int64_t count = count_elements(dims_);
  if (count < 0 || count > kMaxBytes / size_of(dtype)) {
    throw std::length_error("array: its size does not fit 63 bits");
  }
  const size_t rounded = (static_cast<size_t>(count * size_of(dtype)) / 64 + 1) * 64;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

int64_t Array::elements() const { return present() ? count_elements(dims_) : 0; }

Tensor Array::view() const {
  Tensor tensor;
  if (!present()) return tensor;
  tensor.data = data_.get();
  tensor.dtype = dtype_;
  tensor.rank = static_cast<int>(dims_.size());
  int64_t stride = 1;
  for (size_t i = dims_.size(); i-- > 0;) {
    tensor.dims[i] = dims_[i];
    tensor.strides[i] = stride;
    stride *= dims_[i];
  }
  return tensor;
}

double get(const Array& array, int64_t i) { return oracle::read_element(array.view(), i); }

void set(Array& array, int64_t i, double x) {
  switch (array.dtype()) {
    case DType::kFloat32:
      array.as<float>()[i] = static_cast<float>(x);
      return;
    case DType::kFloat64:
      array.as<double>()[i] = x;
      return;
    case DType::kBFloat16:
      array.as<BFloat16>()[i] = to_bfloat16(static_cast<float>(x));
      return;
    case DType::kFloat16:
      array.as<Float16>()[i] = to_float16(static_cast<float>(x));
      return;
    case DType::kInt32:
      array.as<int32_t>()[i] = static_cast<int32_t>(x);
      return;
    case DType::kInt64:
      array.as<int64_t>()[i] = static_cast<int64_t>(x);
      return;
    case DType::kBool:
      array.as<uint8_t>()[i] = x != 0 ? 1 : 0;
      return;
  }
}

Array convert(const Array& array, DType dtype) {
  Array result(dtype, array.dims());
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; ++i) set(result, i, get(array, i));
  return result;
}

std::string describe(const Array& array) {
  std::string dims;
  for (const int64_t dim : array.dims()) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", dim);
  return fmt::format("{} [{}]", to_string(array.dtype()), dims);
}

std::optional<DType> parse_float_dtype(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    if (name == short_name(dtype) || name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

const char* short_name(DType dtype) {
  constexpr const char* kNames[] = {"fp32", "fp64", "bf16", "fp16"};
  const auto i = static_cast<size_t>(dtype);
  return i < std::size(kNames) ? kNames[i] : to_string(dtype);
}

}  // namespace fa4::cli
