// SPDX-License-Identifier: BSD-3-Clause
// Pieces of error messages. Every message reads "argument: what it was; allowed: what is".
#pragma once

#include <fa4/plan.h>

#include <initializer_list>
#include <string>

namespace fa4::core {

/// "[2, 128, 8, 64]"; a rank that no tensor can have is named behind it.
std::string format_dims(const TensorSpec& spec);
/// "bfloat16 [2, 128, 8, 64]".
std::string format_spec(const TensorSpec& spec);
/// Shortest text that reads back as the same number.
std::string format_number(double x);

}  // namespace fa4::core
