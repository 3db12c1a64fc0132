// SPDX-License-Identifier: BSD-3-Clause
// What Plan itself promises: passes, workspaces, specs, sizes.
#include <fa4/plan.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

#include "support/bad_input.h"

namespace fa4::test {
namespace {

#define SKIP_UNLESS(plan) \
  if (!(plan).ok()) GTEST_SKIP() << (plan).status().message()

/// 64-byte aligned memory for a plan's run.
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes)
      : bytes_(bytes), data_(std::aligned_alloc(64, (bytes / 64 + 2) * 64)) {}
  ~AlignedMemory() { std::free(data_); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  Workspace get() const { return {data_, bytes_}; }

 private:
  size_t bytes_;
  void* data_;
};

TEST(Plan, RefusesTheOtherPass) {
  const Call call = dense_call();
  const auto plan = Plan::make(AttentionProblem::forward(call.t, call.o));
  SKIP_UNLESS(plan);
  const AlignedMemory memory(plan->workspace_bytes());
  const Status status = plan->run(call.t, call.g, memory.get());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "plan: was made for the forward, run as backward; allowed: the pass it was made for");
  const auto backward = Plan::make(AttentionProblem::backward(call.t, call.g, call.o));
  SKIP_UNLESS(backward);
  EXPECT_EQ(backward->run(call.t, memory.get()).message(),
            "plan: was made for the backward, run as forward; allowed: the pass it was made for");
}

TEST(Plan, RefusesAWrongWorkspace) {
  const Call call = dense_call();
  const auto plan = Plan::make(AttentionProblem::forward(call.t, call.o));
  SKIP_UNLESS(plan);
  const size_t bytes = plan->workspace_bytes();
  if (bytes == 0) GTEST_SKIP() << "this plan needs no workspace";
  const AlignedMemory memory(bytes);
  const auto refusal = [&](Workspace workspace) {
    const Status status = plan->run(call.t, workspace);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().rfind("workspace: ", 0), 0U) << status.message();
    return status.message();
  };
  const std::string small = refusal({memory.get().data, bytes - 1});
  EXPECT_NE(small.find(std::to_string(bytes - 1)), std::string::npos) << small;
  EXPECT_NE(small.find("at least " + std::to_string(bytes)), std::string::npos) << small;
  EXPECT_NE(refusal({nullptr, bytes}).find("has 0 bytes"), std::string::npos);
  auto* byte = static_cast<std::byte*>(memory.get().data);
  EXPECT_NE(refusal({byte + 16, bytes}).find("64"), std::string::npos);
  for (std::byte b : call.owner.out.bytes()) ASSERT_EQ(b, std::byte{0xFF});
}

TEST(Plan, RefusesTensorsOfOtherSpecs) {
  const Call call = dense_call();
  const auto plan = Plan::make(AttentionProblem::forward(call.t, call.o));
  SKIP_UNLESS(plan);
  const AlignedMemory memory(plan->workspace_bytes());
  const auto refusal = [&](auto change) {
    AttentionTensors t = call.t;
    change(t);
    const Status status = plan->run(t, memory.get());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](AttentionTensors& t) { t.q.dims[1] = 4; }),
            "q: is float32 [2, 4, 4, 8]; allowed: float32 [2, 5, 4, 8]");
  EXPECT_EQ(refusal([](AttentionTensors& t) { t.bias = {}; }),
            "bias: absent; allowed: float32 [2, 4, 5, 6]");
  EXPECT_EQ(refusal([](AttentionTensors& t) { t.start_q.dtype = DType::kInt32; }),
            "start_q: is int32 [2]; allowed: int64 [2]");
  Call plain = dense_call();
  plain.t.sink = {};
  const auto plain_plan = Plan::make(AttentionProblem::forward(plain.t, plain.o));
  SKIP_UNLESS(plain_plan);
  const AlignedMemory plain_memory(plain_plan->workspace_bytes());
  EXPECT_EQ(plain_plan->run(call.t, plain_memory.get()).message(), "sink: given; allowed: absent");
}

TEST(Plan, LengthsMayChangeFromRunToRun) {
  Call call = packed_call();
  const auto plan = Plan::make(AttentionProblem::forward(call.t, call.o));
  SKIP_UNLESS(plan);
  const AlignedMemory memory(plan->workspace_bytes());
  EXPECT_EQ(plan->run(call.t, memory.get()).message(), "");
  call.owner.cu_seqlens_q.fill({0, 1, 4});  // the view looks at the same memory
  call.t.cu_seqlens_q = call.owner.cu_seqlens_q.view();
  EXPECT_EQ(plan->run(call.t, memory.get()).message(), "");
}

/// A problem without data.
AttentionProblem problem_of(Pass pass, int64_t b, int64_t s, int64_t h, int64_t d) {
  AttentionProblem p;
  p.pass = pass;
  p.q = p.k = p.v = {DType::kBFloat16, 4, {b, s, h, d}};
  return p;
}

// Case C64: sizes computed in 32 bits wrap; in 64 bits they are right or too large.
TEST(Plan, WorkspaceOfAHugeProblemNeverWraps) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    const auto small = Plan::make(problem_of(pass, 1, 8192, 128, 256));
    SKIP_UNLESS(small);
    size_t before = small->workspace_bytes();
    for (int64_t b : {int64_t{4096}, int64_t{1} << 20, int64_t{1} << 33}) {
      const auto plan = Plan::make(problem_of(pass, b, 8192, 128, 256));
      if (!plan.ok()) {
        EXPECT_EQ(plan.status().code(), StatusCode::kOutOfMemory) << plan.status().message();
        continue;
      }
      EXPECT_GE(plan->workspace_bytes(), before) << "batch " << b;
      before = plan->workspace_bytes();
    }
  }
}

// Heads and sequences without rows are no work, however many: a task or an entry for each would be
// more memory than there is.
TEST(Plan, HeadsWithoutRowsTakeNoMemory) {
  constexpr int64_t kMany = int64_t{1} << 40;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const auto& [b, h] : {std::pair{int64_t{1}, kMany}, {kMany, int64_t{1}}}) {
      const auto plan = Plan::make(problem_of(pass, b, 0, h, 8));
      SKIP_UNLESS(plan);
      EXPECT_LT(plan->workspace_bytes(), size_t{1} << 24) << b << " sequences, " << h << " heads";
      std::array<float, 16> nothing{};  // where each tensor begins
      const auto view = [&](int i, DType dtype, std::initializer_list<int64_t> dims) {
        return Tensor::contiguous(&nothing[i], dtype, dims);
      };
      const auto rows = [&, b = b, h = h](int i) {
        return view(i, DType::kBFloat16, {b, 0, h, 8});
      };
      AttentionTensors t;
      t.q = rows(0), t.k = rows(1), t.v = rows(2), t.out = rows(3);
      t.lse = view(4, DType::kFloat32, {b, h, 0});
      AttentionGradients g;
      g.dout = rows(5), g.dq = rows(6), g.dk = rows(7), g.dv = rows(8);
      const AlignedMemory memory(plan->workspace_bytes());
      const Status status =
          pass == Pass::kForward ? plan->run(t, memory.get()) : plan->run(t, g, memory.get());
      EXPECT_EQ(status.message(), "");
    }
  }
}

TEST(Plan, ThreadsThatNobodyHasAreNoCrash) {
  AttentionProblem problem = problem_of(Pass::kForward, 1, 128, 2, 64);
  problem.options.threads = std::numeric_limits<int>::max();
  const auto plan = Plan::make(problem);
  SKIP_UNLESS(plan);
  EXPECT_LT(plan->workspace_bytes(), size_t{1} << 32);
}

TEST(Plan, MovedFromIsAnErrorAndNoCrash) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    auto plan = Plan::make(problem_of(pass, 1, 128, 2, 64));
    SKIP_UNLESS(plan);
    const Plan taken = std::move(*plan);
    EXPECT_NE(taken.workspace_bytes(), 0U);
    EXPECT_EQ(plan->workspace_bytes(), 0U);  // NOLINT(bugprone-use-after-move): what is tested
    EXPECT_NE(plan->describe(), "");
    const Status status = pass == Pass::kForward
                              ? plan->run(AttentionTensors{}, Workspace{})
                              : plan->run(AttentionTensors{}, AttentionGradients{}, Workspace{});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().rfind("plan:", 0), 0U) << status.message();
  }
}

TEST(Plan, DescribesItself) {
  const auto plan = Plan::make(problem_of(Pass::kForward, 1, 128, 2, 64));
  SKIP_UNLESS(plan);
  EXPECT_NE(plan->describe(), "");
}

}  // namespace
}  // namespace fa4::test
