// SPDX-License-Identifier: BSD-3-Clause
// Compiled kernels on disk, one file an entry. Many processes may use one folder; a crash at any
// point leaves it good; what cannot be read or written is a miss, never an error.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fa4::gpu::jit {

class Store {
 public:
  /// `folder` is made when something is put. Empty: nothing is stored.
  explicit Store(std::string folder) : folder_(std::move(folder)) {}

  /// The folder for this user: $FA4_CACHE_DIR, else $XDG_CACHE_HOME/fa4cpp, else ~/.cache/fa4cpp;
  /// empty if none of them is set.
  static std::string default_folder();

  /// The bytes that were put under `key`, a name of letters and digits. An entry that is truncated
  /// or corrupt is removed.
  std::optional<std::vector<std::byte>> get(const std::string& key) const;
  /// False if the entry could not be written: the folder is then as it was.
  bool put(const std::string& key, std::span<const std::byte> bytes) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string path_of(const std::string& key) const { return folder_ + "/" + key + ".cubin"; }

  std::string folder_;
};

}  // namespace fa4::gpu::jit
