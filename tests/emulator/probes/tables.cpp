// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/tables.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "emulator/probes/apart.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kFractions = 1u << 23;
constexpr uint32_t kThreads = 128;

struct Table {
  const char* name;
  const char* instruction;
  uint32_t upper;  ///< Sign and exponent of the arguments.
  double (*exact)(double);
};

double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }
double exp2_of(double x) { return std::exp2(x); }
double log2_of(double x) { return std::log2(x); }
double tanh_of(double x) { return std::tanh(x); }

constexpr Table kTables[] = {
    {"ex2_1", "ex2.approx.ftz.f32", 0x3f800000, exp2_of},
    {"ex2_half", "ex2.approx.ftz.f32", 0x3f000000, exp2_of},
    {"ex2_minus1", "ex2.approx.ftz.f32", 0xbf800000, exp2_of},
    {"ex2_minus8", "ex2.approx.ftz.f32", 0xc1000000, exp2_of},
    {"rcp", "rcp.approx.ftz.f32", 0x3f800000, reciprocal},
    {"rsqrt_1", "rsqrt.approx.ftz.f32", 0x3f800000, reciprocal_root},
    {"rsqrt_2", "rsqrt.approx.ftz.f32", 0x40000000, reciprocal_root},
    {"lg2_1", "lg2.approx.ftz.f32", 0x3f800000, log2_of},
    {"lg2_2", "lg2.approx.ftz.f32", 0x40000000, log2_of},
    {"tanh", "tanh.approx.f32", 0x3f800000, tanh_of},
};

Probe probe_of(const Table& table) {
  Probe probe;
  probe.name = table.name;
  probe.threads = kThreads;
  probe.blocks = kFractions / kThreads;
  probe.output_words = kFractions;
  probe.ptx = kernel_text(
      std::string(".reg .b32 n, x;\n.reg .b64 g;\nmov.u32 n, %ctaid.x;\nmad.lo.u32 n, n, 128, t;\n"
                  "or.b32 x, n, ") +
      std::to_string(table.upper) + ";\n" + table.instruction +
      " x, x;\nmul.wide.u32 g, n, 4;\nadd.u64 g, out, g;\nst.global.u32 [g], x;\n");
  return probe;
}

/// 8 + units above the rounded result, or 0.
uint32_t code_of(const Table& table, uint32_t fraction, uint32_t result) {
  const auto x = static_cast<double>(std::bit_cast<float>(table.upper | fraction));
  const auto rounded = std::bit_cast<uint32_t>(static_cast<float>(table.exact(x)));
  const auto place = [](uint32_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & 0x7fffffff);
    return bits >> 31 != 0 ? -magnitude : magnitude;
  };
  const int64_t off = place(result) - place(rounded);
  return off < -7 || off > 7 ? 0 : static_cast<uint32_t>(off + 8);
}

void write(const Table& table, const Words& words, const std::string& folder) {
  std::string bytes(kFractions / 2, '\0');
  uint64_t counts[16] = {};
  for (uint32_t i = 0; i < kFractions; ++i) {
    const uint32_t code = code_of(table, i, words[i]);
    ++counts[code];
    bytes[i / 2] = static_cast<char>(static_cast<uint8_t>(bytes[i / 2]) | code << (i % 2 * 4));
  }
  std::ofstream(folder + "/" + table.name + ".bin", std::ios::binary) << bytes;
  std::cout << table.name << ":";
  for (int code = 0; code < 16; ++code) {
    if (counts[code] == 0) continue;
    std::cout << " " << (code == 0 ? "far" : std::to_string(code - 8)) << " " << counts[code];
  }
  std::cout << "\n";
}

}  // namespace

int write_tables(Device device, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::string ignored;
  const auto outcomes = run_apart(
      {std::size(kTables), [&](size_t i) { return run_probe(probe_of(kTables[i]), device); },
       [] { return std::string(); }, 120, 2},
      ignored);
  int failed = 0;
  for (size_t i = 0; i < std::size(kTables); ++i) {
    if (outcomes[i].ok) {
      write(kTables[i], outcomes[i].words, folder);
    } else {
      ++failed;
      std::cout << "FAILED " << kTables[i].name << ": " << outcomes[i].error << "\n";
    }
  }
  return failed;
}

}  // namespace fa4::emulator::probes
