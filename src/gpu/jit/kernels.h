// SPDX-License-Identifier: BSD-3-Clause
// From a program's text to a loaded kernel: memory first, then the store, then NVRTC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/jit/nvrtc.h"
#include "gpu/runtime.h"

namespace fa4::gpu::jit {

/// What identifies a compiled program: every byte that went into it, the compiler and the library.
std::string cache_key(const Program& program, CodeFormat format,
                      const std::string& compiler_version);

/// A program's code, and where it came from.
struct Code {
  std::vector<std::byte> bytes;
  bool stored = false;     ///< Found in the user's store; else compiled,
  bool kept = false;       ///< and put there.
  double cpu_seconds = 0;  ///< Of the compile.
};
/// From the store at Store::default_folder(), or compiled. What was compiled is used as it is: the
/// store is not read back.
Result<Code> obtain(const Program& program, CodeFormat format);

/// Loads the kernel `entry` of `program` on `runtime`. Each is compiled and loaded once a process;
/// threads that ask for the same one wait for it, others don't.
Result<std::shared_ptr<const Kernel>> load_kernel(const Runtime& runtime, const Program& program,
                                                  const std::string& entry, unsigned shared_bytes);

}  // namespace fa4::gpu::jit
