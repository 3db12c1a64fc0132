// SPDX-License-Identifier: BSD-3-Clause
// The attention shapes of known models: their heads, head dims, scale and mask; lengths as a model
// has them where that is short, cut where it isn't. Each runs forward and backward.
#include "cases/case_helpers.h"
#include "cases/rows_judge.h"

namespace fa4::cases {
namespace {

constexpr int64_t kNoWindow = -1;

/// One layer of a model. scale 0: 1/sqrt(d).
struct Model {
  const char* name;
  int64_t heads_q, heads_k, d, d_v;
  int64_t s_q, s_k;
  Causal causal = Causal::kNone;
  int64_t left = kNoWindow;
  double scale = 0;
  double softcap = 0;
  int64_t batch = 1;
};

constexpr Causal kCausal = Causal::kBottomRight;

const std::vector<Model> kModels = {
    {"Llama3_8B", 32, 8, 128, 128, 257, 257, kCausal},
    {"Llama3_70B_decode", 64, 8, 128, 128, 1, 513, kCausal},
    {"Llama31_405B", 128, 8, 128, 128, 33, 65, kCausal},
    {"Llama32_1B", 32, 8, 64, 64, 130, 130, kCausal},
    {"Llama32_3B", 24, 8, 128, 128, 130, 130, kCausal},
    {"Qwen25_05B", 14, 2, 64, 64, 704, 704, kCausal},
    {"Qwen25_7B_decode", 28, 4, 128, 128, 1, 256, kCausal},
    {"Qwen25_14B", 40, 8, 128, 128, 129, 129, kCausal},
    {"Qwen25_72B", 64, 8, 128, 128, 129, 129, kCausal},
    {"Qwen3_30B_A3B", 32, 4, 128, 128, 129, 129, kCausal},
    {"Qwen35_27B", 24, 4, 256, 256, 65, 65, kCausal},
    {"Mistral_7B", 32, 8, 128, 128, 300, 300, kCausal, 63},
    {"Phi2", 32, 32, 80, 80, 130, 130, kCausal},
    {"Phi3_mini", 32, 32, 96, 96, 130, 130, kCausal, 46},
    {"Falcon_7B", 71, 1, 64, 64, 65, 65, kCausal},
    {"StarCoder", 48, 1, 128, 128, 65, 65, kCausal},
    {"DeepSeekV3_prefill", 16, 16, 192, 128, 200, 200, kCausal, kNoWindow, 0.1352},
    {"GLM5_prefill", 8, 8, 256, 256, 70, 70, kCausal},
    {"Gemma2_2B_local", 8, 4, 256, 256, 100, 100, kCausal, 31, 1 / 16., 50},
    {"Gemma2_2B_global", 8, 4, 256, 256, 100, 100, kCausal, kNoWindow, 1 / 16., 50},
    {"Gemma2_9B", 16, 8, 256, 256, 66, 66, kCausal, kNoWindow, 1 / 16., 50},
    {"Gemma2_27B", 32, 16, 128, 128, 70, 70, kCausal, 31, 1 / 12., 50},
    {"Gemma3_1B", 4, 1, 256, 256, 100, 100, kCausal, 31},
    {"Gemma3_4B", 8, 4, 256, 256, 100, 100, kCausal, 31},
    {"Gemma3_27B", 32, 16, 128, 128, 70, 70, kCausal, 31, 0.0771516749810460},  // 168^-0.5
    {"Gemma4_E2B_local", 8, 1, 256, 256, 100, 100, kCausal, 31, 1},
    {"ViT_B16", 12, 12, 64, 64, 197, 197},
    {"ViT_L14_336", 16, 16, 64, 64, 577, 577},
    {"ViT_H14", 16, 16, 80, 80, 257, 257},
    {"SigLIP_so400m", 16, 16, 72, 72, 729, 729, Causal::kNone, kNoWindow, 0, 0, 2},
    {"DINOv2_g14", 24, 24, 64, 64, 261, 261},
    {"DINOv2_g14_518", 2, 2, 64, 64, 1374, 1374},
    {"DiT_XL2_256", 16, 16, 72, 72, 256, 256},
    {"DiT_XL2_1024", 4, 4, 72, 72, 1024, 1024},
    {"SD15_32x32", 2, 2, 80, 80, 1024, 1024},
    {"SD15_16x16", 8, 8, 160, 160, 256, 256},
    {"SD15_8x8", 8, 8, 160, 160, 64, 64},
    {"SD15_cross", 8, 8, 40, 40, 256, 77},
    {"SD15_cross_16x16", 8, 8, 160, 160, 256, 77},
    {"SDXL_1024", 4, 4, 64, 64, 1024, 1024},
    {"SDXL_cross", 20, 20, 64, 64, 256, 77},
    {"FLUX", 24, 24, 128, 128, 333, 333},
    {"SD3", 24, 24, 64, 64, 333, 333},
    {"Wan21_1_3B", 12, 12, 128, 128, 1001, 1001},
    {"Wan21_14B_cross", 40, 40, 128, 128, 101, 512},
    {"LTX2_audio_cross", 2, 2, 64, 64, 126, 3840},
    {"Whisper_tiny_encoder", 6, 6, 64, 64, 1500, 1500},
    {"Whisper_tiny_decoder", 6, 6, 64, 64, 448, 448, kCausal},
    {"Whisper_tiny_cross", 6, 6, 64, 64, 448, 1500},
    {"Whisper_tiny_cross_decode", 6, 6, 64, 64, 1, 1500},
    {"CLIP_text_B", 8, 8, 64, 64, 77, 77, kCausal},
    {"CLIP_text_L", 12, 12, 64, 64, 77, 77, kCausal},
};

class ModelShapes : public testing::TestWithParam<std::tuple<Model, DType>> {};

Case case_of(const Model& m, DType dtype) {
  Case c = ref64({.batch = m.batch,
                  .s_q = m.s_q,
                  .s_k = m.s_k,
                  .heads_q = m.heads_q,
                  .heads_k = m.heads_k,
                  .d = m.d,
                  .d_v = m.d_v},
                 dtype);
  c.options.causal = m.causal;
  c.options.softcap = m.softcap;
  if (m.scale != 0) c.options.scale = m.scale;
  if (m.left != kNoWindow) c.options.window.left = m.left;
  return c;
}

TEST_P(ModelShapes, ForwardAndBackward) {
  const auto& [model, dtype] = GetParam();
  Case c = case_of(model, dtype);
  expect_rows_right(c);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Model, DType>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + to_string(std::get<1>(info.param));
}
/// Every model in both dtypes; the largest ones in one, in turn.
std::vector<std::tuple<Model, DType>> models_and_dtypes() {
  constexpr int64_t kLarge = 200'000'000;  // multiplications in a forward
  std::vector<std::tuple<Model, DType>> all;
  bool turn = false;
  for (const Model& m : kModels) {
    const bool large = m.batch * m.heads_q * m.s_q * m.s_k * (m.d + m.d_v) > kLarge;
    turn = turn != large;
    if (!large || turn) all.emplace_back(m, DType::kFloat32);
    if (!large || !turn) all.emplace_back(m, DType::kBFloat16);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, ModelShapes, testing::ValuesIn(models_and_dtypes()), name_of);

// Multi-head latent attention after absorption: 576 (512) head dims.
TEST(Models, DeepSeekV3DecodeAbsorbed) {
  Case c = ref64({.s_q = 1, .s_k = 130, .heads_q = 16, .heads_k = 1, .d = 576, .d_v = 512});
  EXPECT_EQ(c.forward().code(), StatusCode::kUnsupported);
  GTEST_SKIP() << "waits for head dims 576 and 512";
}
TEST(Models, GLM5SparseDecode) { GTEST_SKIP() << "waits for sparse index lists and head dim 576"; }
TEST(Models, Gemma4GlobalLayers) { GTEST_SKIP() << "waits for head dim 512"; }

// Gemma 3 and Qwen 3 normalise each row of q and k.
TEST(Models, RowsOfUnitNorm) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.s_q = 129, .s_k = 129, .heads_q = 8, .heads_k = 4, .d = 128}, dtype);
    for (HostTensor* x : {&c.q, &c.k}) {
      for (int64_t row = 0; row < 129; ++row) {
        for (int64_t h = 0; h < heads_of(*x); ++h) {
          double square = 0;
          for (int64_t e = 0; e < 128; ++e) square += std::pow(x->get({0, row, h, e}), 2);
          const double to_unit = std::sqrt(128 / square);
          for (int64_t e = 0; e < 128; ++e) {
            x->set({0, row, h, e}, x->get({0, row, h, e}) * to_unit);
          }
        }
      }
    }
    c.options.causal = kCausal;
    expect_rows_right(c);
  }
}

TEST(Models, Llama4ScoutChunks) {
  Case c = ref64({.s_q = 130, .s_k = 130, .heads_q = 40, .heads_k = 8, .d = 128}, DType::kBFloat16);
  c.options.causal = kCausal;
  c.mask = mask_of({1, 1, 130, 130}, [](const Index& i) { return i[2] / 48 == i[3] / 48; });
  expect_ends_right(c);
}

TEST(Models, GptOssSinksAndWindow) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool windowed : {true, false}) {
      if (windowed == (dtype == DType::kFloat32)) continue;
      Case c = ref64({.s_q = 150, .s_k = 150, .heads_q = 64, .heads_k = 8, .d = 64}, dtype);
      c.options.causal = kCausal;
      if (windowed) c.options.window.left = 127;
      c.sink = HostTensor(dtype, {64}).fill_with([](const Index& i) {
        return std::sin(static_cast<double>(i[0])) * 3;
      });
      expect_ends_right(c);
    }
  }
}

// A padded batch of a sentence encoder, as lengths and as a mask.
TEST(Models, BertPaddedBatch) {
  const std::vector<int64_t> lengths = {5, 37, 128};
  for (const auto& [heads, d] : {std::pair{12, 64}, {16, 64}, {12, 32}, {8, 32}}) {
    Case c = ref64({.batch = 3, .s_q = 128, .s_k = 128, .heads_q = heads, .d = d});
    c.seqused_k = test::indices(lengths);
    expect_ends_right(c);
    Case masked = c;
    masked.seqused_k = {};
    masked.mask = mask_of({3, 1, 1, 128}, [&](const Index& i) { return i[3] < lengths[i[0]]; });
    run(masked);
    EXPECT_LE(distance(c.out, masked.out), 2e-6);
    EXPECT_LE(distance(c.dq, masked.dq), 2e-5);
  }
}

/// T5's buckets of relative positions (key - query): 32 of them, up to a distance of 128.
int t5_bucket(int64_t relative, bool bidirectional) {
  int buckets = 32, bucket = 0;
  if (bidirectional) {
    buckets /= 2;
    if (relative > 0) bucket = buckets;
    relative = std::abs(relative);
  } else {
    relative = std::max<int64_t>(-relative, 0);
  }
  const int exact = buckets / 2;
  if (relative < exact) return bucket + static_cast<int>(relative);
  const double place = std::log(static_cast<double>(relative) / exact) / std::log(128.0 / exact);
  return bucket + std::min(buckets - 1, exact + static_cast<int>(place * (buckets - exact)));
}

TEST(Models, T5Buckets) {
  const std::vector<std::pair<int, int>> encoder = {
      {-200, 15}, {-128, 15}, {-64, 14}, {-20, 10}, {-9, 8},  {-8, 8},  {-1, 1},
      {0, 0},     {1, 17},    {7, 23},   {8, 24},   {16, 26}, {64, 30}, {128, 31}};
  for (const auto& [relative, bucket] : encoder) EXPECT_EQ(t5_bucket(relative, true), bucket);
  const std::vector<std::pair<int, int>> decoder = {{-200, 31}, {-128, 31}, {-64, 26}, {-20, 17},
                                                    {-16, 16},  {-15, 15},  {-1, 1},   {0, 0}};
  for (const auto& [relative, bucket] : decoder) EXPECT_EQ(t5_bucket(relative, false), bucket);
}

// T5: scale 1, a learned bias that all layers share, none in cross-attention.
TEST(Models, T5EncoderDecoderAndCross) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool encoder : {true, false}) {
      Case c = ref64({.s_q = 114, .s_k = 114, .heads_q = 8, .d = 64}, dtype);
      test::Random random(5);
      for (HostTensor* x : {&c.q, &c.k}) x->fill_normal(random, 0, 0.3);
      c.options.scale = 1;
      if (!encoder) c.options.causal = kCausal;
      c.bias = HostTensor(dtype, {1, 8, 114, 114}).fill_with([&](const Index& i) {
        return std::sin(1.7 * t5_bucket(i[3] - i[2], encoder) + static_cast<double>(i[1]));
      });
      expect_ends_right(c);
    }
    Case cross = ref64({.s_q = 114, .s_k = 200, .heads_q = 12, .d = 64}, dtype);
    cross.options.scale = 1;
    expect_rows_right(cross);
  }
}

/// ALiBi's slopes for any number of heads.
std::vector<double> alibi_slopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  const auto exponent = [](int64_t i, int64_t n) {
    return -8.0 * static_cast<double>(i) / static_cast<double>(n);
  };
  for (int64_t i = 1; i <= power; ++i) slopes.push_back(std::exp2(exponent(i, power)));
  for (int64_t i = 1; i <= heads - power; ++i) {
    slopes.push_back(std::exp2(exponent(2 * i - 1, 2 * power)));
  }
  return slopes;
}

TEST(Models, AlibiSlopes) {
  EXPECT_EQ(alibi_slopes(8)[0], 0.5);
  EXPECT_EQ(alibi_slopes(8)[7], 1 / 256.);
  const std::array<double, 4> last_of_12 = {.707107, .353553, .176777, .088388};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(alibi_slopes(12)[8 + i], last_of_12[i], 1e-6);
  EXPECT_NEAR(alibi_slopes(16)[0], .707107, 1e-6);
  EXPECT_NEAR(alibi_slopes(16)[15], .00390625, 1e-9);
  EXPECT_NEAR(alibi_slopes(112)[0], .917004, 1e-6);
  EXPECT_NEAR(alibi_slopes(112)[1], .840896, 1e-6);
  EXPECT_NEAR(alibi_slopes(112)[111], .01631678, 1e-8);
}

struct AlibiModel {
  const char* name;
  int64_t heads, d, s;
  DType dtype;
};
TEST(Models, BloomAndMptAlibi) {
  for (const AlibiModel& m : {AlibiModel{"BLOOM 176B", 112, 128, 40, DType::kBFloat16},
                              {"BLOOM 560M", 16, 64, 130, DType::kFloat32},
                              {"MPT 7B", 32, 128, 130, DType::kBFloat16}}) {
    SCOPED_TRACE(m.name);
    Case c = ref64({.s_q = m.s, .s_k = m.s, .heads_q = m.heads, .d = m.d}, m.dtype);
    c.options.causal = kCausal;
    c.alibi_slopes = HostTensor::of(DType::kFloat32, {m.heads}, alibi_slopes(m.heads));
    expect_ends_right(c);
  }
}

// Windows of 7 x 7, a relative bias for each head and a mask for each shifted window.
TEST(Models, SwinShiftedWindows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.batch = 4, .s_q = 49, .s_k = 49, .heads_q = 3, .d = 32}, dtype);
    test::Random random(49);
    c.bias = HostTensor(dtype, {1, 3, 49, 49}).fill_normal(random);
    const auto region = [](int64_t window, int64_t i) {
      const bool below = window >= 2 && i / 7 >= 4, right = window % 2 == 1 && i % 7 >= 4;
      return 2 * below + right;
    };
    c.mask = mask_of({4, 1, 49, 49},
                     [&](const Index& i) { return region(i[0], i[2]) == region(i[0], i[3]); });
    test::expect_right(c);
  }
}

// A bias that is a sum of one over rows and one over columns of a 14 x 14 window.
TEST(Models, SamDecomposedBias) {
  Case c = ref64({.s_q = 196, .s_k = 196, .heads_q = 16, .d = 80}, DType::kBFloat16);
  c.bias = HostTensor(DType::kBFloat16, {1, 16, 196, 196}).fill_with([](const Index& i) {
    const int64_t down = i[2] / 14 - i[3] / 14, across = i[2] % 14 - i[3] % 14;
    return std::sin(static_cast<double>(down * 3 + i[1])) + std::cos(static_cast<double>(across));
  });
  expect_ends_right(c);
}

// Video joint attention: all patches, then text of which a part is padding.
TEST(Models, VideoWithTextPadding) {
  for (const auto& [heads, d] : {std::pair{4, 128}, {4, 64}}) {
    Case c = ref64({.s_q = 1026, .s_k = 1026, .heads_q = heads, .d = d}, DType::kBFloat16);
    c.mask = mask_of({1, 1, 1, 1026}, [](const Index& i) { return i[3] < 1011; });
    expect_rows_right(c);
    expect_rows_zero(c.dk, "dk", 1011, 1026);
  }
}

TEST(Models, PaliGemmaPrefix) {
  Case c = ref64({.s_q = 280, .s_k = 280, .heads_q = 8, .heads_k = 1, .d = 256}, DType::kBFloat16);
  c.mask = mask_of({1, 1, 280, 280}, [](const Index& i) { return i[3] <= i[2] || i[3] < 256; });
  expect_rows_right(c);
}

// Gemma 3: image tokens see their whole image, text is causal, within a window.
TEST(Models, Gemma3ImageTokens) {
  Case c = ref64({.s_q = 100, .s_k = 100, .heads_q = 8, .heads_k = 4, .d = 256}, DType::kBFloat16);
  const auto image = [](int64_t i) { return i >= 20 && i < 60; };
  c.mask = mask_of({1, 1, 100, 100}, [&](const Index& i) {
    const bool causal = i[3] <= i[2] && i[3] + 31 >= i[2];
    return causal || (image(i[2]) && image(i[3]));
  });
  expect_ends_right(c);
}

// Triangle attention: a pair bias that the batch shares, and a mask a row.
TEST(Models, AlphaFoldTriangle) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Case c = ref64({.batch = 33, .s_q = 33, .s_k = 33, .heads_q = 4, .d = 32}, dtype);
    test::Random random(33);
    c.bias = HostTensor(dtype, {1, 4, 33, 33}).fill_normal(random);
    c.mask = mask_of({33, 1, 1, 33}, [](const Index& i) { return (i[0] * 7 + i[3]) % 5 != 0; });
    test::expect_right(c);  // dbias is a sum over the batch
  }
}

// Images of different sizes, packed.
TEST(Models, Qwen2VLPackedImages) {
  for (const DType dtype : {DType::kBFloat16}) {
    Case c = ref64({.heads_q = 16, .d = 80, .lengths_q = {64, 1, 135}, .lengths_k = {64, 1, 135}},
                   dtype);
    c.options.deterministic = true;
    test::expect_right(c);
  }
}

// The text layers' V may be a view: partial rotation leaves it transposed in memory.
TEST(Models, Qwen35TransposedV) {
  Case c = ref64({.s_q = 65, .s_k = 65, .heads_q = 24, .heads_k = 4, .d = 256}, DType::kBFloat16);
  c.options.causal = kCausal;
  c.v = c.v.with_strides(test::strides_in_order(c.v.dims(), {0, 2, 1, 3}));
  expect_rows_right(c);
}

}  // namespace
}  // namespace fa4::cases
