// SPDX-License-Identifier: BSD-3-Clause
// Libraries that are there or not: opened by name at run time, never linked.
#pragma once

#include <string>
#include <vector>

namespace fa4::gpu {

/// A shared library that stays open for the life of the process.
class DynamicLibrary {
 public:
  /// Opens the first of `names` that can be. If none can, `tried()` lists each with its reason, in
  /// one line.
  explicit DynamicLibrary(const std::vector<std::string>& names);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  /// The file behind name(), as far as the loader tells.
  std::string path() const;
  const std::string& tried() const { return tried_; }

  /// Sets `function` to the symbol; false, and remembers the name, if there is none.
  template <class Function>
  bool find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(address_of(symbol));
    return function != nullptr;
  }
  /// Symbols that find() looked for in vain, separated by ", ".
  const std::string& missing() const { return missing_; }

 private:
  void* address_of(const char* symbol);

  void* handle_ = nullptr;
  std::string name_;
  std::string tried_;
  std::string missing_;
};

}  // namespace fa4::gpu
