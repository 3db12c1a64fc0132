// SPDX-License-Identifier: BSD-3-Clause
// Cases on a GPU, real or emulated.
#pragma once

#include <string>

#include "support/case.h"

namespace fa4::test {

/// Copies the case's tensors to its device, runs the forward there with a workspace that holds
/// anything, and copies out and lse back. They must be there and poisoned.
Status forward_on_gpu(Case& c);

/// Gives q, k, v and out strides that a GPU takes, in the order that they have now: the last dim
/// dense, the others multiples of 16 bytes, 0 where it was 0.
void make_strides_legal_on_gpu(Case& c);

/// Why the device runs no forward here; empty: it does.
std::string why_no_forward(Device device);

}  // namespace fa4::test
