// SPDX-License-Identifier: BSD-3-Clause
// From a program's text to a loaded kernel: memory first, then the store, then NVRTC.
#pragma once

#include <memory>
#include <string>

#include "gpu/jit/nvrtc.h"
#include "gpu/runtime.h"

namespace fa4::gpu::jit {

/// What identifies a compiled program: every byte that went into it, the compiler and the library.
std::string cache_key(const Program& program, CodeFormat format,
                      const std::string& compiler_version);

/// Loads the kernel `entry` of `program` on `runtime`. Each is compiled and loaded once a process;
/// threads that ask for the same one wait for it, others don't.
Result<std::shared_ptr<const Kernel>> load_kernel(const Runtime& runtime, const Program& program,
                                                  const std::string& entry, unsigned shared_bytes);

}  // namespace fa4::gpu::jit
