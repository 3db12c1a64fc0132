// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tensors of one run, one by one.
#pragma once

#include <fa4/plan.h>

#include <array>

namespace fa4::core {

/// Whether a dim is 0, so that there is nothing to read or write.
bool is_empty(const Tensor& t);

/// Collects checks of many tensors and keeps the first error. A tensor is what `spec` says, on the
/// device, has data, legal strides and offsets that fit 64 bits.
class RunChecker {
 public:
  explicit RunChecker(Device device) : device_(device) {}

  void input(const char* name, const Tensor& t, const TensorSpec& spec) { check(name, t, spec); }
  /// An output must not be broadcast either, nor begin where an earlier tensor begins.
  void output(const char* name, const Tensor& t, const TensorSpec& spec);
  const Status& status() const { return status_; }

 private:
  void check(const char* name, const Tensor& t, const TensorSpec& spec);
  Status check_one(const char* name, const Tensor& t, const TensorSpec& spec) const;

  Status check_shared(const char* name, const Tensor& t) const;

  struct Seen {
    const char* name;
    const void* data;
  };
  static constexpr int kMostTensors = 24;  // of a backward call, with room to spare

  Device device_;
  Status status_;
  std::array<Seen, kMostTensors> seen_{};
  int count_ = 0;
};

}  // namespace fa4::core
