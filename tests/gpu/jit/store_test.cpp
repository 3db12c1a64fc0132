// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/jit/store.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fa4::gpu::jit {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  static std::vector<std::byte> bytes_of(size_t count, int seed) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
    return bytes;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder()), {}));
  }
  fs::path folder() const { return root_ / "cache"; }

  const test::TemporaryFolder root_;
};

TEST_F(StoreTest, GivesBackWhatWasPut) {
  const Store store(folder());
  EXPECT_FALSE(store.get("a"));
  EXPECT_TRUE(store.put("a", bytes_of(10000, 1)));
  EXPECT_TRUE(store.put("b", bytes_of(0, 2)));
  EXPECT_EQ(store.get("a"), bytes_of(10000, 1));
  EXPECT_EQ(store.get("b"), bytes_of(0, 2));
  EXPECT_TRUE(store.put("a", bytes_of(5, 3)));
  EXPECT_EQ(Store(folder()).get("a"), bytes_of(5, 3));
  EXPECT_EQ(files(), 2u);
}

TEST_F(StoreTest, EveryTruncationIsAMissAndGoes) {
  const Store store(folder());
  for (const size_t size : {0u, 1u, 7u, 8u, 47u, 48u, 100u, 147u}) {
    ASSERT_TRUE(store.put("a", bytes_of(100, 1)));
    fs::resize_file(folder() / "a.kernel", size);
    EXPECT_FALSE(store.get("a")) << size;
    EXPECT_EQ(files(), 0u) << size;
  }
}

TEST_F(StoreTest, EveryFlippedByteIsAMiss) {
  const Store store(folder());
  ASSERT_TRUE(store.put("a", bytes_of(100, 1)));
  const auto size = fs::file_size(folder() / "a.kernel");
  for (size_t at = 0; at < size; ++at) {
    ASSERT_TRUE(store.put("a", bytes_of(100, 1)));
    std::fstream file(folder() / "a.kernel", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_FALSE(store.get("a")) << at;
  }
}

TEST_F(StoreTest, UnusableFoldersAreMisses) {
  std::ofstream(root_ / "file") << "not a folder";
  for (const std::string& name :
       {std::string(), (root_ / "file").string(), std::string("/proc/no")}) {
    const Store store(name);
    EXPECT_FALSE(store.put("a", bytes_of(10, 1)));
    EXPECT_FALSE(store.get("a"));
  }
}

TEST_F(StoreTest, AFullDiskLeavesNothing) {
  // A limit on file sizes fails a write in the middle, as a full disk does.
  const Store store(folder());
  ASSERT_TRUE(store.put("small", bytes_of(10, 1)));
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(store.put("large", bytes_of(100000, 1)) ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, SixteenWritersOfOneEmptyFolder) {
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const Store store(folder());
      bool good = true;
      for (int round = 0; round < 20; ++round) {
        good = good && store.put("shared", bytes_of(20000, 7));
        const auto seen = store.get("shared");
        good = good && seen == bytes_of(20000, 7);
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, AWriterKilledInTheMiddleHarmsNoOne) {
  const Store store(folder());
  ASSERT_TRUE(store.put("a", bytes_of(1000, 1)));
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) store.put("a", bytes_of(300000, 1));
    }
    usleep(static_cast<useconds_t>(500 + 300 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto seen = store.get("a");
    ASSERT_TRUE(seen);
    EXPECT_TRUE(*seen == bytes_of(1000, 1) || *seen == bytes_of(300000, 1));
  }
}

}  // namespace
}  // namespace fa4::gpu::jit
