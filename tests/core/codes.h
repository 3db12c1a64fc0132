// SPDX-License-Identifier: BSD-3-Clause
// Short names of what a check of arguments answers.
#pragma once

#include <fa4/status.h>

namespace fa4::test {

inline constexpr auto kInvalid = StatusCode::kInvalidArgument;
inline constexpr auto kUnsupported = StatusCode::kUnsupported;

}  // namespace fa4::test
