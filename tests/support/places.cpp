// SPDX-License-Identifier: BSD-3-Clause
#include "support/places.h"

namespace fa4::test {

const char* const kProgram = FA4_PROGRAM;
const char* const kSourceFolder = FA4_SOURCE_DIR;

}  // namespace fa4::test
