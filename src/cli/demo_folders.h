// SPDX-License-Identifier: BSD-3-Clause
// Where the demo's input lies.
#pragma once

namespace fa4::cli {

extern const char* const kInstalledData;  ///< Beside the installed program: relative to its folder.
extern const char* const kSourceData;     ///< In the source.

}  // namespace fa4::cli
