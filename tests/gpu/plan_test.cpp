// SPDX-License-Identifier: BSD-3-Clause
// The GPU backend on a GPU, through the public interface, judged by the oracle. Without a GPU that
// it supports every test skips, with the reason.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu/runtime.h"
#include "gpu/workspace.h"
#include "support/case.h"

namespace fa4::gpu {
namespace {

using test::Case;
using test::HostTensor;
using test::Shape;

/// Device copies of host tensors, released at the end.
class DeviceTensors {
 public:
  explicit DeviceTensors(const Runtime& runtime) : runtime_(runtime) {}
  ~DeviceTensors() {
    for (const Copy& copy : copies_) (void)runtime_.release(copy.device);
  }
  DeviceTensors(const DeviceTensors&) = delete;
  DeviceTensors& operator=(const DeviceTensors&) = delete;

  Tensor upload(const HostTensor& host) {
    Tensor view = host.view();
    size_t elements = 1;
    for (int i = 0; i < view.rank; ++i) {
      elements += static_cast<size_t>(std::max<int64_t>(view.dims[i] - 1, 0) * view.strides[i]);
    }
    const size_t bytes = elements * static_cast<size_t>(size_of(view.dtype));
    void* device = runtime_.allocate(bytes).value();
    copies_.push_back({view.data, device, bytes});
    runtime_.copy_in(device, view.data, bytes).check();
    view.data = device;
    view.device = Device::cuda(0);
    return view;
  }
  void download() const {
    for (const Copy& copy : copies_) {
      runtime_.copy_out(copy.host, copy.device, copy.bytes).check();
    }
  }

 private:
  struct Copy {
    void* host;
    void* device;
    size_t bytes;
  };
  const Runtime& runtime_;
  std::vector<Copy> copies_;
};

/// Runs the case's forward on the GPU; its outputs are then as if forward() had run.
Status run_on_gpu(Case& c, const Runtime& runtime) {
  const Tensor q = c.q.view(), v = c.v.view();
  if (!c.out.present()) {
    c.out = HostTensor(q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]});
  }
  if (!c.lse.present()) c.lse = HostTensor(DType::kFloat32, {q.dims[0], q.dims[2], q.dims[1]});
  c.out.poison();
  c.lse.poison();
  DeviceTensors device(runtime);
  AttentionTensors t;
  t.q = device.upload(c.q);
  t.k = device.upload(c.k);
  t.v = device.upload(c.v);
  t.out = device.upload(c.out);
  t.lse = device.upload(c.lse);
  const auto plan = Plan::make(AttentionProblem::forward(t, c.options), Device::cuda(0));
  if (!plan.ok()) return plan.status();
  const auto block =
      StreamWorkspace::acquire(Device::cuda(0), {}, std::max<size_t>(1, plan->workspace_bytes()));
  if (!block.ok()) return block.status();
  // The workspace may hold anything.
  runtime.fill(block->workspace().data, 0xdeadbeef, plan->workspace_bytes() / 4, {}).check();
  Status status = plan->run(t, block->workspace());
  if (status.ok()) status = runtime.synchronize({});
  if (status.ok()) device.download();
  return status;
}

class GpuPlan : public testing::Test {
 protected:
  void SetUp() override {
    const Case c = test::ref64({.s_q = 1, .s_k = 1}, DType::kBFloat16);
    const Support support =
        supports(AttentionProblem::forward(c.tensors(), c.options), Device::cuda(0));
    if (!support) GTEST_SKIP() << support.reason;
    runtime_ = cuda_runtime(0).value();
  }
  void expect_right(Case& c) {
    const Status status = run_on_gpu(c, *runtime_);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message();
    EXPECT_EQ(c.judge_forward(), "") << c.name;
    EXPECT_EQ(c.out.damage(), "") << c.name;
  }

  const Runtime* runtime_ = nullptr;
};

constexpr DType kDtypes[] = {DType::kBFloat16, DType::kFloat16};

TEST_F(GpuPlan, EveryHeadDim) {
  for (const int64_t d : {8, 40, 72, 80, 104, 136, 200, 248}) {
    Case c = test::ref64({.batch = 2, .s_q = 130, .s_k = 150, .heads_q = 2, .d = d},
                         kDtypes[d / 8 % 2], static_cast<uint64_t>(d));
    expect_right(c);
    if (HasFatalFailure()) return;
  }
  for (const auto& [d, d_v] : {std::pair{192, 128}, {64, 256}, {256, 64}, {128, 192}, {8, 128}}) {
    Case c = test::ref64({.s_q = 100, .s_k = 300, .d = d, .d_v = d_v}, DType::kBFloat16);
    c.options.causal = Causal::kBottomRight;
    expect_right(c);
  }
}

TEST_F(GpuPlan, EveryMaskAndLength) {
  uint64_t seed = 1;
  for (const auto& [s_q, s_k] : {std::pair{1, 1},
                                 {1, 300},
                                 {64, 64},
                                 {65, 127},
                                 {193, 128},
                                 {400, 129},
                                 {129, 400},
                                 {3, 0}}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
      for (const int64_t window : {-1, 0, 50}) {
        Case c = test::ref64({.batch = 2,
                              .s_q = s_q,
                              .s_k = s_k,
                              .heads_q = 2,
                              .heads_k = 1,
                              .d = seed % 2 == 0 ? 64 : 128},
                             kDtypes[seed % 2], seed);
        ++seed;
        c.options.causal = causal;
        if (window >= 0) c.options.window = {window, window / 2};
        expect_right(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuPlan, ManyTilesOfEveryKernel) {
  for (const auto& [d, d_v] :
       {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      Case c = test::ref64(
          {.batch = 3, .s_q = 500, .s_k = 600, .heads_q = 6, .heads_k = 3, .d = d, .d_v = d_v},
          DType::kBFloat16, static_cast<uint64_t>(d));
      c.options.causal = causal;
      expect_right(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuPlan, ExactProbes) {
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
    Case c =
        test::probe({.batch = 2, .s_q = 200, .s_k = 230, .heads_q = 2, .d = 64}, DType::kFloat16);
    c.options.causal = causal;
    expect_right(c);
    Case h = test::onehot({.s_q = 70, .s_k = 128, .d = 64}, DType::kBFloat16);
    h.options.causal = causal;
    expect_right(h);
  }
}

TEST_F(GpuPlan, ScalesOfEverySign) {
  for (const double scale : {0.0, -0.3, 1e-30, 40.0, -40.0}) {
    Case c = test::ref64({.s_q = 150, .s_k = 300, .d = 64}, DType::kBFloat16);
    c.options.scale = scale;
    c.options.causal = Causal::kBottomRight;
    expect_right(c);
  }
}

TEST_F(GpuPlan, ScoresThatRiseBeyondTheReference) {
  for (const int64_t d : {64, 128}) {
    Case c = test::ref64({.s_q = 130, .s_k = 900, .d = d}, DType::kBFloat16);
    // Keys are walked from the last to the first: the first are the largest by far.
    c.k.fill_with([](const test::Index& i) {
      return static_cast<double>(i[3] % 3 - 1) * std::exp2(8.0 - static_cast<double>(i[1]) / 64);
    });
    expect_right(c);
  }
}

TEST_F(GpuPlan, OtherLayouts) {
  Case c = test::ref64({.batch = 2, .s_q = 130, .s_k = 200, .heads_q = 4, .heads_k = 2, .d = 64},
                       DType::kBFloat16);
  c.q = c.q.with_strides(test::strides_in_order(c.q.dims(), {0, 2, 1, 3}));
  c.k = c.k.with_strides(test::strides_in_order(c.k.dims(), {2, 0, 1, 3}));
  c.v = c.v.with_strides({200 * 2 * 72, 2 * 72, 72, 1});
  c.out = HostTensor(DType::kBFloat16, {2, 130, 4, 64}, {130 * 4 * 80, 80, 130 * 80, 1});
  c.lse = HostTensor(DType::kFloat32, {2, 4, 130}, {1, 2 * 130, 2});
  c.options.causal = Causal::kBottomRight;
  expect_right(c);
}

TEST_F(GpuPlan, KeysThatNoRowSeesMayHoldNan) {
  const auto spoil = [](Case& c, auto hidden) {
    for (HostTensor* t : {&c.k, &c.v}) {
      const Case clean = c;
      t->fill_with([&](const test::Index& i) {
        return hidden(i[1]) ? std::numeric_limits<double>::quiet_NaN()
                            : (t == &c.k ? clean.k : clean.v).get(i);
      });
    }
  };
  Case top = test::ref64({.s_q = 100, .s_k = 300, .d = 64}, DType::kBFloat16);
  top.options.causal = Causal::kTopLeft;
  spoil(top, [](int64_t j) { return j >= 100; });
  expect_right(top);
  Case window = test::ref64({.s_q = 100, .s_k = 300, .d = 128}, DType::kBFloat16);
  window.options.causal = Causal::kBottomRight;
  window.options.window.left = 20;
  spoil(window, [](int64_t j) { return j < 180; });
  expect_right(window);
}

TEST_F(GpuPlan, SameBitsEveryTime) {
  Case c =
      test::ref64({.batch = 4, .s_q = 1000, .s_k = 1000, .heads_q = 8, .d = 64}, DType::kBFloat16);
  c.options.causal = Causal::kBottomRight;
  ASSERT_TRUE(run_on_gpu(c, *runtime_).ok());
  const auto out = c.out.bytes(), lse = c.lse.bytes();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(run_on_gpu(c, *runtime_).ok());
    ASSERT_EQ(c.out.bytes(), out);
    ASSERT_EQ(c.lse.bytes(), lse);
  }
}

TEST_F(GpuPlan, RefusesWhatTheCopyEngineCannotRead) {
  Case c = test::ref64({.s_q = 10, .s_k = 10, .heads_q = 2, .d = 64}, DType::kBFloat16);
  c.q = c.q.with_strides({10 * 2 * 68, 2 * 68, 68, 1});
  const Status status = run_on_gpu(c, *runtime_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find("q: stride"), 0u) << status.message();
}

TEST(GpuSupport, SaysWhyNot) {
  const Case c = test::ref64({.s_q = 1, .s_k = 1}, DType::kFloat32);
  const Support support =
      supports(AttentionProblem::forward(c.tensors(), c.options), Device::cuda(0));
  EXPECT_FALSE(support.supported);
  EXPECT_NE(support.reason.find("float32"), std::string::npos) << support.reason;
}

}  // namespace
}  // namespace fa4::gpu
