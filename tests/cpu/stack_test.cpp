// SPDX-License-Identifier: BSD-3-Clause
// Callers' threads may have small stacks: musl gives 128 KiB, and some servers less.
#include <fa4/attention.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fa4 {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;
constexpr char kPaint = 0x5A;

/// Bytes of stack that `work` uses on a thread of its own.
size_t stack_used(const std::function<void()>& work) {
  const auto stack = std::make_unique<std::array<char, kStackBytes + 4096>>();
  const auto address = reinterpret_cast<uintptr_t>(stack->data());
  char* begin = stack->data() + (4096 - address % 4096) % 4096;
  std::fill_n(begin, kStackBytes, kPaint);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, begin, kStackBytes);
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const char* end = begin + kStackBytes;
  return static_cast<size_t>(
      end - std::find_if(begin, begin + kStackBytes, [](char c) { return c != kPaint; }));
}

struct Shape {
  int64_t rows_q, rows_k, heads_q, heads_k, dim;
};

TEST(CpuStack, AttentionOfAnyKindFitsASmallStack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kMost = kStackBytes;
#else
  constexpr size_t kMost = 64 * 1024;
#endif
  for (const auto& [rows_q, rows_k, heads_q, heads_k, dim] : {Shape{1, 700, 64, 8, 256},
                                                              {1, 700, 8, 8, 256},
                                                              {3, 700, 8, 2, 256},
                                                              {200, 300, 2, 1, 256}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      std::vector<double> q(rows_q * heads_q * dim), k(rows_k * heads_k * dim), v(k), out(q),
          lse(rows_q * heads_q), dq(q), dk(k), dv(k);
      const auto view = [&](std::vector<double>& x, int64_t rows, int64_t heads) {
        return Tensor::contiguous(x.data(), dtype, {1, rows, heads, dim});
      };
      AttentionTensors tensors;
      tensors.q = view(q, rows_q, heads_q);
      tensors.k = view(k, rows_k, heads_k);
      tensors.v = view(v, rows_k, heads_k);
      tensors.out = view(out, rows_q, heads_q);
      const DType lse_dtype = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
      tensors.lse = Tensor::contiguous(lse.data(), lse_dtype, {1, heads_q, rows_q});
      AttentionGradients gradients;
      gradients.dout = tensors.q;
      gradients.dq = view(dq, rows_q, heads_q);
      gradients.dk = view(dk, rows_k, heads_k);
      gradients.dv = view(dv, rows_k, heads_k);
      AttentionOptions options;
      options.threads = 1;
      options.softcap = 5;
      EXPECT_LE(stack_used([&] { EXPECT_TRUE(attention(tensors, options).ok()); }), kMost)
          << "forward, " << rows_q << " rows, " << to_string(dtype);
      EXPECT_LE(
          stack_used([&] { EXPECT_TRUE(attention_backward(tensors, gradients, options).ok()); }),
          kMost)
          << "backward, " << rows_q << " rows, " << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace fa4
