// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/jit/kernels.h"

#include <fa4/version.h>

#include <map>
#include <mutex>

#include "gpu/device_sources.h"
#include "gpu/jit/sha256.h"
#include "gpu/jit/store.h"

namespace fa4::gpu::jit {
namespace {

/// One program's slot: who holds its mutex fills it.
struct Slot {
  std::mutex mutex;
  std::shared_ptr<const Kernel> kernel;
};

std::shared_ptr<Slot> slot_of(const Runtime& runtime, const std::string& key) {
  static std::mutex mutex;
  static std::map<std::pair<const Runtime*, std::string>, std::shared_ptr<Slot>> slots;
  const std::lock_guard lock(mutex);
  auto& slot = slots[{&runtime, key}];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

/// The program's code, from the store or compiled. Whoever compiles uses its own bytes: the store
/// is not read back.
Result<std::vector<std::byte>> code_of(const Program& program, CodeFormat format,
                                       const std::string& key) {
  const Store store(Store::default_folder());
  if (auto stored = store.get(key)) return *std::move(stored);
  auto compiled = compile(program, format);
  if (!compiled.ok()) return compiled.status();
  store.put(key, compiled->code);
  return std::move(compiled->code);
}

}  // namespace

std::string cache_key(const Program& program, CodeFormat format,
                      const std::string& compiler_version) {
  std::string text = "fa4cpp " FA4_VERSION_STRING "\n";
  text += "device " + std::string(device_sources_hash()) + "\n";
  text += "nvrtc " + compiler_version + "\ntarget " + program.target;
  text += format == CodeFormat::kCubin ? " cubin\n" : " ptx\n";
  for (const std::string& option : compile_options()) text += option + "\n";
  return to_hex(sha256(text + program.source));
}

Result<std::shared_ptr<const Kernel>> load_kernel(const Runtime& runtime, const Program& program,
                                                  const std::string& entry, unsigned shared_bytes) {
  const auto version = nvrtc_version();
  if (!version.ok()) return version.status();
  const std::string key = cache_key(program, runtime.code_format(), *version);
  const std::shared_ptr<Slot> slot = slot_of(runtime, key);
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel != nullptr) return slot->kernel;
  const auto code = code_of(program, runtime.code_format(), key);
  if (!code.ok()) return code.status();
  auto kernel = runtime.load(*code, entry, shared_bytes);
  if (kernel.ok()) slot->kernel = *kernel;
  return kernel;
}

}  // namespace fa4::gpu::jit
