// SPDX-License-Identifier: BSD-3-Clause
// A folder that is gone when the test is.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace fa4::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fa4-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      ADD_FAILURE() << name << " cannot be made";
      return;
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (path_.empty()) return;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, error);
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  std::string string(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace fa4::test
