// SPDX-License-Identifier: BSD-3-Clause
#include "core/workspace_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>

namespace fa4::core {
namespace {

TEST(WorkspacePool, BlocksAreAlignedAndLargeEnough) {
  WorkspacePool pool;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{100000}}) {
    const WorkspacePool::Block block = pool.acquire(bytes);
    ASSERT_NE(block.data, nullptr);
    EXPECT_GE(block.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data.get()) % 64, 0U);
    std::memset(block.data.get(), 1, bytes);
  }
}

TEST(WorkspacePool, GivesAReturnedBlockAgain) {
  WorkspacePool pool;
  WorkspacePool::Block block = pool.acquire(1000);
  const std::byte* data = block.data.get();
  pool.release(std::move(block));
  WorkspacePool::Block again = pool.acquire(900);
  EXPECT_EQ(again.data.get(), data);
  EXPECT_EQ(again.bytes, 1000U);
  pool.release(std::move(again));
  EXPECT_GE(pool.acquire(2000).bytes, 2000U);
}

TEST(WorkspacePool, SaysWhenThereIsNoMemory) {
  WorkspacePool pool;
  EXPECT_EQ(pool.acquire(SIZE_MAX / 2).data, nullptr);
  EXPECT_EQ(pool.acquire(SIZE_MAX).data, nullptr);
}

TEST(WorkspacePool, KeepsWhatManyCallersReturn) {
  WorkspacePool pool;
  std::vector<WorkspacePool::Block> blocks;
  for (size_t n = 1; n <= 20; ++n) blocks.push_back(pool.acquire(n * 100));
  for (auto& block : blocks) pool.release(std::move(block));
  EXPECT_EQ(pool.acquire(1).bytes % 100, 0U);  // one that was kept
  EXPECT_EQ(pool.acquire(2000).bytes, 2000U);
}

TEST(WorkspacePool, ServesThreadsAtOnce) {
  WorkspacePool pool;
  const auto body = [&](int thread) {
    for (int n = 0; n < 200; ++n) {
      const size_t bytes = 64 + 100 * (n % 7);
      WorkspacePool::Block block = pool.acquire(bytes);
      std::memset(block.data.get(), thread, bytes);
      for (size_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(std::to_integer<int>(block.data.get()[i]), thread);
      }
      pool.release(std::move(block));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(body, t);
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace fa4::core
