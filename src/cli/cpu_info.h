// SPDX-License-Identifier: BSD-3-Clause
// What the processor is and has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fa4::cli {

struct Cache {
  int level = 0;
  std::string type;  ///< "Data", "Instruction", "Unified".
  int64_t bytes = 0;
  int sharers = 1;  ///< Logical CPUs that share one.
};

struct CpuInfo {
  std::string model;               ///< "unknown" where the system does not say.
  int logical = 0;                 ///< CPUs that are online.
  int usable = 0;                  ///< CPUs that this process may use.
  std::vector<Cache> caches;       ///< Of CPU 0.
  std::vector<std::string> flags;  ///< Instruction sets of interest that it has.
  int64_t memory_bytes = 0;

  /// The largest cache; 32 MiB where the system does not say.
  int64_t last_level_bytes() const;
};

CpuInfo cpu_info();

/// Highway targets that this processor can run and the library has, best first.
std::vector<std::string> library_targets();

/// The one that plans use: FA4_CPU_TARGET's, else the best. Empty if the library refuses it.
std::string active_target();

/// "32 MiB", "512 KiB".
std::string format_bytes(int64_t bytes);

}  // namespace fa4::cli
