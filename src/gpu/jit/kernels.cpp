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

Result<Code> obtain_as(const std::string& key, const Program& program, CodeFormat format) {
  const Store store(Store::default_folder());
  store.sweep();
  if (auto stored = store.get(key)) return Code{*std::move(stored), true, true, 0};
  auto compiled = compile(program, format);
  if (!compiled.ok()) return compiled.status();
  const bool kept = store.put(key, compiled->code);
  return Code{std::move(compiled->code), false, kept, compiled->cpu_seconds};
}

}  // namespace

std::string cache_key(const Program& program, CodeFormat format,
                      const std::string& compiler_version) {
  std::string text = "fa4cpp " FA4_VERSION_STRING "\n";
  text += "device " + std::string(device_sources_hash()) + "\n";
  text += "nvrtc " + compiler_version + "\ntarget " + program.target;
  text += format == CodeFormat::kCubin ? " cubin\n" : " ptx\n";
  for (const std::string& option : compile_options()) text += option + "\n";
  for (const std::string& option : program.options) text += option + "\n";
  return to_hex(sha256(text + program.source));
}

Result<Code> obtain(const Program& program, CodeFormat format) {
  const auto version = nvrtc_version();
  if (!version.ok()) return version.status();
  return obtain_as(cache_key(program, format, *version), program, format);
}

Result<std::shared_ptr<const Kernel>> load_kernel(const Runtime& runtime, const Program& program,
                                                  const std::string& entry, unsigned shared_bytes) {
  const auto version = nvrtc_version();
  if (!version.ok()) return version.status();
  const std::string key = cache_key(program, runtime.code_format(), *version);
  const std::shared_ptr<Slot> slot = slot_of(runtime, key);
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel != nullptr) return slot->kernel;
  const auto code = obtain_as(key, program, runtime.code_format());
  if (!code.ok()) return code.status();
  auto kernel = runtime.load(code->bytes, entry, shared_bytes);
  if (kernel.ok()) slot->kernel = *kernel;
  return kernel;
}

}  // namespace fa4::gpu::jit
