// SPDX-License-Identifier: BSD-3-Clause
// Many host threads at once, with the first call of the process among them.
#include <atomic>
#include <thread>

#include "cases/case_helpers.h"

namespace fa4::cases {
namespace {

Case mixed_case(int number) {
  const std::array<DType, 3> dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const DType dtype = dtypes[number % dtypes.size()];
  Shape shape = {.batch = 1 + number % 2,
                 .s_q = 1 + (number * 7) % 40,
                 .s_k = 40,
                 .heads_q = 4,
                 .heads_k = 2,
                 .d = 8 * (1 + number % 5)};
  if (number % 4 == 3) shape.lengths_q = shape.lengths_k = {3, 0, 20, number % 7};
  Case c = ref64(shape, dtype, static_cast<uint64_t>(number));
  c.options.causal = number % 3 == 0 ? Causal::kNone : Causal::kBottomRight;
  c.options.deterministic = true;
  if (number % 5 == 0) c.options.softcap = 3;
  if (number % 5 == 1) c.options.window.left = 6;
  c.options.threads = number % 3;
  return c;
}

constexpr int kCases = 20;

/// Through the one-liners, whose workspaces come from a pool that all threads share.
void call(Case& c) {
  c.out.poison(), c.lse.poison(), c.dq.poison(), c.dk.poison(), c.dv.poison();
  must(attention(c.tensors(), c.options));
  must(attention_backward(c.tensors(), c.gradients(), c.options));
}

// Nobody could say whether many threads may call at once (flash-attention #637).
TEST(C104, ManyHostThreads) {
  constexpr int kThreads = 8, kCalls = 100;
  std::vector<Case> prepared(kCases);
  std::vector<Bits> serial(kCases);
  for (int i = 0; i < kCases; ++i) {
    prepared[i] = mixed_case(i);
    run(prepared[i]);  // makes the outputs
    serial[i] = bits_of(prepared[i]);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<Case> own = prepared;
      for (int n = 0; n < kCalls; ++n) {
        const int number = (n * 7 + thread * 3) % kCases;
        call(own[number]);
        const Bits bits = bits_of(own[number]), &expected = serial[number];
        if (bits.out != expected.out || bits.lse != expected.lse || bits.dq != expected.dq ||
            bits.dk != expected.dk || bits.dv != expected.dv) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// One plan, run by all threads at once, each with a workspace of its own.
TEST(C104, OnePlanManyThreads) {
  Case c = mixed_case(2);
  c.options.threads = 2;
  run(c);
  const std::vector<std::byte> expected = c.out.bytes();
  const Result<Plan> plan = Plan::make(AttentionProblem::forward(c.tensors(), c.options));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      Case own = c;
      std::vector<std::byte> memory(plan->workspace_bytes() + 64);
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      const Workspace workspace{memory.data() + (64 - address % 64) % 64, plan->workspace_bytes()};
      for (int n = 0; n < 50; ++n) {
        own.out.poison();
        const Status status = plan->run(own.tensors(), workspace);
        if (!status.ok() || own.out.bytes() != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fa4::cases
