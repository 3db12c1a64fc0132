// SPDX-License-Identifier: BSD-3-Clause
// The cache of compiled kernels under everything that can happen to it: right code, nothing left
// behind. Needs NVRTC and no GPU; processes are real ones.
#include "gpu/jit/kernels.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "gpu/jit/store.h"
#include "support/temporary_folder.h"

namespace fa4::gpu::jit {
namespace {

namespace fs = std::filesystem;

class KernelCache : public testing::Test {
 protected:
  void SetUp() override {
    const auto version = nvrtc_version();
    if (!version.ok()) GTEST_SKIP() << version.status().message();
    fs::permissions(root_.path(), fs::perms::owner_all | fs::perms::others_exec);
    while (expected_.size() < 3) {
      expected_.push_back(compile(program(static_cast<int>(expected_.size()))).value().code);
    }
    setenv("FA4_CACHE_DIR", folder().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("FA4_CACHE_DIR");
    std::error_code error;
    fs::permissions(folder(), fs::perms::owner_all, error);
  }

  /// Small programs, so that many processes can compile them.
  static Program program(int i) {
    return {
        "extern \"C\" __global__ void f(int* x) { *x = " + std::to_string(i) + "; }", "sm_90a", {}};
  }
  Result<Code> obtain_one(int i) const { return obtain(program(i), CodeFormat::kCubin); }
  /// Whether program i's code is right, and came from where it should.
  bool good(int i, bool stored, bool kept) const {
    const auto code = obtain_one(i);
    return code.ok() && code->bytes == expected_[static_cast<size_t>(i)] &&
           code->stored == stored && code->kept == kept;
  }

  /// Runs `work` in a process of its own; true if it returned true.
  static bool in_process(const std::function<bool()>& work) { return joined(started(work)); }
  static pid_t started(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    return child;
  }
  static bool joined(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  fs::path folder() const { return root_ / "cache"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder(), error)) found.push_back(entry.path());
    return found;
  }

  const test::TemporaryFolder root_;
  static inline std::vector<std::vector<std::byte>> expected_;  ///< Each program's code.
};

TEST_F(KernelCache, WarmAfterTheFirst) {
  EXPECT_TRUE(good(0, false, true));
  EXPECT_TRUE(good(0, true, true));
  EXPECT_TRUE(in_process([&] { return good(0, true, true) && good(1, false, true); }));
  EXPECT_TRUE(good(1, true, true));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(KernelCache, SixteenProcessesRaceOnAnEmptyFolder) {
  std::vector<pid_t> children;
  for (int process = 0; process < 16; ++process) {
    children.push_back(started([&] {
      for (int i = 0; i < 3; ++i) {
        const auto code = obtain_one(i);
        if (!code.ok() || !code->kept || code->bytes != expected_[static_cast<size_t>(i)])
          return false;
      }
      return true;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(joined(child));
  EXPECT_EQ(files().size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(good(i, true, true));
}

TEST_F(KernelCache, KilledInTheMiddle) {
  // Writers that do nothing but write, so that the kill finds most of them in the middle.
  const Store store(folder());
  const std::string key = cache_key(program(0), CodeFormat::kCubin, *nvrtc_version());
  int left = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = started([&] {
      for (;;) store.put(key, expected_[0]);
      return true;
    });
    usleep(static_cast<useconds_t>(500 + 137 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    left = std::max(left, static_cast<int>(files().size()) - 1);
    const auto code = obtain_one(0);
    ASSERT_TRUE(code.ok());
    EXPECT_EQ(code->bytes, expected_[0]);
    EXPECT_EQ(files().size(), 1u);
  }
  RecordProperty("files_left_by_kills", left);
}

TEST_F(KernelCache, ASweepLeavesLivingWritersAlone) {
  const Store store(folder());
  const pid_t writer = started([&] {
    for (int i = 0; i < 200; ++i) {
      if (!store.put("k", expected_[0])) return false;
    }
    return true;
  });
  int status = 0;
  while (waitpid(writer, &status, WNOHANG) == 0) store.sweep();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(store.get("k"), expected_[0]);
}

TEST_F(KernelCache, FileSizeLimit) {
  EXPECT_TRUE(in_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1024, 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    return good(0, false, false);
  }));
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(good(0, false, true));
}

TEST_F(KernelCache, FullDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount a small disk";
  fs::create_directories(folder());
  constexpr int kNoMount = 77;
  const pid_t child = fork();
  if (child == 0) {
    // Its own mounts: a disk of two pages, gone with the process.
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=8k") != 0) {
      _exit(kNoMount);
    }
    std::ofstream(folder() / "other") << std::string(8000, 'x');
    _exit(good(0, false, false) && good(0, false, false) && files().size() == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(KernelCache, ReadOnlyHome) {
  const fs::path home = root_ / "home";
  fs::create_directories(home);
  fs::permissions(home, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                            fs::perms::others_exec);
  EXPECT_TRUE(in_process([&] {
    unsetenv("FA4_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home.c_str(), 1);
    // Root may write anywhere: be nobody.
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return false;
    return Store::default_folder() == (home / ".cache/fa4cpp").string() && good(0, false, false);
  }));
  EXPECT_TRUE(fs::is_empty(home));
}

TEST_F(KernelCache, NoHomeAtAll) {
  EXPECT_TRUE(in_process([&] {
    for (const char* name : {"FA4_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) unsetenv(name);
    return Store::default_folder().empty() && good(0, false, false);
  }));
}

TEST_F(KernelCache, CorruptEntry) {
  EXPECT_TRUE(good(0, false, true));
  ASSERT_EQ(files().size(), 1u);
  const fs::path entry = files()[0];
  const auto size = fs::file_size(entry);
  for (const auto at : {decltype(size){0}, size / 2, size - 1}) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x10));
    file.close();
    EXPECT_TRUE(good(0, false, true)) << at;
    EXPECT_TRUE(good(0, true, true)) << at;
    EXPECT_EQ(files().size(), 1u);
  }
}

TEST_F(KernelCache, TruncatedEntry) {
  EXPECT_TRUE(good(0, false, true));
  ASSERT_EQ(files().size(), 1u);
  const auto size = fs::file_size(files()[0]);
  for (const auto kept : {decltype(size){0}, decltype(size){20}, size / 2, size - 1}) {
    fs::resize_file(files()[0], kept);
    EXPECT_TRUE(good(0, false, true)) << kept;
    EXPECT_TRUE(good(0, true, true)) << kept;
    EXPECT_EQ(files().size(), 1u);
  }
}

TEST_F(KernelCache, AnEntryThatIsNoFile) {
  const std::string key = cache_key(program(0), CodeFormat::kCubin, *nvrtc_version());
  fs::create_directories(folder() / (key + ".kernel") / "in the way");
  EXPECT_TRUE(good(0, false, false));
}

TEST_F(KernelCache, ChangedCompiler) {
  // What another NVRTC left under the same program's key is not what this one looks for.
  const Store store(folder());
  const std::string other = cache_key(program(0), CodeFormat::kCubin, "1.0");
  ASSERT_TRUE(store.put(other, expected_[1]));
  EXPECT_TRUE(good(0, false, true));
  EXPECT_TRUE(good(0, true, true));
  EXPECT_EQ(store.get(other), expected_[1]);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(KernelCache, KeysDependOnOptionsAndTarget) {
  const Program plain = program(0);
  Program other = plain;
  other.options = {"--maxrregcount=32"};
  EXPECT_NE(cache_key(plain, CodeFormat::kCubin, "1"), cache_key(other, CodeFormat::kCubin, "1"));
  other = plain;
  other.target = "sm_80";
  EXPECT_NE(cache_key(plain, CodeFormat::kCubin, "1"), cache_key(other, CodeFormat::kCubin, "1"));
}

TEST_F(KernelCache, ClearRemovesEntriesAlone) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(good(i, false, true));
  std::ofstream(folder() / "mine.txt") << "not the cache's";
  std::ofstream(folder() / "new-abandoned") << "left by a killed writer";
  const Store store(folder());
  EXPECT_EQ(store.usage().entries, 3);
  EXPECT_EQ(store.clear().entries, 3);
  EXPECT_EQ(store.usage().entries, 0);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files()[0].filename(), "mine.txt");
}

}  // namespace
}  // namespace fa4::gpu::jit
