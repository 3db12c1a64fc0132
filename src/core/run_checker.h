// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tensors of one run, one by one.
#pragma once

#include <fa4/plan.h>

namespace fa4::core {

/// Collects checks of many tensors and keeps the first error. A tensor is what `spec` says, on the
/// device, has data, legal strides and offsets that fit 64 bits.
class RunChecker {
 public:
  explicit RunChecker(Device device) : device_(device) {}

  void input(const char* name, const Tensor& t, const TensorSpec& spec) { check(name, t, spec); }
  /// An output must not be broadcast either.
  void output(const char* name, const Tensor& t, const TensorSpec& spec);
  const Status& status() const { return status_; }

 private:
  void check(const char* name, const Tensor& t, const TensorSpec& spec) {
    if (status_.ok()) status_ = check_one(name, t, spec);
  }
  Status check_one(const char* name, const Tensor& t, const TensorSpec& spec) const;

  Device device_;
  Status status_;
};

}  // namespace fa4::core
