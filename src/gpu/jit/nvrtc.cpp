// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/jit/nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <span>

#include "gpu/device_sources.h"
#include "gpu/dynamic_library.h"
#include "gpu/jit/environment.h"

namespace fa4::gpu::jit {
namespace {

/// NVRTC's functions (NVRTC reference, 12.0 and later). Results: 0 = success.
struct NvrtcApi {
  int (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(int error);
  int (*nvrtcCreateProgram)(void** program, const char* source, const char* name, int header_count,
                            const char* const* headers, const char* const* header_names);
  int (*nvrtcDestroyProgram)(void** program);
  int (*nvrtcCompileProgram)(void* program, int option_count, const char* const* options);
  int (*nvrtcGetProgramLogSize)(void* program, size_t* bytes);
  int (*nvrtcGetProgramLog)(void* program, char* log);
  int (*nvrtcGetCUBINSize)(void* program, size_t* bytes);
  int (*nvrtcGetCUBIN)(void* program, char* cubin);
  int (*nvrtcGetPTXSize)(void* program, size_t* bytes);
  int (*nvrtcGetPTX)(void* program, char* ptx);
};

struct Nvrtc {
  NvrtcApi api{};
  std::string reason;
  std::string version;
  std::string path;
};

/// Where the wheels nvidia-cuda-nvrtc (CUDA 13: nvidia/cu13, 12: nvidia/cuda_nvrtc) put it, below
/// lib/python3.*/site-packages and dist-packages.
void add_wheel_places(const std::string& root, std::vector<std::string>& names) {
  std::error_code error;
  std::vector<std::string> pythons;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/lib", error)) {
    if (entry.path().filename().string().starts_with("python3")) pythons.push_back(entry.path());
  }
  std::sort(pythons.rbegin(), pythons.rend());
  for (const std::string& python : pythons) {
    for (const char* packages : {"/site-packages/nvidia/", "/dist-packages/nvidia/"}) {
      if (!std::filesystem::is_directory(python + packages, error)) continue;
      names.push_back(python + packages + "cu13/lib/libnvrtc.so.13");
      names.push_back(python + packages + "cuda_nvrtc/lib/libnvrtc.so.12");
    }
  }
}

/// NVRTC looks for its built-in functions by name when it compiles first. Not every wheel's NVRTC
/// looks beside itself; what is loaded already is found.
void load_builtins_beside(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("libnvrtc-builtins.so")) continue;
    DynamicLibrary builtins({entry.path().string()});
  }
}

Nvrtc open_nvrtc() {
  Nvrtc nvrtc;
  DynamicLibrary library(nvrtc_places());
  if (!library.is_open()) {
    nvrtc.reason = "no NVRTC (CUDA's run-time compiler); tried " + library.tried();
    return nvrtc;
  }
  nvrtc.path = library.path();
  load_builtins_beside(nvrtc.path);
  NvrtcApi& api = nvrtc.api;
  library.find("nvrtcVersion", api.nvrtcVersion);
  library.find("nvrtcGetErrorString", api.nvrtcGetErrorString);
  library.find("nvrtcCreateProgram", api.nvrtcCreateProgram);
  library.find("nvrtcDestroyProgram", api.nvrtcDestroyProgram);
  library.find("nvrtcCompileProgram", api.nvrtcCompileProgram);
  library.find("nvrtcGetProgramLogSize", api.nvrtcGetProgramLogSize);
  library.find("nvrtcGetProgramLog", api.nvrtcGetProgramLog);
  library.find("nvrtcGetCUBINSize", api.nvrtcGetCUBINSize);
  library.find("nvrtcGetCUBIN", api.nvrtcGetCUBIN);
  library.find("nvrtcGetPTXSize", api.nvrtcGetPTXSize);
  library.find("nvrtcGetPTX", api.nvrtcGetPTX);
  int major = 0, minor = 0;
  if (!library.missing().empty()) {
    nvrtc.reason = "NVRTC " + library.name() + " lacks " + library.missing();
  } else if (api.nvrtcVersion(&major, &minor) != 0) {
    nvrtc.reason = "NVRTC " + library.name() + " does not tell its version";
  }
  nvrtc.version = std::to_string(major) + "." + std::to_string(minor);
  return nvrtc;
}

const Nvrtc& nvrtc() {
  static const Nvrtc instance = open_nvrtc();
  return instance;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The number that stands before `unit` in ptxas's line, summed over the log.
int sum_before(const std::string& log, const std::string& unit) {
  int sum = 0;
  for (size_t at = log.find(unit); at != std::string::npos; at = log.find(unit, at + 1)) {
    size_t begin = at;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(log[begin - 1])) != 0) --begin;
    if (begin < at) sum += std::atoi(log.substr(begin, at - begin).c_str());
  }
  return sum;
}

std::string read_log(const NvrtcApi& api, void* program) {
  size_t bytes = 0;
  if (api.nvrtcGetProgramLogSize(program, &bytes) != 0 || bytes < 2) return {};
  std::string log(bytes, '\0');
  api.nvrtcGetProgramLog(program, log.data());
  log.resize(bytes - 1);
  return log;
}

Status read_result(const NvrtcApi& api, void* program, CodeFormat format, Compiled& result) {
  size_t bytes = 0;
  int error = api.nvrtcGetPTXSize(program, &bytes);
  if (error == 0) {
    result.ptx.resize(bytes);
    error = api.nvrtcGetPTX(program, result.ptx.data());
    result.ptx.resize(bytes - 1);  // the terminating zero
  }
  if (format == CodeFormat::kPtx) {
    const auto text = std::as_bytes(std::span(result.ptx));
    result.code.assign(text.begin(), text.end());
  } else {
    if (error == 0) error = api.nvrtcGetCUBINSize(program, &bytes);
    if (error == 0) {
      result.code.resize(bytes);
      error = api.nvrtcGetCUBIN(program, reinterpret_cast<char*>(result.code.data()));
    }
  }
  if (error == 0) return {};
  return {StatusCode::kRuntimeError,
          std::string("NVRTC gave no code: ") + api.nvrtcGetErrorString(error)};
}

/// "sm_90a" as NVRTC's option: the real architecture gives machine code, the virtual one stops at
/// PTX.
std::string architecture_option(const std::string& target, CodeFormat format) {
  const std::string prefix = "--gpu-architecture=";
  return prefix + (format == CodeFormat::kPtx ? "compute_" + target.substr(3) : target);
}

}  // namespace

const std::vector<std::string>& compile_options() {
  // --minimal leaves out language features that we have no use for: the same code, 40 ms sooner.
  static const std::vector<std::string> options = [] {
    std::vector<std::string> all = {"--std=c++20", "--use_fast_math", "--ptxas-options=-v"};
    if (nvrtc().version.starts_with("13.")) all.emplace_back("--minimal");
    return all;
  }();
  return options;
}

std::vector<std::string> nvrtc_places() {
  if (const std::string named = environment("FA4_NVRTC"); !named.empty()) return {named};
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment(variable);
    if (root.empty()) continue;
    names.push_back(root + "/lib64/libnvrtc.so");
    names.push_back(root + "/lib/libnvrtc.so");
  }
  for (const char* folder : {"lib64", "lib"}) {
    names.push_back(std::string("/usr/local/cuda/") + folder + "/libnvrtc.so.13");
    names.push_back(std::string("/usr/local/cuda/") + folder + "/libnvrtc.so.12");
  }
  for (const std::string& root :
       {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"), environment("HOME") + "/.local",
        std::string("/usr/local"), std::string("/usr")}) {
    if (!root.empty()) add_wheel_places(root, names);
  }
  return names;
}

std::string nvrtc_path() { return nvrtc().path; }

Result<std::string> nvrtc_version() {
  if (!nvrtc().reason.empty()) return unsupported(nvrtc().reason);
  return nvrtc().version;
}

Result<Compiled> compile(const Program& program, CodeFormat format) {
  if (!nvrtc().reason.empty()) return unsupported(nvrtc().reason);
  const NvrtcApi& api = nvrtc().api;
  std::vector<const char*> names, texts;
  for (const SourceFile& file : device_sources()) {
    names.push_back(file.name);
    texts.push_back(file.text);
  }
  const std::string target = architecture_option(program.target, format);
  std::vector<const char*> options = {target.c_str()};
  for (const std::string& option : compile_options()) options.push_back(option.c_str());
  for (const std::string& option : program.options) options.push_back(option.c_str());

  void* handle = nullptr;
  int error = api.nvrtcCreateProgram(&handle, program.source.c_str(), "fa4.cu",
                                     static_cast<int>(names.size()), texts.data(), names.data());
  if (error != 0) {
    return Status(StatusCode::kRuntimeError,
                  std::string("nvrtcCreateProgram: ") + api.nvrtcGetErrorString(error));
  }
  Compiled result;
  const double begin = cpu_seconds();
  error = api.nvrtcCompileProgram(handle, static_cast<int>(options.size()), options.data());
  result.cpu_seconds = cpu_seconds() - begin;
  result.log = read_log(api, handle);
  Status status;
  if (error != 0) {
    status = {StatusCode::kRuntimeError, std::string("nvrtcCompileProgram: ") +
                                             api.nvrtcGetErrorString(error) + "\n" + result.log};
  } else {
    status = read_result(api, handle, format, result);
  }
  api.nvrtcDestroyProgram(&handle);
  if (!status.ok()) return status;
  result.registers = sum_before(result.log, " registers");
  result.spill_bytes = sum_before(result.log, " bytes spill");
  result.serialized = result.log.find("instructions are serialized") != std::string::npos;
  return result;
}

}  // namespace fa4::gpu::jit
