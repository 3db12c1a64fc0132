// SPDX-License-Identifier: BSD-3-Clause
// Tensors that tests own: any dtype and strides, with guard bytes around the storage.
#pragma once

#include <fa4/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace fa4::test {

using Random = std::mt19937_64;
using Dims = std::vector<int64_t>;
using Index = std::array<int64_t, Tensor::kMaxRank>;

/// A tensor with storage. A default one is absent. New ones are poisoned: every byte is 0xFF, which
/// is NaN in every float dtype, so that an element that nobody wrote can't pass for a number.
class HostTensor {
 public:
  HostTensor() = default;
  /// `strides` in elements, one a dim; contiguous if empty.
  HostTensor(DType dtype, Dims dims, Dims strides = {});
  /// A contiguous tensor with these values in row-major order.
  static HostTensor of(DType dtype, Dims dims, const std::vector<double>& values);

  bool present() const { return !dims_.empty(); }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }
  /// Elements (the product of dims).
  int64_t size() const;

  /// Each returns *this. Values are rounded to the dtype, to nearest even.
  HostTensor& fill(double value);
  HostTensor& fill(const std::vector<double>& values);  // row-major
  HostTensor& fill_with(const std::function<double(const Index&)>& value_at);
  HostTensor& fill_normal(Random& random, double mean = 0, double deviation = 1);
  HostTensor& poison();

  void set(const Index& index, double value);
  double get(const Index& index) const;
  /// All elements, row-major.
  std::vector<double> values() const;
  /// The bytes of all elements, row-major: for comparisons to the bit.
  std::vector<std::byte> bytes() const;

  /// What the library is given.
  Tensor view() const;
  /// The same values with other strides.
  HostTensor with_strides(Dims strides) const;
  /// Empty, or which byte outside the elements (guards, gaps between strides) is not 0xFF any more.
  std::string damage() const;

 private:
  static constexpr size_t kGuardBytes = 256;

  int64_t offset_of(const Index& index) const;
  Index index_of(int64_t flat) const;

  DType dtype_ = DType::kFloat32;
  Dims dims_;
  Dims strides_;
  std::vector<std::byte> storage_;
};

/// Strides of a contiguous tensor whose dims are laid out in `order`, outermost first:
/// strides_in_order({b, s, h, d}, {0, 2, 1, 3}) is a [b, h, s, d] buffer seen as [b, s, h, d].
Dims strides_in_order(const Dims& dims, const std::vector<int>& order);

}  // namespace fa4::test
