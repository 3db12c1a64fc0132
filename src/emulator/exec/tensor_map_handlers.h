// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps that kernels change.
#pragma once

#include "emulator/program.h"

namespace fa4::emulator::exec {

/// tensormap.replace: a address, b new value (kNone: it is mod[2]); mod[0] TensorMapField, mod[1]
/// the dimension.
Handler replace_field();
/// tensormap.cp_fenceproxy: a address in global, b in shared memory, of mod[1] bytes and with the
/// offset e.
Handler copy_tensor_map();
/// fence.proxy.tensormap::generic.acquire: a address.
Handler acquire_tensor_map();

}  // namespace fa4::emulator::exec
