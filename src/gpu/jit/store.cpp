// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/jit/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/jit/sha256.h"

namespace fa4::gpu::jit {
namespace {

/// What stands before an entry's bytes.
struct Header {
  char magic[8] = {'f', 'a', '4', 'c', 'a', 'c', 'h', '1'};
  uint64_t bytes = 0;
  Digest checksum{};
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// A file that is removed at the end of its scope, unless it was given its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& folder) : path_(folder + "/new-XXXXXX") {
    descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (descriptor_ >= 0 && !kept_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (descriptor_ >= 0 && bytes > 0) {
      const ssize_t written = ::write(descriptor_, at, bytes);
      if (written <= 0) return false;
      at += written;
      bytes -= static_cast<size_t>(written);
    }
    return descriptor_ >= 0;
  }
  /// On disk first, then under its name at once: readers see all of it or nothing.
  bool rename_to(const std::string& path) {
    kept_ = fsync(descriptor_) == 0 && rename(path_.c_str(), path.c_str()) == 0;
    return kept_;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

}  // namespace

std::string Store::default_folder() {
  if (const std::string own = environment("FA4_CACHE_DIR"); !own.empty()) return own;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/fa4cpp";
  }
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/fa4cpp";
}

std::optional<std::vector<std::byte>> Store::get(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(path_of(key), std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const auto size = static_cast<size_t>(file.tellg());
  file.seekg(0);
  Header header;
  std::vector<std::byte> bytes(size > sizeof header ? size - sizeof header : 0);
  const bool good = file.read(reinterpret_cast<char*>(&header), sizeof header) &&
                    std::memcmp(header.magic, Header().magic, sizeof header.magic) == 0 &&
                    header.bytes == bytes.size() &&
                    file.read(reinterpret_cast<char*>(bytes.data()),
                              static_cast<std::streamsize>(bytes.size())) &&
                    sha256(bytes) == header.checksum;
  if (good) return bytes;
  unlink(path_of(key).c_str());
  return std::nullopt;
}

bool Store::put(const std::string& key, std::span<const std::byte> bytes) const {
  if (folder_.empty()) return false;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  Header header;
  header.bytes = bytes.size();
  header.checksum = sha256(bytes);
  TemporaryFile file(folder_);
  return file.write(&header, sizeof header) && file.write(bytes.data(), bytes.size()) &&
         file.rename_to(path_of(key));
}

}  // namespace fa4::gpu::jit
