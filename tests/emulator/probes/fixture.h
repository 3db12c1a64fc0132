// SPDX-License-Identifier: BSD-3-Clause
// Outputs of probes, kept in a text file:
//
//   # comments: which device, driver and date made it
//   probe NAME KEY WORDS HASH
//   3f80 0 x3 7fff
//
// KEY says what ran (key_of()), WORDS how many 32-bit words came out, HASH is the beginning of
// their SHA-256. The words follow in hexadecimal, at most as many as the probe keeps; xN stands for
// N more of the word in front of it. An empty line ends them.
#pragma once

#include <fa4/status.h>

#include <map>
#include <string>

#include "emulator/probes/run.h"

namespace fa4::emulator::probes {

struct Record {
  std::string key;
  uint32_t count = 0;
  std::string hash;
  Words words;
};

std::string hash_of(const Words& words);
Record record_of(const Probe& probe, const Words& words);
/// Of a probe that was refused, as it should be: it has no words.
Record refusal(const Probe& probe);
/// With the name, as it stands in the file.
std::string to_text(const std::string& name, const Record& record);

/// By name. Error: the line that can't be read.
Result<std::map<std::string, Record>> parse_fixture(const std::string& text);

}  // namespace fa4::emulator::probes
