// SPDX-License-Identifier: BSD-3-Clause
#include "cli/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <sstream>

namespace fa4::cli {
namespace {

/// A .npy file with any version, header and data.
std::string file_of(int major, const std::string& header, const std::string& data) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  const auto size = static_cast<uint32_t>(header.size());
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(size >> (8 * i));
  return file + header + data;
}

std::string header_of(const std::string& descr, const std::string& shape,
                      const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Result<Array> read(const std::string& file, bool bfloat16 = false) {
  std::istringstream in(file);
  return read_npy(in, bfloat16);
}

void expect_refused(const std::string& file, const std::string& message, bool bfloat16 = false) {
  const Result<Array> array = read(file, bfloat16);
  ASSERT_FALSE(array.ok()) << message;
  EXPECT_EQ(array.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(array.status().message().find(message), std::string::npos)
      << "'" << array.status().message() << "' lacks '" << message << "'";
}

std::string floats(std::initializer_list<float> values) {
  std::string data(values.size() * sizeof(float), '\0');
  std::memcpy(data.data(), values.begin(), data.size());
  return data;
}

TEST(Npy, ReadsEveryVersion) {
  for (int major = 1; major <= 3; ++major) {
    const Result<Array> array =
        read(file_of(major, header_of("<f4", "(2, 2)"), floats({1, 2, 3, 4})));
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->dims(), (std::vector<int64_t>{2, 2}));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(get(*array, i), i + 1);
  }
}

TEST(Npy, TurnsFortranOrderIntoCOrder) {
  const Result<Array> array =
      read(file_of(1, header_of("<f4", "(2, 3)", "True"), floats({0, 3, 1, 4, 2, 5})));
  ASSERT_TRUE(array.ok()) << array.status().message();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(get(*array, i), i);
}

TEST(Npy, TakesKeysInAnyOrderAndEitherQuote) {
  const std::string header = "{\"shape\":(3,),\n \"fortran_order\" : False,'descr':\"<f4\"}";
  const Result<Array> array = read(file_of(1, header, floats({1, 2, 3})));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->dims(), std::vector<int64_t>{3});
}

TEST(Npy, ReadsBfloat16OnlyWhereAsked) {
  const std::string data("\x80\x3f\x00\xc0", 4);  // 1, -2
  for (const char* descr : {"<u2", "|V2", "<V2"}) {
    expect_refused(file_of(1, header_of(descr, "(2,)"), data), "bfloat16");
    const Result<Array> array = read(file_of(1, header_of(descr, "(2,)"), data), true);
    ASSERT_TRUE(array.ok());
    EXPECT_EQ(array->dtype(), DType::kBFloat16);
    EXPECT_EQ(get(*array, 0), 1);
    EXPECT_EQ(get(*array, 1), -2);
  }
}

TEST(Npy, WritesWhatItReads) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt64, DType::kBool}) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{5}, {3, 4}, {2, 0, 3}, {1, 2, 3, 4}}) {
      Array array(dtype, dims);
      for (int64_t i = 0; i < array.elements(); ++i) set(array, i, static_cast<int>(random() % 2));
      std::stringstream stream;
      ASSERT_TRUE(write_npy(stream, array).ok());
      EXPECT_EQ((stream.str().size() - array.bytes()) % 64, 0U);  // NumPy aligns the data
      const Result<Array> back = read_npy(stream, true);
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back->dtype(), dtype);
      EXPECT_EQ(back->dims(), dims);
      EXPECT_EQ(std::memcmp(back->data(), array.data(), array.bytes()), 0);
    }
  }
}

TEST(Npy, GivesEachMalformedFileItsMessage) {
  const std::string four = floats({1, 2, 3, 4});
  const auto one = [&](const std::string& header) { return file_of(1, header, four); };
  expect_refused("", "is empty");
  expect_refused("PK\x03\x04 a zip file", "begins with 'PK");
  expect_refused(std::string("\x93NUM", 4), "ends inside the magic string");
  expect_refused(std::string("\x93NUMPY\x04\x00", 8), "version: is 4.0");
  expect_refused(std::string("\x93NUMPY\x01\x07", 8), "version: is 1.7");
  expect_refused(std::string("\x93NUMPY\x01\x00\x10", 9), "inside the header's length");
  expect_refused(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12), "only 2 follow");
  expect_refused(file_of(2, std::string((1U << 20U) + 1, ' '), ""), "allowed: up to 1048576");
  expect_refused(one("'descr'"), "does not begin with '{'");
  expect_refused(one("{1: 2}"), "a key is no string");
  expect_refused(one("{'descr' '<f4'}"), "a key has no value");
  expect_refused(one("{'descr': '<f4' 'shape': (4,)}"), "neither ',' nor '}'");
  expect_refused(one("{'descr': '<f4', "), "a key is no string");
  expect_refused(one("{'fortran_order': False, 'shape': (4,)}"), "'descr' is missing");
  expect_refused(one("{'descr': '<f4', 'shape': (4,)}"), "'fortran_order' is missing");
  expect_refused(one("{'descr': '<f4', 'fortran_order': False}"), "'shape' is missing");
  expect_refused(one(header_of("<f4", "(4,)") + "!"), "something follows");
  expect_refused(one("{'extra': 1}"), "unknown key 'extra'");
  expect_refused(one(header_of("<f4", "(4,)", "0")), "neither True nor False");
  expect_refused(one("{'descr': [('a', '<f4')]}"), "structured type");
  expect_refused(one("{'descr': 4}"), "'descr' is no string");
  expect_refused(one("{'descr': ''}"), "'descr' is no string");
  expect_refused(one(header_of(">f4", "(4,)")), "big-endian");
  expect_refused(one(header_of("<c8", "(2,)")), "descr: is '<c8'");
  expect_refused(one(header_of("|O", "(4,)")), "descr: is '|O'");
  expect_refused(one(header_of("<f4", "4")), "'shape' is no tuple");
  expect_refused(one(header_of("<f4", "(-4,)")), "negative dim");
  expect_refused(one(header_of("<f4", "(4.0,)")), "does not end with ')'");
  expect_refused(one(header_of("<f4", "(a,)")), "no integer");
  expect_refused(one(header_of("<f4", "(99999999999999999999,)")), "does not fit 63 bits");
  expect_refused(one(header_of("<f4", "(4294967296, 4294967296)")), "does not fit 62 bits");
  expect_refused(one(header_of("<f4", "(2305843009213693952,)")), "does not fit 62 bits");
  expect_refused(one(header_of("<f4", "()")), "has 0 dims");
  expect_refused(one(header_of("<f4", "(1, 1, 1, 2, 2)")), "has 5 dims");
  expect_refused(one(header_of("<f4", "(5,)")), "data: are 16 bytes; allowed: the 20");
  expect_refused(one(header_of("<f4", "(3,)")), "data: are 16 bytes; allowed: the 12");
  expect_refused(one(header_of("<f4", "(1099511627776,)")), "data: are 16 bytes");
}

TEST(Npy, NamesTheFileInItsMessages) {
  const Result<Array> missing = read_npy_file("/no/such/file.npy");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("/no/such/file.npy: could not be opened"),
            std::string::npos);
  const Result<Array> folder = read_npy_file("/");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().message().rfind("/: ", 0), 0U) << folder.status().message();
}

/// Reading must end with an array that fits its file, or with a message; the sanitizer builds
/// watch the rest.
void expect_sane(const std::string& file, const char* how, uint32_t seed) {
  for (const bool bfloat16 : {false, true}) {
    const Result<Array> array = read(file, bfloat16);
    if (array.ok()) {
      EXPECT_LE(array->bytes(), file.size()) << how << ", seed " << seed;
    } else {
      EXPECT_FALSE(array.status().message().empty()) << how << ", seed " << seed;
    }
  }
}

TEST(Npy, SurvivesEveryTruncation) {
  const std::string whole = file_of(2, header_of("<f4", "(2, 2)"), floats({1, 2, 3, 4}));
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<Array> array = read(whole.substr(0, size));
    ASSERT_FALSE(array.ok()) << size;
    EXPECT_FALSE(array.status().message().empty());
  }
  EXPECT_TRUE(read(whole).ok());
}

TEST(Npy, SurvivesEveryFlippedBitOfTheHeader) {
  const std::string whole = file_of(1, header_of("<f4", "(2, 2)"), floats({1, 2, 3, 4}));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string file = whole;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    expect_sane(file, "flipped bit", static_cast<uint32_t>(bit));
  }
}

TEST(Npy, SurvivesRandomDamage) {
  const std::string pieces[] = {"{",
                                "}",
                                "(",
                                ")",
                                ",",
                                ":",
                                "'descr'",
                                "'<f8'",
                                "'<u2'",
                                "'shape'",
                                "True",
                                "'fortran_order'",
                                "9223372036854775807",
                                "-1",
                                "0",
                                "[",
                                "\"",
                                "'"};
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    std::string file = file_of(static_cast<int>(1 + random() % 3),
                               header_of("<f4", "(2, 2)", random() % 2 != 0 ? "True" : "False"),
                               floats({1, 2, 3, 4}));
    for (uint32_t edits = 1 + random() % 4; edits > 0 && !file.empty(); --edits) {
      const size_t at = random() % file.size();
      switch (random() % 4) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file.erase(at, 1 + random() % 8);
          break;
        case 2:
          file.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default:
          file.resize(at);
      }
    }
    expect_sane(file, "random damage", seed);
  }
}

}  // namespace
}  // namespace fa4::cli
