// SPDX-License-Identifier: BSD-3-Clause
#include <fa4/attention.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/host_tensor.h"
#include "support/numbers.h"

namespace fa4::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Combine, MergesPartsAndIgnoresEmptyOnes) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const HostTensor outs = HostTensor::of(dtype, {3, 1, 1}, {1.731059, 3.731059, kNan});
    const HostTensor lses = HostTensor::of(dtype, {3, 1}, {1.313262, 3.313262, -kInfinity});
    HostTensor out(dtype, {1, 1}), lse(dtype, {1});
    ASSERT_TRUE(combine(outs.view(), lses.view(), out.view(), lse.view()).ok());
    EXPECT_NEAR(out.get({0, 0}), 3.492653, 1e-6);
    EXPECT_NEAR(lse.get({0}), 3.440190, 1e-6);
  }
}

TEST(Combine, NothingButEmptyPartsGivesZero) {
  const HostTensor outs = HostTensor(DType::kFloat32, {2, 3, 4});  // poisoned
  const HostTensor lses = HostTensor(DType::kFloat32, {2, 3}).fill(-kInfinity);
  HostTensor out(DType::kFloat32, {3, 4}), lse(DType::kFloat32, {3});
  ASSERT_TRUE(combine(outs.view(), lses.view(), out.view(), lse.view()).ok());
  for (const double x : out.values()) EXPECT_EQ(x, 0);
  for (const double x : lse.values()) EXPECT_EQ(x, -kInfinity);
  const HostTensor no_outs(DType::kFloat32, {0, 3, 4}), no_lses(DType::kFloat32, {0, 3});
  ASSERT_TRUE(combine(no_outs.view(), no_lses.view(), out.poison().view()).ok());
  for (const double x : out.values()) EXPECT_EQ(x, 0);
}

TEST(Combine, AnyStridesAndOutputTypes) {
  Random random(1);
  HostTensor outs = HostTensor(DType::kFloat32, {4, 5, 300}, {1, 1200, 4}).fill_normal(random);
  HostTensor lses = HostTensor(DType::kFloat32, {4, 5}, {5, 1}).fill_normal(random, 100, 30);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    HostTensor out(dtype, {5, 300}, {1, 5}), lse(DType::kFloat32, {5}, {3});
    ASSERT_TRUE(combine(outs.view(), lses.view(), out.view(), lse.view()).ok());
    EXPECT_EQ(out.damage(), "");
    EXPECT_EQ(lse.damage(), "");
    for (int64_t r = 0; r < 5; ++r) {
      double max = -kInfinity, sum = 0;
      for (int64_t p = 0; p < 4; ++p) max = std::max(max, lses.get({p, r}));
      for (int64_t p = 0; p < 4; ++p) sum += std::exp(lses.get({p, r}) - max);
      EXPECT_NEAR(lse.get({r}), max + std::log(sum), 1e-4);
      for (int64_t c = 0; c < 300; ++c) {
        double expected = 0;
        for (int64_t p = 0; p < 4; ++p) {
          expected += std::exp(lses.get({p, r}) - max) / sum * outs.get({p, r, c});
        }
        EXPECT_NEAR(out.get({r, c}), expected, dtype == DType::kFloat32 ? 1e-6 : 2e-2);
      }
    }
  }
}

TEST(Combine, RefusesEachWrongArgument) {
  const HostTensor outs(DType::kFloat32, {2, 3, 4}), lses(DType::kFloat32, {2, 3});
  const HostTensor out(DType::kFloat32, {3, 4}), lse(DType::kFloat32, {3});
  const auto refused = [](const Status& status, const char* name) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().rfind(std::string(name) + ":", 0), 0U) << status.message();
    EXPECT_NE(status.message().find("allowed:"), std::string::npos) << status.message();
  };
  refused(combine(lses.view(), lses.view(), out.view()), "outs");
  refused(combine(HostTensor(DType::kBFloat16, {2, 3, 4}).view(), lses.view(), out.view()), "outs");
  refused(combine(outs.view(), HostTensor(DType::kFloat32, {3, 3}).view(), out.view()), "lses");
  refused(combine(outs.view(), HostTensor(DType::kFloat64, {2, 3}).view(), out.view()), "lses");
  refused(combine(outs.view(), lses.view(), HostTensor(DType::kFloat32, {4, 3}).view()), "out");
  refused(combine(outs.view(), lses.view(), HostTensor(DType::kInt32, {3, 4}).view()), "out");
  refused(combine(outs.view(), lses.view(), out.view(), HostTensor(DType::kFloat32, {4}).view()),
          "lse");
  refused(combine(outs.view(), lses.view(), out.view(), HostTensor(DType::kFloat64, {3}).view()),
          "lse");
  Tensor broken = out.view();
  broken.strides[0] = 0;
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken.strides[0] = -4;
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken = out.view();
  broken.data = nullptr;
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken = out.view();
  broken.device = Device::cuda(0);
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken.device = {DeviceType::kCpu, 1};
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken = outs.view();
  broken.strides[0] = int64_t{1} << 62;
  refused(combine(broken, lses.view(), out.view()), "outs");
  broken = out.view();
  broken.data = outs.view().data;
  refused(combine(outs.view(), lses.view(), broken), "out");
  broken = lse.view();
  broken.dims[0] = -3;
  refused(combine(outs.view(), lses.view(), out.view(), broken), "lse");
}

}  // namespace
}  // namespace fa4::test
