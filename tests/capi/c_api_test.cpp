// SPDX-License-Identifier: BSD-3-Clause
// The C interface from C++: it says what the C++ interface says, and misuse of its structs is an
// error. tests/capi/program.c uses it from C.
#include <fa4/fa4.h>
#include <fa4/plan.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "capi/structs.h"

namespace fa4 {
namespace {

/// q, k, v, out and lse of [2, 3, 4, 8] with two key heads, and their C views.
struct Small {
  static constexpr int64_t kQDims[] = {2, 3, 4, 8}, kKDims[] = {2, 5, 2, 8}, kLseDims[] = {2, 4, 3};
  std::vector<float> q_data, k_data, v_data, out_data, lse_data;
  fa4_tensor q, k, v, out, lse;
  fa4_tensors tensors{};

  Small()
      : q_data(192),
        k_data(160),
        v_data(160),
        out_data(192, -7),
        lse_data(24, -7),
        q(fa4_contiguous(q_data.data(), FA4_FLOAT32, 4, kQDims)),
        k(fa4_contiguous(k_data.data(), FA4_FLOAT32, 4, kKDims)),
        v(fa4_contiguous(v_data.data(), FA4_FLOAT32, 4, kKDims)),
        out(fa4_contiguous(out_data.data(), FA4_FLOAT32, 4, kQDims)),
        lse(fa4_contiguous(lse_data.data(), FA4_FLOAT32, 3, kLseDims)) {
    for (size_t i = 0; i < q_data.size(); ++i) q_data[i] = static_cast<float>(i % 7) / 4 - 0.7F;
    for (size_t i = 0; i < k_data.size(); ++i) k_data[i] = static_cast<float>(i % 5) / 3 - 0.6F;
    for (size_t i = 0; i < v_data.size(); ++i) v_data[i] = static_cast<float>(i % 11) / 5 - 1.0F;
    tensors.struct_size = sizeof(tensors);
    tensors.q = &q;
    tensors.k = &k;
    tensors.v = &v;
    tensors.out = &out;
    tensors.lse = &lse;
  }
  Small(const Small&) = delete;
  Small& operator=(const Small&) = delete;
};

/// The same with dout, dq, dk and dv.
struct SmallBackward : Small {
  std::vector<float> dout_data, dq_data, dk_data, dv_data;
  fa4_tensor dout, dq, dk, dv;
  fa4_gradients gradients{};

  SmallBackward()
      : dout_data(192, 0.5F),
        dq_data(192, -7),
        dk_data(160, -7),
        dv_data(160, -7),
        dout(fa4_contiguous(dout_data.data(), FA4_FLOAT32, 4, kQDims)),
        dq(fa4_contiguous(dq_data.data(), FA4_FLOAT32, 4, kQDims)),
        dk(fa4_contiguous(dk_data.data(), FA4_FLOAT32, 4, kKDims)),
        dv(fa4_contiguous(dv_data.data(), FA4_FLOAT32, 4, kKDims)) {
    gradients.struct_size = sizeof(gradients);
    gradients.dout = &dout;
    gradients.dq = &dq;
    gradients.dk = &dk;
    gradients.dv = &dv;
  }
};

/// Tensors and options in C++ form, as the interface converts them.
AttentionTensors cpp_tensors(const Small& small) {
  AttentionTensors tensors;
  EXPECT_TRUE(capi::to_cpp(&small.tensors, &tensors).ok());
  return tensors;
}

std::string error() { return fa4_last_error(); }

TEST(CApi, VersionIsTheLibrarys) { EXPECT_STREQ(fa4_version(), version()); }

TEST(CApi, EnumsHaveTheValuesOfTheCppInterface) {
  EXPECT_EQ(FA4_RUNTIME_ERROR, static_cast<int>(StatusCode::kRuntimeError));
  EXPECT_EQ(FA4_UNSUPPORTED, static_cast<int>(StatusCode::kUnsupported));
  EXPECT_EQ(FA4_BFLOAT16, static_cast<int>(DType::kBFloat16));
  EXPECT_EQ(FA4_BOOL, static_cast<int>(DType::kBool));
  EXPECT_EQ(FA4_CAUSAL_TOP_LEFT, static_cast<int>(Causal::kTopLeft));
  EXPECT_EQ(FA4_CUDA, static_cast<int>(DeviceType::kCuda));
  EXPECT_EQ(FA4_EMULATOR, static_cast<int>(DeviceType::kEmulator));
}

TEST(CApi, ForwardGivesTheBitsOfTheCppInterface) {
  Small small;
  fa4_options options = fa4_default_options();
  options.causal = FA4_CAUSAL_BOTTOM_RIGHT;
  options.window_left = 2;
  ASSERT_EQ(fa4_attention(&small.tensors, &options, nullptr), FA4_OK) << error();

  Small same;
  AttentionOptions cpp_options;
  cpp_options.causal = Causal::kBottomRight;
  cpp_options.window.left = 2;
  attention(cpp_tensors(same), cpp_options).check();
  EXPECT_EQ(small.out_data, same.out_data);
  EXPECT_EQ(small.lse_data, same.lse_data);
}

TEST(CApi, BackwardAndPlansGiveTheBitsOfTheCppInterface) {
  SmallBackward small;
  ASSERT_EQ(fa4_attention(&small.tensors, nullptr, nullptr), FA4_OK) << error();
  ASSERT_EQ(fa4_attention_backward(&small.tensors, &small.gradients, nullptr, nullptr), FA4_OK)
      << error();

  SmallBackward same;
  AttentionGradients gradients;
  ASSERT_TRUE(capi::to_cpp(&same.gradients, &gradients).ok());
  attention(cpp_tensors(same)).check();
  attention_backward(cpp_tensors(same), gradients).check();
  EXPECT_EQ(small.dq_data, same.dq_data);
  EXPECT_EQ(small.dk_data, same.dk_data);
  EXPECT_EQ(small.dv_data, same.dv_data);
}

TEST(CApi, APlanRunsAndDescribesItself) {
  Small direct, planned;
  ASSERT_EQ(fa4_attention(&direct.tensors, nullptr, nullptr), FA4_OK) << error();

  fa4_plan* plan = nullptr;
  ASSERT_EQ(fa4_plan_create(&planned.tensors, nullptr, nullptr, &plan), FA4_OK) << error();
  EXPECT_GT(std::strlen(fa4_plan_describe(plan)), 0U);
  const size_t bytes = fa4_plan_workspace_bytes(plan);
  std::vector<std::byte> memory(bytes + 64);
  const size_t offset = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  EXPECT_EQ(fa4_plan_run(plan, &planned.tensors, nullptr, memory.data() + offset, bytes, nullptr),
            FA4_OK)
      << error();
  EXPECT_EQ(direct.out_data, planned.out_data);
  if (bytes > 0) {
    EXPECT_EQ(
        fa4_plan_run(plan, &planned.tensors, nullptr, memory.data() + offset, bytes - 1, nullptr),
        FA4_INVALID_ARGUMENT);
    EXPECT_NE(error().find("workspace"), std::string::npos) << error();
  }
  fa4_plan_destroy(plan);
}

TEST(CApi, CombineGivesTheBitsOfTheCppInterface) {
  const std::vector<float> outs = {1, 2, 3, 4}, lses = {0, 1};
  std::vector<float> out(2), same(2);
  const int64_t outs_dims[] = {2, 1, 2}, lses_dims[] = {2, 1}, out_dims[] = {1, 2};
  const fa4_tensor outs_c = fa4_contiguous(outs.data(), FA4_FLOAT32, 3, outs_dims);
  const fa4_tensor lses_c = fa4_contiguous(lses.data(), FA4_FLOAT32, 2, lses_dims);
  const fa4_tensor out_c = fa4_contiguous(out.data(), FA4_FLOAT32, 2, out_dims);
  ASSERT_EQ(fa4_combine(&outs_c, &lses_c, &out_c, nullptr), FA4_OK) << error();
  combine(Tensor::contiguous(outs.data(), DType::kFloat32, {2, 1, 2}),
          Tensor::contiguous(lses.data(), DType::kFloat32, {2, 1}),
          Tensor::contiguous(same.data(), DType::kFloat32, {1, 2}))
      .check();
  EXPECT_EQ(out, same);
  EXPECT_EQ(fa4_combine(&outs_c, nullptr, &out_c, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_EQ(error().rfind("lses: ", 0), 0U) << error();
}

TEST(CApi, NullArgumentsAreNamed) {
  Small small;
  fa4_plan* plan = nullptr;
  EXPECT_EQ(fa4_attention(nullptr, nullptr, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_EQ(error().rfind("tensors: is null", 0), 0U) << error();
  EXPECT_EQ(fa4_attention_backward(&small.tensors, nullptr, nullptr, nullptr),
            FA4_INVALID_ARGUMENT);
  EXPECT_EQ(error().rfind("gradients: is null", 0), 0U) << error();
  EXPECT_EQ(fa4_plan_create(&small.tensors, nullptr, nullptr, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_EQ(error().rfind("plan: is null", 0), 0U) << error();
  EXPECT_EQ(fa4_plan_run(nullptr, &small.tensors, nullptr, nullptr, 0, nullptr),
            FA4_INVALID_ARGUMENT);
  EXPECT_EQ(fa4_plan_create(nullptr, nullptr, nullptr, &plan), FA4_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(fa4_plan_workspace_bytes(nullptr), 0U);
  EXPECT_STREQ(fa4_plan_describe(nullptr), "");
  fa4_plan_destroy(nullptr);

  small.tensors.q = nullptr;
  EXPECT_EQ(fa4_attention(&small.tensors, nullptr, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_NE(error().find("q"), std::string::npos) << error();
}

TEST(CApi, FieldsOutsideTheirEnumsAreErrors) {
  const auto refused = [](auto change, const char* argument) {
    Small small;
    fa4_options options = fa4_default_options();
    change(small, options);
    EXPECT_EQ(fa4_attention(&small.tensors, &options, nullptr), FA4_INVALID_ARGUMENT) << argument;
    EXPECT_EQ(error().rfind(std::string(argument) + ": ", 0), 0U) << error();
  };
  refused([](Small& s, fa4_options&) { s.k.dtype = 7; }, "k.dtype");
  refused([](Small& s, fa4_options&) { s.k.dtype = -1; }, "k.dtype");
  refused([](Small& s, fa4_options&) { s.v.rank = 0; }, "v.rank");
  refused([](Small& s, fa4_options&) { s.v.rank = 5; }, "v.rank");
  refused([](Small& s, fa4_options&) { s.out.device_type = 2; }, "out.device_type");
  refused([](Small&, fa4_options& o) { o.causal = 3; }, "options.causal");
  refused([](Small&, fa4_options& o) { o.reserved = 1; }, "options.reserved");
}

TEST(CApi, WindowsBelowMinusOneAreErrorsAndMinusOneIsNoLimit) {
  Small small;
  fa4_options options = fa4_default_options();
  options.window_right = -2;
  EXPECT_EQ(fa4_attention(&small.tensors, &options, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_NE(error().find("window"), std::string::npos) << error();
  AttentionOptions converted;
  options.window_right = -1;
  options.window_left = 0;
  ASSERT_TRUE(capi::to_cpp(&options, &converted).ok());
  EXPECT_FALSE(converted.window.right.has_value());
  EXPECT_EQ(converted.window.left, 0);
}

TEST(CApi, ScaleIsReadIfItIsGiven) {
  fa4_options options = fa4_default_options();
  options.scale = 3;
  AttentionOptions converted;
  ASSERT_TRUE(capi::to_cpp(&options, &converted).ok());
  EXPECT_FALSE(converted.scale.has_value());
  options.has_scale = 1;
  ASSERT_TRUE(capi::to_cpp(&options, &converted).ok());
  EXPECT_EQ(converted.scale, 3);
}

TEST(CApi, SupportsSaysWhatIsMissing) {
  Small small;
  EXPECT_EQ(fa4_supports(&small.tensors, nullptr, nullptr), FA4_OK) << error();
  for (fa4_tensor* tensor : {&small.q, &small.k, &small.v, &small.out, &small.lse}) {
    tensor->device_type = FA4_CUDA;
  }
  EXPECT_EQ(fa4_supports(&small.tensors, nullptr, nullptr), FA4_UNSUPPORTED);
  EXPECT_NE(error().find("cuda:0"), std::string::npos) << error();
}

TEST(CApi, MessagesBelongToTheirThread) {
  ASSERT_EQ(fa4_attention(nullptr, nullptr, nullptr), FA4_INVALID_ARGUMENT);
  std::string other = "not empty";
  std::thread([&other] { other = fa4_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_NE(error(), "");
}

TEST(CApi, StructsOfTheWrongSizeAreErrors) {
  for (const size_t size : {size_t{0}, size_t{8}, sizeof(fa4_options) - 1, size_t{1} << 40}) {
    Small small;
    fa4_options options = fa4_default_options();
    options.struct_size = size;
    EXPECT_EQ(fa4_attention(&small.tensors, &options, nullptr), FA4_INVALID_ARGUMENT) << size;
    EXPECT_EQ(error().rfind("options.struct_size: is " + std::to_string(size), 0), 0U) << error();

    small.k.struct_size = size;
    EXPECT_EQ(fa4_attention(&small.tensors, nullptr, nullptr), FA4_INVALID_ARGUMENT) << size;
    EXPECT_EQ(error().rfind("k.struct_size: is ", 0), 0U) << error();

    small.tensors.struct_size = size;
    EXPECT_EQ(fa4_attention(&small.tensors, nullptr, nullptr), FA4_INVALID_ARGUMENT) << size;
    EXPECT_EQ(error().rfind("tensors.struct_size: is ", 0), 0U) << error();
  }
}

/// Options as a newer header would have them.
struct NewerOptions {
  fa4_options known = fa4_default_options();
  int64_t later = 0;
};

TEST(CApi, ANewerCallersStructIsServedIfWhatWeDoNotKnowIsZero) {
  Small small;
  NewerOptions options;
  options.known.struct_size = sizeof(options);
  EXPECT_EQ(fa4_attention(&small.tensors, &options.known, nullptr), FA4_OK) << error();
  options.later = int64_t{1} << 56;
  EXPECT_EQ(fa4_attention(&small.tensors, &options.known, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_NE(error().find("does not know"), std::string::npos) << error();
}

TEST(CApi, AnOlderCallersStructKeepsTheDefaultsOfWhatItLacks) {
  const int32_t older[] = {1, 2};
  int32_t target[] = {-1, -1, 30, 40};
  ASSERT_TRUE(capi::copy_sized("x", older, sizeof(older), 4, target, sizeof(target)).ok());
  EXPECT_EQ(target[1], 2);
  EXPECT_EQ(target[2], 30);
  EXPECT_FALSE(capi::copy_sized("x", older, 3, 4, target, sizeof(target)).ok());
}

TEST(CApi, ContiguousMultipliesStridesAndKeepsABadRank) {
  const int64_t dims[] = {2, 3, 4, 5};
  const fa4_tensor tensor = fa4_contiguous(nullptr, FA4_INT64, 4, dims);
  EXPECT_EQ(tensor.struct_size, sizeof(fa4_tensor));
  EXPECT_EQ(tensor.strides[0], 60);
  EXPECT_EQ(tensor.strides[3], 1);
  EXPECT_EQ(fa4_contiguous(nullptr, FA4_INT64, 5, dims).rank, 5);
}

TEST(CApi, ALongMessageIsCut) {
  Small small;
  fa4_options options = fa4_default_options();
  options.softcap = -std::numeric_limits<double>::max();
  EXPECT_EQ(fa4_attention(&small.tensors, &options, nullptr), FA4_INVALID_ARGUMENT);
  EXPECT_LT(error().size(), 1024U);
}

}  // namespace
}  // namespace fa4
