// SPDX-License-Identifier: BSD-3-Clause
// Where things lie in this build. Paths are in one source alone, so that a compiler cache can serve
// the others to any folder.
#pragma once

namespace fa4::test {

extern const char* const kProgram;       ///< The file fa4; "" if it is not built.
extern const char* const kSourceFolder;  ///< The repository's root.

}  // namespace fa4::test
