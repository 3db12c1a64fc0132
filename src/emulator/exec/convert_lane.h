// SPDX-License-Identifier: BSD-3-Clause
// Conversions that have no vector handler: one lane at a time.
#pragma once

#include "emulator/exec/handlers.h"

namespace fa4::emulator::exec {

Handler convert_any(const Conversion& conversion, Inst& inst);

}  // namespace fa4::emulator::exec
