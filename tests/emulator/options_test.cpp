// SPDX-License-Identifier: BSD-3-Clause
// Options from text.
#include "emulator/options.h"

#include <gtest/gtest.h>

#include <utility>

namespace fa4::emulator {
namespace {

TEST(EmulatorOptions, FromText) {
  RunOptions o;
  EXPECT_TRUE(set_option(o, "seed", "18446744073709551615"));
  EXPECT_EQ(o.seed, ~uint64_t{0});
  EXPECT_TRUE(set_option(o, "workers", "3"));
  EXPECT_EQ(o.workers, 3u);
  EXPECT_TRUE(set_option(o, "resident", "5"));
  EXPECT_EQ(o.resident_clusters, 5u);
  EXPECT_TRUE(set_option(o, "timing", "latest"));
  EXPECT_EQ(o.timing, Timing::kLatest);
  EXPECT_TRUE(set_option(o, "schedule", "priority"));
  EXPECT_EQ(o.schedule, Schedule::kPriority);
  EXPECT_TRUE(set_option(o, "checks", "warnings"));
  EXPECT_EQ(o.checks, Checks::kWarnings);
  EXPECT_TRUE(set_option(o, "late_loads", "off"));
  EXPECT_FALSE(o.late_loads);
  EXPECT_TRUE(set_option(o, "forgive", "proxy-fence+tensor-unallocated"));
  EXPECT_TRUE(o.forgives(Rule::kProxyFence));
  EXPECT_TRUE(o.forgives(Rule::kTensorUnallocated));
  EXPECT_FALSE(o.forgives(Rule::kSharedRace));
}

TEST(EmulatorOptions, WhatIsWrongChangesNothing) {
  RunOptions o;
  o.seed = 7;
  o.workers = 2;
  for (const auto& [name, value] : {std::pair{"seed", "x"},
                                    {"seed", "1 "},
                                    {"seed", "-1"},
                                    {"seed", ""},
                                    {"workers", "0"},
                                    {"workers", "4294967296"},
                                    {"timing", "priority"},
                                    {"timing", ""},
                                    {"forgive", "race"},
                                    {"forgive", "proxy-fence+deadlock"},
                                    {"depth", "1"}}) {
    EXPECT_FALSE(set_option(o, name, value)) << name << "=" << value;
  }
  EXPECT_EQ(o.seed, 7u);
  EXPECT_EQ(o.workers, 2u);
  EXPECT_EQ(o.timing, Timing::kRandom);
  EXPECT_EQ(o.forgiven, 0u);
}

TEST(EmulatorOptions, WordsAreNamed) {
  EXPECT_EQ(words_of("timing"), "earliest, random, latest");
  EXPECT_EQ(words_of("checks"), "off, errors, warnings");
  EXPECT_EQ(words_of("seed"), "");
  EXPECT_EQ(words_of("forgive").substr(0, 37), "register-undefined, shared-undefined,");
}

}  // namespace
}  // namespace fa4::emulator
