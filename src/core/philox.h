// SPDX-License-Identifier: BSD-3-Clause
// The counter-based generator behind dropout: Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC11). Keyed by position, so that tiles, threads and backends don't
// matter.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace fa4::core {

/// Four 32-bit random numbers for a 128-bit counter and a 64-bit key.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

/// The dropout mask of one attention call.
struct Dropout {
  uint64_t seed = 0;
  uint32_t threshold = 0;  ///< Entries whose number is below are dropped.
  double keep_scale = 1;   ///< What kept entries are multiplied with: 1 / (their share).

  static Dropout make(double p, uint64_t seed) {
    const auto threshold = static_cast<uint32_t>(std::ldexp(p, 32));
    return {seed, threshold, 0x1p32 / (0x1p32 - threshold)};
  }
  /// The numbers of keys 4 * quad .. 4 * quad + 3 for query row q. Indices count from the
  /// sequence's first row, padding included.
  std::array<uint32_t, 4> numbers(int64_t sequence, int64_t head, int64_t q, int64_t quad) const {
    return philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(q),
                       static_cast<uint32_t>(head), static_cast<uint32_t>(sequence)},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
};

}  // namespace fa4::core
