// SPDX-License-Identifier: BSD-3-Clause
// Compiled kernels on disk, one file an entry. Many processes may use one folder; a crash at any
// point leaves it good; what cannot be read or written is a miss, never an error.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// Removes what writers that were killed have left. Those that live lose nothing.
  void sweep() const;

  struct Usage {
    int entries = 0;
    int64_t bytes = 0;
  };
  /// What is stored; clear() removes it. Other files in the folder are not touched.
  Usage usage() const { return walk(false); }
  Usage clear() const { return walk(true); }
  bool contains(const std::string& key) const;

  const std::string& folder() const { return folder_; }

 private:
  Usage walk(bool remove) const;
  std::string path_of(const std::string& key) const { return folder_ + "/" + key + kEnding; }

  static constexpr const char* kEnding = ".kernel";

  std::string folder_;
};

}  // namespace fa4::gpu::jit
