// SPDX-License-Identifier: BSD-3-Clause
// SHA-256 (FIPS 180-4), for cache keys and checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fa4::gpu::jit {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> data);
Digest sha256(std::string_view text);
/// 64 hexadecimal digits.
std::string to_hex(const Digest& digest);

}  // namespace fa4::gpu::jit
