// SPDX-License-Identifier: BSD-3-Clause
// A matrix product on the tensor core, as hand-written PTX: whole matrices of small integers, so
// that every sum is exact and the result must be equal to the bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/kernels/tensor_operand.h"

namespace fa4::emulator::test {

enum class Result : uint8_t { kF16, kF32, kS32 };

struct Gemm {
  Element a = Element::kBF16, b = Element::kBF16;
  Result d = Result::kF32;
  uint32_t group = 1;  ///< CTAs.
  uint32_t m = 128, n = 128;
  uint32_t steps = 4;  ///< Products along K, of 32 bytes each.
  bool a_mn_major = false, b_mn_major = false;
  Swizzle a_swizzle = Swizzle::k128B, b_swizzle = Swizzle::k128B;
  bool a_in_tensor = false;
  uint32_t lane = 0;  ///< Of D, and of A in tensor memory: 0, or 16 with m = 64.
  bool negate_a = false, negate_b = false, saturate = false;
  bool accumulate = false;         ///< Onto what is there: 3 in each cell.
  uint32_t scale = 0;              ///< scale-input-d, of the first product.
  std::vector<uint32_t> disabled;  ///< disable-output-lane: none, 4 or 8 words.
};
std::string name_of(const Gemm& gemm);

struct GemmRun {
  std::string error;
  /// Cells that hold something else than they should: of those that D covers, and of all others.
  size_t wrong = 0, touched = 0;
  std::string first;  ///< Description of the first of them.
  Tally tally;
};
GemmRun run_gemm(const Gemm& gemm, const RunOptions& options = {});

/// The body of the kernel that run_gemm() runs, and the same run with another body.
std::string gemm_kernel(const Gemm& gemm);
GemmRun run_gemm(const Gemm& gemm, const std::string& kernel, const RunOptions& options);

}  // namespace fa4::emulator::test
