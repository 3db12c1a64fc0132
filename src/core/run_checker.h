// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tensors of one run, one by one.
#pragma once

#include <fa4/plan.h>

#include <array>
#include <cstdint>

namespace fa4::core {

/// Whether a dim is 0, so that there is nothing to read or write.
bool is_empty(const Tensor& t);

/// Collects checks of many tensors and keeps the first error. A tensor is what `spec` says, on the
/// device, has data, legal strides and offsets that fit 64 bits.
class RunChecker {
 public:
  explicit RunChecker(Device device) : device_(device) {}

  /// Where a tensor's elements lie.
  struct Place {
    const char* name;
    uintptr_t first, last;  ///< Of its elements: their addresses.
    bool dense;             ///< No gaps between.
  };

  void input(const char* name, const Tensor& t, const TensorSpec& spec);
  /// An output must not be broadcast either, nor share memory with an earlier tensor.
  void output(const char* name, const Tensor& t, const TensorSpec& spec);
  const Status& status() const { return status_; }

 private:
  void remember(const char* name, const Tensor& t);
  Status check_one(const char* name, const Tensor& t, const TensorSpec& spec) const;

  Status check_shared(const char* name, const Tensor& t) const;

  static constexpr int kMostTensors = 24;  // of a backward call, with room to spare

  Device device_;
  Status status_;
  std::array<Place, kMostTensors> seen_{};
  int count_ = 0;
};

}  // namespace fa4::core
