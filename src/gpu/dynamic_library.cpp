// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

namespace fa4::gpu {

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = name;
      return;
    }
    const char* error = dlerror();
    std::string reason = error != nullptr ? error : "unknown error";
    if (reason.starts_with(name + ": ")) reason.erase(0, name.size() + 2);
    tried_ += (tried_.empty() ? "" : ", ") + name + " (" + reason + ")";
  }
}

std::string DynamicLibrary::path() const {
  const link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return name_;
  return map->l_name;
}

void* DynamicLibrary::address_of(const char* symbol) {
  void* address = handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
  if (address == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(symbol);
  return address;
}

}  // namespace fa4::gpu
