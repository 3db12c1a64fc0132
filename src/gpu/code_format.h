// SPDX-License-Identifier: BSD-3-Clause
// The form in which compiled kernels travel.
#pragma once

namespace fa4::gpu {

enum class CodeFormat { kCubin, kPtx };

}  // namespace fa4::gpu
