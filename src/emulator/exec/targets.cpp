// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/exec/targets.h"

#include <hwy/targets.h>

namespace fa4::emulator::exec {

bool has_avx2() {
  static const bool has = (hwy::SupportedTargets() & HWY_AVX2) != 0;
  return has;
}

}  // namespace fa4::emulator::exec
