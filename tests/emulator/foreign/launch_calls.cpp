// SPDX-License-Identifier: BSD-3-Clause
// Registration and launches.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "device.h"
#include "gpu/emulator_settings.h"

using fa4::foreign::Device;
using fa4::foreign::fail;
using fa4::foreign::Function;
namespace emulator = fa4::emulator;

namespace fa4::foreign {
namespace {

struct Configuration {
  dim3 grid, block;
  dim3 cluster{0, 0, 0};
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

thread_local std::vector<Configuration> g_pushed;

std::string text(const dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

std::string text(const Function& f, const Configuration& c) {
  std::string line = f.name + ": grid " + text(c.grid) + ", block " + text(c.block);
  if (c.cluster.x != 0) line += ", cluster " + text(c.cluster);
  return line + ", " + std::to_string(c.shared) + " bytes of dynamic shared memory";
}

/// What hardware refuses and the emulator need not know.
cudaError_t check(const Function& f, const Configuration& c) {
  if (c.shared > static_cast<size_t>(f.max_dynamic_shared)) {
    return fail(cudaErrorInvalidValue, "launch of " + text(f, c) +
                                           "; allowed: " + std::to_string(f.max_dynamic_shared) +
                                           ", as cudaFuncSetAttribute() was told");
  }
  if (!f.large_clusters && uint64_t{c.cluster.x} * c.cluster.y * c.cluster.z > 8) {
    return fail(cudaErrorInvalidClusterSize,
                "launch of " + text(f, c) +
                    "; allowed: 8 blocks of a cluster, without the attribute for more");
  }
  return cudaSuccess;
}

std::vector<std::byte> parameters(const emulator::Kernel& kernel, void** args) {
  std::vector<std::byte> bytes(kernel.param_bytes);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    std::memcpy(bytes.data() + kernel.params[i].offset, args[i], kernel.params[i].bytes);
  }
  return bytes;
}

/// The first few places of each rule, and how many more there are.
void report_warnings(const Function& f, const std::vector<emulator::Report>& warnings) {
  constexpr int kPlaces = 3;
  std::map<emulator::Rule, int> places;
  for (const emulator::Report& r : warnings) {
    if (++places[r.rule] > kPlaces) continue;
    std::fprintf(stderr, "fa4_foreign: warning in %s, %llu times: %s\n", f.name.c_str(),
                 static_cast<unsigned long long>(r.count), r.text.c_str());
  }
  for (const auto& [rule, number] : places) {
    if (number <= kPlaces) continue;
    std::fprintf(stderr, "fa4_foreign: warning in %s: %s at %d places more\n", f.name.c_str(),
                 std::string(emulator::text_of(rule).name).c_str(), number - kPlaces);
  }
}

void report(const Function& f, const Configuration& c, const emulator::Tally& tally,
            double seconds) {
  report_warnings(f, tally.warnings);
  if (std::getenv("FA4_FOREIGN_VERBOSE") == nullptr) return;
  std::fprintf(stderr,
               "fa4_foreign: ran %s: %llu warp-instructions, %.4g flops in matrix products, %zu "
               "kinds of warnings, %.2f s\n",
               text(f, c).c_str(), static_cast<unsigned long long>(tally.instructions),
               static_cast<double>(tally.matrix_flops), tally.warnings.size(), seconds);
}

/// Options for a kernel: FA4_FOREIGN_CHECKED, if it is set, says which of them are judged.
emulator::RunOptions options_for(const Function& f, const gpu::EmulatorSettings& settings) {
  emulator::RunOptions options = settings.run;
  const char* checked = std::getenv("FA4_FOREIGN_CHECKED");
  if (checked != nullptr && f.name.find(checked) == std::string::npos) {
    options.checks = emulator::Checks::kOff;
  }
  options.print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  options.multiprocessors = static_cast<uint32_t>(settings.multiprocessors);
  return options;
}

cudaError_t launch(const void* host, const Configuration& c, void** args) {
  const Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  if (const cudaError_t error = check(*f, c); error != cudaSuccess) return error;
  if (args == nullptr && !f->kernel->params.empty()) {
    return fail(cudaErrorInvalidValue, "launch of " + f->name + ": no arguments were given");
  }
  const auto settings = gpu::emulator_settings();
  if (!settings.ok()) return fail(cudaErrorInvalidConfiguration, settings.status().message());
  emulator::LaunchConfig config;
  config.blocks = {c.grid.x, c.grid.y, c.grid.z};
  config.threads = {c.block.x, c.block.y, c.block.z};
  config.cluster = {c.cluster.x, c.cluster.y, c.cluster.z};
  config.dynamic_shared = static_cast<uint32_t>(c.shared);
  const auto start = std::chrono::steady_clock::now();
  const auto tally = emulator::run(f->kernel, config, parameters(*f->kernel, args),
                                   Device::get().memory(), options_for(*f, *settings));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  if (tally.ok()) {
    report(*f, c, *tally, time.count());
    return cudaSuccess;
  }
  const bool refused = tally.status().code() == StatusCode::kInvalidArgument;
  return fail(refused ? cudaErrorInvalidConfiguration : cudaErrorLaunchFailure,
              tally.status().message());
}

cudaError_t read_attribute(const cudaLaunchAttribute& a, Configuration& c) {
  switch (a.id) {
    case cudaLaunchAttributeClusterDimension:
      c.cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
      return cudaSuccess;
    // Launches end before the next begins, which all of these allow.
    case cudaLaunchAttributeIgnore:
    case cudaLaunchAttributeProgrammaticStreamSerialization:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
    case cudaLaunchAttributePreferredClusterDimension:
    case cudaLaunchAttributeAccessPolicyWindow:
      return cudaSuccess;
    default:
      return fail(cudaErrorNotSupported, "launch attribute " +
                                             std::to_string(static_cast<int>(a.id)) +
                                             " is not supported by the emulator");
  }
}

}  // namespace
}  // namespace fa4::foreign

using namespace fa4::foreign;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Device::get().register_function(host, name);
}
void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t, int, int) {
  Device::get().register_variable(host, name);
}
void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t, int, int) {
  fail(cudaErrorNotSupported, std::string("__managed__ variable ") + name + " is not supported");
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  g_pushed.push_back({grid, block, {0, 0, 0}, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (g_pushed.empty()) return fail(cudaErrorMissingConfiguration, "a launch without <<<>>>");
  const Configuration c = g_pushed.back();
  g_pushed.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

// Handles are looked up at the launch: a program may ask for kernels that it never starts.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return __cudaGetKernel(kernel, host);
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host) {
  Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  *function = reinterpret_cast<cudaFunction_t>(f);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  return launch(host, {grid, block, {0, 0, 0}, shared, stream}, args);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream) {
  return launch(kernel, {grid, block, {0, 0, 0}, shared, stream}, args);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** args) {
  if (config == nullptr) return fail(cudaErrorInvalidValue, "cudaLaunchKernelExC: no config");
  Configuration c{
      config->gridDim, config->blockDim, {0, 0, 0}, config->dynamicSmemBytes, config->stream};
  if (config->attrs == nullptr && config->numAttrs > 0) {
    return fail(cudaErrorInvalidValue, "cudaLaunchKernelExC: no attributes where there are " +
                                           std::to_string(config->numAttrs));
  }
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (const cudaError_t e = read_attribute(config->attrs[i], c); e != cudaSuccess) return e;
  }
  return launch(host, c, args);
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || value > 227 * 1024) {
        return fail(cudaErrorInvalidValue, f->name + ": dynamic shared memory is " +
                                               std::to_string(value) + "; allowed: 0 to 232448");
      }
      f->max_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      f->large_clusters = value != 0;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      return cudaSuccess;
    default:
      return fail(cudaErrorNotSupported, "function attribute " + std::to_string(attribute) +
                                             " is not supported by the emulator");
  }
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* host) {
  const Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  *out = {};
  const emulator::Kernel& k = *f->kernel;
  out->sharedSizeBytes = k.static_shared_end - emulator::kSharedStart;
  out->localSizeBytes = k.local_bytes;
  out->maxThreadsPerBlock = k.max_threads != 0 ? static_cast<int>(k.max_threads) : 1024;
  out->numRegs = 65536 / out->maxThreadsPerBlock;  // PTX does not say; what fits
  out->ptxVersion = out->binaryVersion = Device::get().major() * 10;
  out->maxDynamicSharedSizeBytes = f->max_dynamic_shared;
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* host) {
  const Function* f = Device::get().function(host);
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  *name = f->name.c_str();
  return cudaSuccess;
}

}  // extern "C"
