// SPDX-License-Identifier: BSD-3-Clause
#include "support/host_tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "oracle/oracle.h"

namespace fa4::test {
namespace {

constexpr std::byte kPoison{0xFF};

/// Writes `value`, rounded to `dtype`, to `target`.
void write_element(DType dtype, double value, void* target) {
  const auto put = [&](auto x) { std::memcpy(target, &x, sizeof(x)); };
  switch (dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(value);
    case DType::kBFloat16:  // what is left to convert is exact
      return put(to_bfloat16(static_cast<float>(oracle::round_to(dtype, value))));
    case DType::kFloat16:
      return put(to_float16(static_cast<float>(oracle::round_to(dtype, value))));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kBool:
      return put(static_cast<uint8_t>(value != 0));
  }
}

/// The next element's index, the last dimension first; after the last one the first.
void step(const Dims& dims, Index& index) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return;
    index[i] = 0;
  }
}

}  // namespace

HostTensor::HostTensor(DType dtype, Dims dims, Dims strides)
    : dtype_(dtype), dims_(std::move(dims)), strides_(std::move(strides)) {
  if (strides_.empty()) {
    std::vector<int> order(dims_.size());
    std::iota(order.begin(), order.end(), 0);
    strides_ = strides_in_order(dims_, order);
  }
  int64_t last = size() == 0 ? -1 : 0;
  for (size_t i = 0; i < dims_.size() && last >= 0; ++i) last += (dims_[i] - 1) * strides_[i];
  storage_.assign(2 * kGuardBytes + (last + 1) * size_of(dtype), kPoison);
}

HostTensor HostTensor::of(DType dtype, Dims dims, const std::vector<double>& values) {
  HostTensor tensor(dtype, std::move(dims));
  tensor.fill(values);
  return tensor;
}

int64_t HostTensor::size() const {
  return dims_.empty() ? 0
                       : std::accumulate(dims_.begin(), dims_.end(), int64_t{1}, std::multiplies());
}

int64_t HostTensor::offset_of(const Index& index) const {
  int64_t offset = 0;
  for (size_t i = 0; i < dims_.size(); ++i) offset += index[i] * strides_[i];
  return static_cast<int64_t>(kGuardBytes) + offset * size_of(dtype_);
}

Index HostTensor::index_of(int64_t flat) const {
  Index index{};
  for (size_t i = dims_.size(); i-- > 0;) {
    index[i] = flat % dims_[i];
    flat /= dims_[i];
  }
  return index;
}

HostTensor& HostTensor::fill(double value) {
  return fill_with([&](const Index&) { return value; });
}

HostTensor& HostTensor::fill(const std::vector<double>& values) {
  size_t next = 0;
  return fill_with([&](const Index&) { return values.at(next++); });
}

HostTensor& HostTensor::fill_with(const std::function<double(const Index&)>& value_at) {
  Index index{};
  for (int64_t left = size(); left > 0; --left) {
    set(index, value_at(index));
    step(dims_, index);
  }
  return *this;
}

HostTensor& HostTensor::fill_normal(Random& random, double mean, double deviation) {
  std::normal_distribution<double> normal(mean, deviation);
  return fill_with([&](const Index&) { return normal(random); });
}

HostTensor& HostTensor::poison() {
  std::fill(storage_.begin(), storage_.end(), kPoison);
  return *this;
}

void HostTensor::set(const Index& index, double value) {
  write_element(dtype_, value, storage_.data() + offset_of(index));
}

double HostTensor::get(const Index& index) const {
  return oracle::read(Tensor::contiguous(storage_.data() + offset_of(index), dtype_, {1}))[0];
}

std::vector<double> HostTensor::values() const { return oracle::read(view()); }

std::vector<std::byte> HostTensor::bytes() const {
  std::vector<std::byte> all;
  all.reserve(static_cast<size_t>(size() * size_of(dtype_)));
  Index index{};
  for (int64_t left = size(); left > 0; --left) {
    const auto element = storage_.begin() + offset_of(index);
    all.insert(all.end(), element, element + size_of(dtype_));
    step(dims_, index);
  }
  return all;
}

Tensor HostTensor::view() const {
  Tensor t;
  if (!present()) return t;
  t.data = const_cast<std::byte*>(storage_.data()) + kGuardBytes;  // NOLINT: as the library's views
  t.dtype = dtype_;
  t.rank = static_cast<int>(dims_.size());
  std::copy(dims_.begin(), dims_.end(), t.dims.begin());
  std::copy(strides_.begin(), strides_.end(), t.strides.begin());
  return t;
}

HostTensor HostTensor::with_strides(Dims strides) const {
  HostTensor tensor(dtype_, dims_, std::move(strides));
  tensor.fill(values());
  return tensor;
}

std::string HostTensor::damage() const {
  std::vector<bool> ours(storage_.size(), false);
  for (int64_t flat = 0; flat < size(); ++flat) {
    const int64_t offset = offset_of(index_of(flat));
    std::fill_n(ours.begin() + offset, size_of(dtype_), true);
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (ours[i] || storage_[i] == kPoison) continue;
    return "byte " + std::to_string(static_cast<int64_t>(i) - static_cast<int64_t>(kGuardBytes)) +
           " from the first element belongs to no element, but was written";
  }
  return {};
}

Dims strides_in_order(const Dims& dims, const std::vector<int>& order) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(dims[order[i]], 1);
  }
  return strides;
}

}  // namespace fa4::test
