// SPDX-License-Identifier: BSD-3-Clause
// Numbers that tests of several files compare with.
#pragma once

#include <limits>

namespace fa4::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace fa4::test
