// SPDX-License-Identifier: BSD-3-Clause
#include "cli/demo_fixture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "cli/demo_batch.h"
#include "oracle/oracle.h"
#include "support/places.h"

namespace fa4::cli {
namespace {

namespace fs = std::filesystem;

fs::path source_folder() { return fs::path(test::kSourceFolder) / "data" / "minilm"; }

/// A copy of the fixture that a test may spoil; gone at the test's end.
class Copy {
 public:
  Copy() : folder_(fs::path(testing::TempDir()) / ("fa4_minilm_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::copy(source_folder(), folder_);
  }
  ~Copy() { fs::remove_all(folder_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

/// What load_demo_fixture() says about a folder.
std::string complaint(const fs::path& folder) {
  try {
    load_demo_fixture(folder);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Crc32, IsThatOfZlib) {
  EXPECT_EQ(crc32("123456789"), 0xCBF43926U);  // The check value that every description gives.
  EXPECT_EQ(crc32(""), 0U);
}

TEST(DemoFixture, HoldsSixLayersOfFourTexts) {
  const DemoFixture fixture = load_demo_fixture(find_demo_fixture(source_folder()));
  EXPECT_EQ(fixture.layers, 6);
  EXPECT_EQ(fixture.heads, 12);
  EXPECT_EQ(fixture.head_dim, 32);
  EXPECT_EQ(fixture.cu_seqlens, (std::vector<int32_t>{0, 1, 6, 43, 171}));
  EXPECT_EQ(fixture.longest(), 128);
  EXPECT_EQ(fixture.scores_per_head(), 1 + 25 + 37 * 37 + 128 * 128);
  ASSERT_EQ(fixture.texts.size(), 4U);
  for (const DemoText& text : fixture.texts) EXPECT_EQ(text.tokens.front(), "[CLS]");
  EXPECT_EQ(fixture.texts[1].tokens,
            (std::vector<std::string>{"[CLS]", "bees", "find", "flowers", "[SEP]"}));
  for (const auto* x : {&fixture.q, &fixture.k, &fixture.v}) {
    ASSERT_EQ(x->size(), static_cast<size_t>(6 * 171 * 12 * 32));
    std::set<uint16_t> different;
    for (const Float16 value : *x) {
      ASSERT_TRUE(std::isfinite(to_float(value)));
      different.insert(value.bits);
    }
    EXPECT_GT(different.size(), 10000U);
  }
}

// torch and the oracle share nothing: that they agree says that the files belong together.
TEST(DemoFixture, TorchsOutputBelongsToItsInput) {
  const DemoFixture fixture = load_demo_fixture(source_folder());
  const int64_t outs = fixture.total() * fixture.heads * fixture.head_dim;
  const int64_t lses = fixture.total() * fixture.heads;
  const std::vector<float> dout(static_cast<size_t>(outs), 0.0F);
  for (const int64_t layer : {int64_t{0}, fixture.layers - 1}) {
    const DemoBatch batch(fixture, layer, DType::kFloat32, DemoLayout::kPacked, dout);
    const oracle::Forward right = oracle::forward(batch.tensors, {});
    for (int64_t i = 0; i < outs; ++i) {
      ASSERT_NEAR(static_cast<double>(fixture.torch_out[layer * outs + i]), right.out[i], 5e-6);
    }
    for (int64_t i = 0; i < lses; ++i) {
      ASSERT_NEAR(static_cast<double>(fixture.torch_lse[layer * lses + i]), right.lse[i], 2e-5);
    }
  }
}

TEST(DemoFixture, NoticesAChangedByte) {
  const Copy copy;
  const fs::path path = copy.folder() / "k.npy";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(5000);
  const int byte = file.get();
  file.seekp(5000);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  const std::string text = complaint(copy.folder());
  EXPECT_NE(text.find("k.npy: CRC-32 is "), std::string::npos) << text;
}

TEST(DemoFixture, NoticesMissingFilesAndABrokenManifest) {
  const Copy copy;
  fs::remove(copy.folder() / "v.npy");
  EXPECT_NE(complaint(copy.folder()).find("v.npy"), std::string::npos);
  std::ofstream(copy.folder() / "manifest.json") << "{\"model\": 3";
  EXPECT_NE(complaint(copy.folder()).find("manifest.json"), std::string::npos);
  std::ofstream(copy.folder() / "manifest.json") << "{}";
  EXPECT_NE(complaint(copy.folder()).find("manifest.json"), std::string::npos);
}

TEST(DemoFixture, SaysWhereItLooked) {
  try {
    find_demo_fixture("/nowhere");
    FAIL() << "found";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/manifest.json"), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(find_demo_fixture(std::nullopt) / "manifest.json"));
}

}  // namespace
}  // namespace fa4::cli
