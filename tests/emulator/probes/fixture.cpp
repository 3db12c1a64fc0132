// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/fixture.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <sstream>

#include "gpu/jit/sha256.h"

namespace fa4::emulator::probes {
namespace {

constexpr size_t kLine = 98;

std::string hexadecimal(uint32_t word) {
  char text[9];
  const auto end = std::to_chars(std::begin(text), std::end(text), word, 16);
  return {text, end.ptr};
}

/// Appends the token's words.
bool read_token(const std::string& token, Words& words) {
  const bool repeat = token[0] == 'x';
  const char *begin = token.data() + (repeat ? 1 : 0), *end = token.data() + token.size();
  uint32_t number = 0;
  const auto read = std::from_chars(begin, end, number, repeat ? 10 : 16);
  if (read.ec != std::errc() || read.ptr != end) return false;
  if (!repeat) {
    words.push_back(number);
  } else if (words.empty() || number > 1 << 20) {
    return false;
  } else {
    words.insert(words.end(), number, words.back());
  }
  return true;
}

bool read_words(const std::string& line, Words& words) {
  std::istringstream tokens(line);
  std::string token;
  while (tokens >> token) {
    if (!read_token(token, words)) return false;
  }
  return true;
}

}  // namespace

std::string hash_of(const Words& words) {
  return gpu::jit::to_hex(gpu::jit::sha256(std::as_bytes(std::span(words)))).substr(0, 32);
}

Record record_of(const Probe& probe, const Words& words) {
  Record record{key_of(probe), static_cast<uint32_t>(words.size()), hash_of(words), words};
  record.words.resize(std::min<size_t>(words.size(), probe.keep));
  return record;
}

Record refusal(const Probe& probe) { return {key_of(probe), 0, hash_of({}), {}}; }

std::string to_text(const std::string& name, const Record& record) {
  std::string text = "probe " + name + " " + record.key + " " + std::to_string(record.count) + " " +
                     record.hash + "\n";
  std::string line;
  const auto add = [&](const std::string& token) {
    if (line.size() + 1 + token.size() > kLine) {
      text += line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += token;
  };
  for (size_t i = 0; i < record.words.size();) {
    size_t end = i + 1;
    while (end < record.words.size() && record.words[end] == record.words[i]) ++end;
    add(hexadecimal(record.words[i]));
    if (end - i > 1) add(std::string(1, 'x').append(std::to_string(end - i - 1)));
    i = end;
  }
  return text + line + "\n\n";
}

Result<std::map<std::string, Record>> parse_fixture(const std::string& text) {
  std::map<std::string, Record> records;
  Record* open = nullptr;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') {
      open = nullptr;
      continue;
    }
    bool good = true;
    if (line.compare(0, 6, "probe ") == 0) {
      std::istringstream head(line.substr(6));
      std::string name;
      Record record;
      good = static_cast<bool>(head >> name >> record.key >> record.count >> record.hash);
      good = good && records.count(name) == 0;
      open = &(records[name] = record);
    } else {
      good = open != nullptr && read_words(line, open->words) && open->words.size() <= open->count;
    }
    if (!good) return invalid_argument("fixture: line " + std::to_string(number) + " is " + line);
  }
  return records;
}

}  // namespace fa4::emulator::probes
