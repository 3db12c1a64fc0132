// SPDX-License-Identifier: BSD-3-Clause
// A call on tensors that live in host memory, run on a GPU: copies there and back.
#pragma once

#include <functional>

#include "cli/attend_tensors.h"

namespace fa4::cli {

/// Copies every array to `device`, runs `call` on the copies, and copies back what calls write. On
/// the CPU it just runs `call`.
Status call_on(
    Device device, const AttendArrays& arrays,
    const std::function<Status(const AttentionTensors&, const AttentionGradients&)>& call);

}  // namespace fa4::cli
