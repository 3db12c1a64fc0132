// SPDX-License-Identifier: BSD-3-Clause
// A header of its own, since unsupported_calls.cpp must not see CUDA's declarations.
#pragma once

namespace fa4::foreign {

/// Says that the runtime's function is not supported, and gives cudaErrorNotSupported.
int unsupported(const char* name);

}  // namespace fa4::foreign
