// SPDX-License-Identifier: BSD-3-Clause
// NVRTC, the CUDA compiler as a library: found at run time, used in process.
#pragma once

#include <fa4/status.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/code_format.h"

namespace fa4::gpu::jit {

/// One file that a program may include by name.
struct SourceFile {
  const char* name;
  const char* text;
};

struct Program {
  std::string source;
  std::string target;                ///< "sm_90a"
  std::vector<std::string> options;  ///< Beside compile_options(); part of a cache key too.
};

/// What a compile gave, and what ptxas said about it (for PTX it has not run: zeros).
struct Compiled {
  std::vector<std::byte> code;  ///< In the format asked for.
  std::string ptx;
  std::string log;
  int registers = 0;
  int spill_bytes = 0;      ///< Stores and loads.
  bool serialized = false;  ///< ptxas could not keep the matrix products asynchronous.
  double cpu_seconds = 0;
};

/// Options that every program is compiled with, apart from its target: part of a cache key.
const std::vector<std::string>& compile_options();

/// "13.0", or why there is no NVRTC: every place that was tried.
Result<std::string> nvrtc_version();
/// The file that it was loaded from; "" if there is none.
std::string nvrtc_path();

/// Where NVRTC is looked for, in this order: $FA4_NVRTC and then nothing else if it is set; by
/// soname; the toolkit ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda); the nvidia-cuda-nvrtc wheels of
/// $VIRTUAL_ENV, $CONDA_PREFIX, the user's and the system's Python.
std::vector<std::string> nvrtc_places();

/// Compiles for a target that need not be there. Errors carry the compiler's log.
Result<Compiled> compile(const Program& program, CodeFormat format = CodeFormat::kCubin);

}  // namespace fa4::gpu::jit
