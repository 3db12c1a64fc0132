// SPDX-License-Identifier: BSD-3-Clause
// What a GPU adds to attention's contract: streams, graphs, other devices, offsets beyond 32 bits.
// Without a GPU every test skips, with the reason.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/device_case.h"
#include "support/gpu_case.h"

namespace fa4::gpu {
namespace {

using test::Case;

class GpuDevice : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = test::why_no_forward(Device::cuda(0));
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    runtime_ = cuda_runtime(0).value();
  }
  static Case causal_case(uint64_t seed, int64_t s = 300) {
    Case c = test::ref64({.batch = 2, .s_q = s, .s_k = s, .heads_q = 4, .heads_k = 2, .d = 128},
                         DType::kBFloat16, seed);
    c.options.causal = Causal::kBottomRight;
    return c;
  }
  static void expect_right(Case& c) { EXPECT_EQ(c.judge_forward(), "") << c.name; }

  const Runtime* runtime_ = nullptr;
};

TEST_F(GpuDevice, SideStream) {
  Case c = causal_case(1);
  DeviceCase d(*runtime_, 0, c);
  const Stream stream = runtime_->make_stream().value();
  d.run(stream).check();
  runtime_->synchronize(stream).check();
  d.download();
  expect_right(c);
  runtime_->release(stream).check();
}

TEST_F(GpuDevice, TwoStreamsAtOnce) {
  Case a = causal_case(2, 700), b = causal_case(3, 900);
  DeviceCase da(*runtime_, 0, a), db(*runtime_, 0, b);
  const Stream sa = runtime_->make_stream().value(), sb = runtime_->make_stream().value();
  for (int i = 0; i < 20; ++i) {
    da.run(sa).check();
    db.run(sb).check();
  }
  runtime_->synchronize(sa).check();
  runtime_->synchronize(sb).check();
  da.download();
  db.download();
  expect_right(a);
  expect_right(b);
  runtime_->release(sa).check();
  runtime_->release(sb).check();
}

TEST_F(GpuDevice, OneLinerOnAStreamBorrowsItsWorkspace) {
  Case c = causal_case(4);
  DeviceCase d(*runtime_, 0, c);
  const Stream stream = runtime_->make_stream().value();
  for (int i = 0; i < 10; ++i) attention(d.tensors(), c.options, stream).check();
  runtime_->synchronize(stream).check();
  d.download();
  expect_right(c);
}

TEST_F(GpuDevice, AnotherDeviceThanTheCurrent) {
  const auto other = cuda_runtime(1);
  if (!other.ok()) GTEST_SKIP() << other.status().message();
  const CurrentContext current(0);
  Case c = causal_case(5);
  DeviceCase d(**other, 1, c);
  d.run({}).check();
  (*other)->synchronize({}).check();
  d.download();
  expect_right(c);
  EXPECT_TRUE(current.is_still_current());
}

TEST_F(GpuDevice, TheCallersContextStaysCurrent) {
  const CurrentContext current(0);
  Case c = causal_case(6);
  DeviceCase d(*runtime_, 0, c);
  d.run({}).check();
  runtime_->synchronize({}).check();
  EXPECT_TRUE(current.is_still_current());
}

TEST_F(GpuDevice, GraphReplaysWithNewInputs) {
  const CurrentContext current(0);
  Case c = causal_case(7);
  DeviceCase d(*runtime_, 0, c);
  const Stream stream = runtime_->make_stream().value();
  CudaGraph graph(stream, [&] { d.run(stream).check(); });
  for (uint64_t seed = 8; seed < 11; ++seed) {
    const Case fresh = causal_case(seed);
    c.q = fresh.q;
    c.k = fresh.k;
    c.v = fresh.v;
    d.upload_again();
    graph.launch();
    runtime_->synchronize(stream).check();
    d.download();
    expect_right(c);
  }
}

TEST_F(GpuDevice, GraphReplaysWithNewLengths) {
  const CurrentContext current(0);
  Case c = causal_case(11);
  const auto lengths = [](std::vector<double> values) {
    return test::HostTensor::of(DType::kInt32, {2}, values);
  };
  c.seqused_k = lengths({300, 120});
  AttentionTensors tensors = c.tensors();
  const Support support = supports(AttentionProblem::forward(tensors, c.options), Device::cuda(0));
  if (!support) GTEST_SKIP() << support.reason;
  DeviceCase d(*runtime_, 0, c);
  const Stream stream = runtime_->make_stream().value();
  CudaGraph graph(stream, [&] { d.run(stream).check(); });
  for (const auto& values : {std::vector<double>{300, 120}, {1, 300}, {0, 17}, {256, 255}}) {
    c.seqused_k = lengths(values);
    d.upload_again();
    graph.launch();
    runtime_->synchronize(stream).check();
    d.download();
    expect_right(c);
  }
}

TEST_F(GpuDevice, CheckedModeFindsBadLengthsOnTheDevice) {
  Case c = causal_case(15);
  c.seqused_k = test::HostTensor::of(DType::kInt32, {2}, {300, 120});
  const Support support =
      supports(AttentionProblem::forward(c.tensors(), c.options), Device::cuda(0));
  if (!support) GTEST_SKIP() << support.reason;
  setenv("FA4_CHECKED", "1", 1);
  DeviceCase d(*runtime_, 0, c);
  unsetenv("FA4_CHECKED");
  EXPECT_TRUE(d.run({}).ok());
  c.seqused_k = test::HostTensor::of(DType::kInt32, {2}, {301, 120});
  d.upload_again();
  const Status status = d.run({});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("seqused_k"), std::string::npos) << status.message();
}

TEST_F(GpuDevice, SameBitsOverAHundredRunsUnderLoad) {
  Case c = causal_case(12, 1000), load = causal_case(13, 1500);
  DeviceCase d(*runtime_, 0, c), other(*runtime_, 0, load);
  const Stream stream = runtime_->make_stream().value(), side = runtime_->make_stream().value();
  std::vector<std::byte> out, lse;
  for (int i = 0; i < 100; ++i) {
    for (int n = 0; n <= i % 5; ++n) other.run(side).check();
    d.poison_outputs();
    d.run(stream).check();
    runtime_->synchronize(stream).check();
    d.download();
    if (i == 0) out = c.out.bytes(), lse = c.lse.bytes();
    ASSERT_EQ(c.out.bytes(), out) << i;
    ASSERT_EQ(c.lse.bytes(), lse) << i;
  }
  expect_right(c);
  runtime_->synchronize(side).check();
}

// The second batch begins more than 2^31 elements, and so 2^32 bytes, after the first.
TEST_F(GpuDevice, OffsetsBeyondThirtyTwoBits) {
  constexpr int64_t kFar = (int64_t{1} << 31) + 4096;
  Case c = causal_case(14);
  std::vector<void*> blocks;
  AttentionTensors t = c.tensors();
  c.out = test::HostTensor(DType::kBFloat16, {2, 300, 4, 128});
  c.lse = test::HostTensor(DType::kFloat32, {2, 4, 300});
  t.out = c.out.view();
  t.lse = c.lse.view();
  struct Part {
    Tensor host;
    std::byte* device;
    size_t bytes;  ///< Of one batch.
  };
  std::vector<Part> parts;
  for (Tensor* x : {&t.q, &t.k, &t.v, &t.out, &t.lse}) {
    const auto width = static_cast<size_t>(size_of(x->dtype));
    const size_t bytes = static_cast<size_t>(x->strides[0]) * width;
    const auto block = runtime_->allocate(static_cast<size_t>(kFar) * width + bytes);
    if (!block.ok()) break;
    blocks.push_back(*block);
    parts.push_back({*x, static_cast<std::byte*>(*block), bytes});
    x->data = *block;
    x->device = Device::cuda(0);
    x->strides[0] = kFar;
  }
  const auto each_batch = [&](const auto& copy) {
    for (const Part& p : parts) {
      for (size_t b = 0; b < 2; ++b) {
        auto* host = static_cast<std::byte*>(p.host.data) + b * p.bytes;
        copy(host, p.device + b * static_cast<size_t>(kFar * size_of(p.host.dtype)), p.bytes);
      }
    }
  };
  if (parts.size() == 5) {
    each_batch([&](std::byte* host, std::byte* device, size_t bytes) {
      runtime_->copy_in(device, host, bytes).check();
    });
    attention(t, c.options).check();
    runtime_->synchronize({}).check();
    each_batch([&](std::byte* host, std::byte* device, size_t bytes) {
      runtime_->copy_out(host, device, bytes).check();
    });
    expect_right(c);
  }
  for (void* block : blocks) runtime_->release(block).check();
  if (parts.size() != 5) GTEST_SKIP() << "the device has too little memory";
}

}  // namespace
}  // namespace fa4::gpu
