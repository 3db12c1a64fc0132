// SPDX-License-Identifier: BSD-3-Clause
#include "core/run_checker.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/message.h"

namespace fa4::core {
namespace {

using std::string;
using std::to_string;

/// Strides are legal and the last byte's offset fits 63 bits.
Status check_strides(const char* name, const Tensor& t) {
  int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.strides[i] < 0) {
      return invalid_argument(string(name) + ": stride " + to_string(i) + " is " +
                              to_string(t.strides[i]) + "; allowed: 0 or more");
    }
    int64_t extent = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(t.dims[i] - 1, 0), t.strides[i], &extent) ||
        __builtin_add_overflow(last, extent, &last)) {
      return invalid_argument(string(name) + ": stride " + to_string(i) + " is " +
                              to_string(t.strides[i]) +
                              ", so that offsets pass 64 bits; allowed: offsets below 2^63");
    }
  }
  if (last > std::numeric_limits<int64_t>::max() / size_of(t.dtype) - 1) {
    return invalid_argument(
        string(name) + ": its strides make byte offsets that pass 64 bits; allowed: below 2^63");
  }
  return {};
}

/// Whether x elements along one dim are as far as y along the other, so that two elements of the
/// tensor lie in one place.
bool strides_meet(const Tensor& t, int a, int b) {
  const int64_t common = std::gcd(t.strides[a], t.strides[b]);
  return t.strides[b] / common < t.dims[a] && t.strides[a] / common < t.dims[b];
}

/// Two elements of an output in one place would overwrite one another. What only three strides
/// together bring there is not looked for.
Status check_written(const char* name, const Tensor& t) {
  if (is_empty(t)) return {};
  for (int i = 0; i < t.rank; ++i) {
    if (t.strides[i] == 0 && t.dims[i] > 1) {
      return invalid_argument(string(name) + ": stride " + to_string(i) + " is 0 over " +
                              to_string(t.dims[i]) +
                              " elements; allowed: 1 or more, since it is written");
    }
    for (int other = 0; other < i; ++other) {
      if (t.dims[i] == 1 || t.dims[other] == 1 || !strides_meet(t, other, i)) continue;
      return invalid_argument(string(name) + ": strides " + to_string(other) + " and " +
                              to_string(i) + " are " + to_string(t.strides[other]) + " and " +
                              to_string(t.strides[i]) + " over " + to_string(t.dims[other]) +
                              " and " + to_string(t.dims[i]) +
                              " elements; allowed: a place of its own for each element, since it "
                              "is written");
    }
  }
  return {};
}

/// Where a tensor's elements lie. Strides must have been checked.
RunChecker::Place place_of(const char* name, const Tensor& t) {
  int64_t last = 0, elements = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] < 2 || t.strides[i] == 0) continue;
    last += (t.dims[i] - 1) * t.strides[i];
    if (__builtin_mul_overflow(elements, t.dims[i], &elements)) elements = 0;  // overlaps itself
  }
  const auto begin = reinterpret_cast<uintptr_t>(t.data);
  const auto size = static_cast<uintptr_t>(size_of(t.dtype));
  return {name, begin, begin + static_cast<uintptr_t>(last) * size, elements == last + 1};
}

/// Whether the first or the last element of `a` lies in `b`, which has no gaps.
bool lies_in(const RunChecker::Place& a, const RunChecker::Place& b) {
  const auto within = [&](uintptr_t at) { return at >= b.first && at <= b.last; };
  return b.dense && (within(a.first) || within(a.last));
}

}  // namespace

bool is_empty(const Tensor& t) {
  return std::find(t.dims.begin(), t.dims.begin() + t.rank, 0) != t.dims.begin() + t.rank;
}

void RunChecker::output(const char* name, const Tensor& t, const TensorSpec& spec) {
  if (status_.ok()) status_ = check_one(name, t, spec);
  if (status_.ok()) status_ = check_shared(name, t);
  if (status_.ok() && t.present()) status_ = check_written(name, t);
  remember(name, t);
}

void RunChecker::input(const char* name, const Tensor& t, const TensorSpec& spec) {
  if (status_.ok()) status_ = check_one(name, t, spec);
  remember(name, t);
}

void RunChecker::remember(const char* name, const Tensor& t) {
  if (!status_.ok() || !t.present() || is_empty(t)) return;
  if (count_ < kMostTensors) seen_[count_++] = place_of(name, t);
}

/// What is written in tiles while other tiles are still read must lie apart from it. Two views that
/// both have gaps are not looked into: they may interleave.
Status RunChecker::check_shared(const char* name, const Tensor& t) const {
  if (!t.present() || is_empty(t)) return {};
  const Place own = place_of(name, t);
  for (int i = 0; i < count_; ++i) {
    const Place& other = seen_[i];
    if (other.first == own.first) {
      return invalid_argument(string(name) + ": begins where " + other.name +
                              " does; allowed: memory of its own, since it is written");
    }
    if (lies_in(own, other) || lies_in(other, own)) {
      return invalid_argument(
          string(name) + ": begins " +
          to_string(std::max(own.first, other.first) - std::min(own.first, other.first)) +
          " bytes " + (own.first > other.first ? "behind" : "before") + " the first of " +
          other.name +
          ", and shares memory with it; allowed: memory of its own, since it "
          "is written");
    }
  }
  return {};
}

Status RunChecker::check_one(const char* name, const Tensor& t, const TensorSpec& spec) const {
  if (t.present() != spec.present()) {
    return invalid_argument(string(name) + (t.present() ? ": given" : ": absent") +
                            "; allowed: " + (spec.present() ? format_spec(spec) : "absent"));
  }
  if (!t.present()) return {};
  if (spec_of(t) != spec) {
    return invalid_argument(string(name) + ": is " + format_spec(spec_of(t)) +
                            "; allowed: " + format_spec(spec));
  }
  if (t.device != device_) {
    return invalid_argument(string(name) + ": is on " + fa4::to_string(t.device) +
                            "; allowed: " + fa4::to_string(device_) + ", where this call runs");
  }
  if (t.data == nullptr && !is_empty(t)) {
    return invalid_argument(string(name) + ": data is null; allowed: a pointer to " +
                            format_spec(spec));
  }
  const auto step = static_cast<uintptr_t>(size_of(t.dtype));
  if (const auto address = reinterpret_cast<uintptr_t>(t.data);
      address % step != 0 && !is_empty(t)) {
    return invalid_argument(string(name) + ": data lies " + to_string(address % step) +
                            " bytes past a multiple of " + to_string(step) +
                            "; allowed: an address that its elements may have, a multiple of " +
                            to_string(step));
  }
  return check_strides(name, t);
}

}  // namespace fa4::core
