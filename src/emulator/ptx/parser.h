// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "emulator/ptx/ast.h"

namespace fa4::emulator::ptx {

/// The module that `source` writes down; `source` must outlive it. Throws SourceError.
Module parse(std::string_view source);

}  // namespace fa4::emulator::ptx
