// SPDX-License-Identifier: BSD-3-Clause
// How fa4 reports errors: a Status for calls that return nothing else, a Result<T> for those that
// do.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace fa4 {

enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument =
      1,              ///< The caller's argument is wrong; the message names it and what is allowed.
  kUnsupported = 2,   ///< Legal, but this backend can't do it; the message says what it lacks.
  kOutOfMemory = 3,   ///< An allocation failed, or a size does not fit 64 bits.
  kRuntimeError = 4,  ///< The device, a driver or the operating system failed.
};

/// Thrown by Status::check() and Result::value(), the throwing layer; nothing else in fa4 throws.
class Error : public std::runtime_error {
 public:
  Error(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  StatusCode code() const noexcept { return code_; }

 private:
  StatusCode code_;
};

/// The outcome of a call: a code, and for errors a message that names the argument, what it was and
/// what is allowed.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const noexcept { return code_ == StatusCode::kOk; }
  StatusCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  /// Throws Error unless ok().
  void check() const {
    if (!ok()) throw Error(code_, message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status unsupported(std::string message) {
  return {StatusCode::kUnsupported, std::move(message)};
}

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }

  /// The value; throws Error if there is none.
  T& value() & {
    status_.check();
    return *value_;
  }
  const T& value() const& {
    status_.check();
    return *value_;
  }
  T&& value() && {
    status_.check();
    return std::move(*value_);
  }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace fa4
