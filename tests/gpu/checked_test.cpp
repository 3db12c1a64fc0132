// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/checked.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/fake_runtime.h"
#include "support/case.h"

namespace fa4::gpu {
namespace {

class CheckedMode : public testing::Test {
 protected:
  CheckedMode() : case_(test::ref64({.batch = 1, .s_q = 8, .s_k = 8, .d = 8}, DType::kBFloat16)) {
    case_.q = test::HostTensor(DType::kBFloat16, {8, 1, 8}).fill(1);
    case_.k = case_.v = case_.q;
    case_.cu_seqlens_q = case_.cu_seqlens_k = test::HostTensor::of(DType::kInt32, {3}, {0, 3, 8});
  }
  /// check_lengths() on tensors whose lengths say that they are on a GPU.
  Status check() {
    AttentionTensors t = case_.tensors();
    const auto problem = core::validate(AttentionProblem::forward(t, case_.options)).value();
    for (Tensor* lengths : {&t.cu_seqlens_q, &t.cu_seqlens_k, &t.seqused_q, &t.seqused_k}) {
      lengths->device = Device::cuda(0);
    }
    return check_lengths(runtime_, problem, t, {});
  }

  FakeRuntime runtime_;
  test::Case case_;
};

TEST_F(CheckedMode, GoodLengthsPassAfterOneWait) {
  const Status status = check();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(runtime_.counts.waits, 1);
}

TEST_F(CheckedMode, BadLengthsAreNamed) {
  case_.cu_seqlens_k = test::HostTensor::of(DType::kInt32, {3}, {0, 9, 8});
  EXPECT_NE(check().message().find("cu_seqlens_k"), std::string::npos) << check().message();
  case_.cu_seqlens_k = test::HostTensor::of(DType::kInt32, {3}, {1, 3, 8});
  EXPECT_EQ(check().code(), StatusCode::kInvalidArgument);
  case_.cu_seqlens_k = case_.cu_seqlens_q;
  case_.seqused_k = test::HostTensor::of(DType::kInt64, {2}, {3, 6});
  EXPECT_NE(check().message().find("seqused_k"), std::string::npos) << check().message();
  case_.seqused_k = test::HostTensor::of(DType::kInt64, {2}, {3, 5});
  EXPECT_TRUE(check().ok()) << check().message();
}

TEST_F(CheckedMode, NothingToCheckIsNothingToWaitFor) {
  case_ = test::ref64({.s_q = 8, .s_k = 8, .d = 8}, DType::kBFloat16);
  EXPECT_TRUE(check().ok());
  EXPECT_EQ(runtime_.counts.waits, 0);
}

TEST_F(CheckedMode, IsAskedForByTheEnvironment) {
  const char* before = std::getenv("FA4_CHECKED");
  const std::string kept = before != nullptr ? before : "";
  unsetenv("FA4_CHECKED");
  EXPECT_FALSE(checked_mode());
  setenv("FA4_CHECKED", "0", 1);
  EXPECT_FALSE(checked_mode());
  setenv("FA4_CHECKED", "1", 1);
  EXPECT_TRUE(checked_mode());
  if (before != nullptr) {
    setenv("FA4_CHECKED", kept.c_str(), 1);
  } else {
    unsetenv("FA4_CHECKED");
  }
}

}  // namespace
}  // namespace fa4::gpu
