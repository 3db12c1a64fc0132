// SPDX-License-Identifier: BSD-3-Clause
#include <fa4/attention.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace fa4 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Three parts of two rows of 200 columns; parts weigh 1 : 2 : 5 in row 0, row 1 sees no key.
struct Parts {
  static constexpr int64_t kParts = 3, kRows = 2, kDim = 200;
  std::vector<double> outs = std::vector<double>(kParts * kRows * kDim);
  std::vector<double> lses = {std::log(1.0), -kInfinity,    std::log(2.0),
                              -kInfinity,    std::log(5.0), -kInfinity};
  std::vector<double> out = std::vector<double>(kRows * kDim, -7);
  std::vector<double> lse = std::vector<double>(kRows, -7);

  Parts() {
    for (int64_t p = 0; p < kParts; ++p) {
      for (int64_t c = 0; c < kDim; ++c) {
        outs[(p * kRows + 0) * kDim + c] = static_cast<double>((p + 1) * c);
        outs[(p * kRows + 1) * kDim + c] = kNaN;
      }
    }
  }
  Tensor outs_view() const {
    return Tensor::contiguous(outs.data(), DType::kFloat64, {kParts, kRows, kDim});
  }
  Tensor lses_view() const {
    return Tensor::contiguous(lses.data(), DType::kFloat64, {kParts, kRows});
  }
  Tensor out_view() const { return Tensor::contiguous(out.data(), DType::kFloat64, {kRows, kDim}); }
  Tensor lse_view() const { return Tensor::contiguous(lse.data(), DType::kFloat64, {kRows}); }
};

TEST(Combine, WeighsPartsByTheirLse) {
  Parts p;
  combine(p.outs_view(), p.lses_view(), p.out_view(), p.lse_view()).check();
  EXPECT_NEAR(p.lse[0], std::log(8.0), 1e-14);
  for (int64_t c = 0; c < Parts::kDim; ++c) {
    EXPECT_NEAR(p.out[c], static_cast<double>(c) * (1 + 2 * 2 + 5 * 3) / 8, 1e-11) << c;
  }
}

TEST(Combine, ARowThatSeesNoKeyIsZeroWhateverItsPartsHold) {
  Parts p;
  combine(p.outs_view(), p.lses_view(), p.out_view(), p.lse_view()).check();
  EXPECT_EQ(p.lse[1], -kInfinity);
  for (int64_t c = 0; c < Parts::kDim; ++c) EXPECT_EQ(p.out[Parts::kDim + c], 0) << c;
}

TEST(Combine, APartThatSeesNoKeyContributesNothing) {
  Parts p;
  p.lses[2 * 1] = -kInfinity;  // part 1, row 0
  for (int64_t c = 0; c < Parts::kDim; ++c) p.outs[Parts::kRows * Parts::kDim + c] = kNaN;
  combine(p.outs_view(), p.lses_view(), p.out_view()).check();
  EXPECT_NEAR(p.out[6], 6.0 * (1 + 5 * 3) / 6, 1e-11);
}

TEST(Combine, LargeLsesDoNotOverflow) {
  Parts p;
  for (double& lse : p.lses) lse += 5000;
  combine(p.outs_view(), p.lses_view(), p.out_view(), p.lse_view()).check();
  EXPECT_NEAR(p.lse[0], 5000 + std::log(8.0), 1e-11);
  EXPECT_NEAR(p.out[8], 20, 1e-9);
}

TEST(Combine, ANaNShows) {
  Parts p;
  p.lses = {-kInfinity, -kInfinity, kNaN, -kInfinity, -kInfinity, -kInfinity};
  combine(p.outs_view(), p.lses_view(), p.out_view(), p.lse_view()).check();
  EXPECT_TRUE(std::isnan(p.lse[0]));
  EXPECT_TRUE(std::isnan(p.out[0]));
  EXPECT_EQ(p.lse[1], -kInfinity);
}

TEST(Combine, NoPartsIsARowThatSeesNoKey) {
  Parts p;
  Tensor outs = p.outs_view(), lses = p.lses_view();
  outs.dims[0] = lses.dims[0] = 0;
  combine(outs, lses, p.out_view(), p.lse_view()).check();
  EXPECT_EQ(p.out[3], 0);
  EXPECT_EQ(p.lse[0], -kInfinity);
}

TEST(Combine, WritesAnyFloatDtypeAndAnyStrides) {
  const std::vector<float> outs = {1, 2, 3, 4}, lses = {0, 0};  // [2, 1, 2], [2, 1]
  std::vector<uint16_t> out(4, 0xFFFF);
  const Tensor strided = Tensor::strided(out.data(), DType::kBFloat16, {1, 2}, {4, 2});
  combine(Tensor::contiguous(outs.data(), DType::kFloat32, {2, 1, 2}),
          Tensor::contiguous(lses.data(), DType::kFloat32, {2, 1}), strided)
      .check();
  EXPECT_EQ(to_float(BFloat16{out[0]}), 2);
  EXPECT_EQ(to_float(BFloat16{out[2]}), 3);
  EXPECT_EQ(out[1], 0xFFFF);
}

TEST(Combine, RefusesEachWrongArgument) {
  const auto refused = [](auto change, const std::string& argument) {
    Parts p;
    Tensor outs = p.outs_view(), lses = p.lses_view(), out = p.out_view(), lse = p.lse_view();
    change(outs, lses, out, lse);
    const Status status = combine(outs, lses, out, lse);
    EXPECT_FALSE(status.ok()) << argument;
    EXPECT_EQ(status.message().rfind(argument + ":", 0), 0U) << status.message();
  };
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs = {}; }, "outs");
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs.dtype = DType::kFloat32; }, "outs");
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs.dims[1] = -1; }, "outs");
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs.data = nullptr; }, "outs");
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs.strides[1] = -1; }, "outs");
  refused([](Tensor& outs, Tensor&, Tensor&, Tensor&) { outs.device = Device::cuda(0); }, "outs");
  refused([](Tensor&, Tensor& lses, Tensor&, Tensor&) { lses = {}; }, "lses");
  refused([](Tensor&, Tensor& lses, Tensor&, Tensor&) { lses.dtype = DType::kBFloat16; }, "lses");
  refused([](Tensor&, Tensor& lses, Tensor&, Tensor&) { lses.dims[0] = 2; }, "lses");
  refused([](Tensor&, Tensor&, Tensor& out, Tensor&) { out = {}; }, "out");
  refused([](Tensor&, Tensor&, Tensor& out, Tensor&) { out.dtype = DType::kInt32; }, "out");
  refused([](Tensor&, Tensor&, Tensor& out, Tensor&) { out.strides[0] = 0; }, "out");
  refused([](Tensor&, Tensor&, Tensor&, Tensor& lse) { lse.dtype = DType::kFloat32; }, "lse");
}

}  // namespace
}  // namespace fa4
