// SPDX-License-Identifier: BSD-3-Clause
// The folder device/, embedded when the library is built.
#pragma once

#include <span>
#include <string_view>

#include "gpu/jit/nvrtc.h"

namespace fa4::gpu {

/// Every file below device/, named relative to it.
std::span<const jit::SourceFile> device_sources();
/// SHA-256 over all their names and bytes, in hexadecimal.
std::string_view device_sources_hash();

}  // namespace fa4::gpu
