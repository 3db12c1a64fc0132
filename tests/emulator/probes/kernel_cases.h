// SPDX-License-Identifier: BSD-3-Clause
// A problem for each of the library's sm_90a forward kernels, with data for which every device must
// give the same bits, and with real data.
#pragma once

#include <fa4/device.h>

#include <string>
#include <vector>

#include "emulator/probes/run.h"
#include "gpu/sm90_forward_config.h"
#include "support/case.h"

namespace fa4::emulator::probes {

struct KernelCase {
  gpu::sm90::ForwardConfig config;
  bool exact = false;
  std::string name;  ///< The kernel's, then "/exact" or "/real".
};

/// Every kernel, exact and real. Half of them have two tiles of queries at least; all have several
/// tiles of keys.
std::vector<KernelCase> kernel_cases();

/// The problem. Exact: each row sees a number of keys that is a power of two with score 0 and all
/// others with one so low that their weight is 0; values are small whole numbers. So sums are exact
/// in every order, 2^0, 2^-large and the reciprocal and logarithm of a power of two are too, and
/// nothing is left to a device's own rounding. Throws if no problem chooses that kernel.
test::Case make_case(const KernelCase& kernel);

/// out, then lse, of the case run on the device.
Result<Words> run_case(const KernelCase& kernel, Device device);

/// Of real data a fixture has this many words, spread over out and lse.
constexpr size_t kSamples = 32;
constexpr size_t sample_place(size_t i, size_t words) { return i * (words - 1) / (kSamples - 1); }

/// The bits of out alone: run_case()'s words in front of lse.
size_t out_words(const test::Case& c);

/// How far apart two results are, in units in the last place of the output's type at each number,
/// and at numbers no smaller than their row's root mean square.
struct KernelDifference {
  double ulps = 0;
  double row_ulps = 0;
  double lse = 0;  ///< Absolute.
};
/// Real data's differences stay below these between an H200 and the emulator: docs/notes/
/// emulator_h200.md says why.
constexpr double kMostRowUlps = 2;
constexpr double kMostLse = 4e-6;

KernelDifference compare_case(const test::Case& c, const Words& mine, const Words& theirs);

}  // namespace fa4::emulator::probes
