// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/jit/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/jit/environment.h"
#include "gpu/jit/sha256.h"

namespace fa4::gpu::jit {
namespace {

/// What stands before an entry's bytes.
struct Header {
  char magic[8] = {'f', 'a', '4', 'c', 'a', 'c', 'h', '1'};
  uint64_t bytes = 0;
  Digest checksum{};
};

constexpr char kTemporary[] = "new-";
constexpr size_t kMostBytes = size_t{64} << 20;  ///< No kernel is that large: what is was damaged.

/// A file that is removed at the end of its scope, unless it was given its final name. Its writer
/// holds a lock on it, so that one without a lock is known to be left over from a writer that died.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& folder) {
    // A sweep between making the file and locking it takes the file away: then once more.
    for (int attempt = 0; attempt < 32; ++attempt) {
      path_ = folder + "/" + kTemporary + "XXXXXX";
      descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
      struct stat status {};
      if (descriptor_ < 0) return;
      flock(descriptor_, LOCK_EX);
      if (fstat(descriptor_, &status) == 0 && status.st_nlink > 0) return;
      close(descriptor_);
      descriptor_ = -1;
    }
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0 && !kept_) unlink(path_.c_str());
    if (descriptor_ >= 0) close(descriptor_);
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

/// Calls `visit` for every entry of a folder; what cannot be read is as if it were not there.
template <class Visit>
void for_each_entry(const std::string& folder, const Visit& visit) {
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) visit(*at);
}

/// Removes a file whose TemporaryFile has died: no living process holds its lock. It is removed
/// under the lock, or a writer could take the file for its own in between.
void remove_if_abandoned(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  close(descriptor);
}

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
  const bool sane = size >= sizeof header && size <= kMostBytes;
  std::vector<std::byte> bytes(sane ? size - sizeof header : 0);
  const bool good = sane && file.read(reinterpret_cast<char*>(&header), sizeof header) &&
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

void Store::sweep() const {
  if (folder_.empty()) return;
  for_each_entry(folder_, [](const std::filesystem::directory_entry& entry) {
    if (!entry.path().filename().string().starts_with(kTemporary)) return;
    remove_if_abandoned(entry.path());
  });
}

bool Store::contains(const std::string& key) const {
  return !folder_.empty() && access(path_of(key).c_str(), R_OK) == 0;
}

Store::Usage Store::walk(bool remove) const {
  Usage usage;
  if (folder_.empty()) return usage;
  if (remove) sweep();
  for_each_entry(folder_, [&](const std::filesystem::directory_entry& entry) {
    std::error_code error;
    if (entry.path().extension() != kEnding || !entry.is_regular_file(error)) return;
    const auto size = entry.file_size(error);
    if (error || (remove && unlink(entry.path().c_str()) != 0)) return;
    usage.entries += 1;
    usage.bytes += static_cast<int64_t>(size);
  });
  return usage;
}

}  // namespace fa4::gpu::jit
