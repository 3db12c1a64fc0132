// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/lane_table.h"

#include <algorithm>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::probes {
namespace {

std::string first_result(const std::string& text) {
  const size_t at = text.find_first_not_of(" {", text.find(' '));
  const std::string first(1, text[at]);
  return text.compare(at, 3, "d|q") == 0 ? "dq" : first;
}

/// "cvt.rn.bf16.f32 k, a;" -> "cvt.rn.bf16.f32_k,a"
std::string name_of(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (c == ';') name += '+';
    if (c == ' ' && !name.empty() && name.back() != ',' && name.back() != '+') name += '_';
    if (c != ';' && c != ' ') name += c;
  }
  while (!name.empty() && (name.back() == '+' || name.back() == '_')) name.pop_back();
  return name;
}

constexpr uint32_t kKeep = 24;  ///< Of outputs that must agree to the bit.

bool is_wide(char result) { return result == 'C' || result == 'D'; }

uint32_t words_of(const std::string& results) {
  return static_cast<uint32_t>(
      results.size() + static_cast<size_t>(std::count_if(results.begin(), results.end(), is_wide)));
}

std::string stores(const std::string& results) {
  std::string text;
  uint32_t offset = 0;
  for (const char r : results) {
    const std::string at = "[Q+" + std::to_string(offset) + "], ";
    offset += is_wide(r) ? 8 : 4;
    switch (r) {
      case 'C':
      case 'D':
        text += std::string("mov.b64 {lo, hi}, ") + r + ";\nst.global.u32 " + at +
                "lo;\nst.global.u32 [Q+" + std::to_string(offset - 4) + "], hi;\n";
        break;
      case 'k':
        text += "cvt.u32.u16 n, k;\nst.global.u32 " + at + "n;\n";
        break;
      case 'q':
        text += "selp.u32 n, 1, 0, q;\nst.global.u32 " + at + "n;\n";
        break;
      default:
        text += "st.global.u32 " + at + "d;\n";
    }
  }
  return text;
}

}  // namespace

Probe lane_probe(const LaneRow& row) {
  const std::string results = row.results.empty() ? first_result(row.text) : row.results;
  const uint32_t words = words_of(results);
  Probe probe;
  probe.name = name_of(row.text) + (row.note.empty() ? "" : "/" + row.note);
  probe.threads = std::min<uint32_t>(row.count, 128);
  probe.blocks = row.count / probe.threads;
  probe.output_words = row.count * words;
  probe.tolerance = row.tolerance;
  if (row.tolerance.format == Format::kBits) probe.keep = kKeep;
  for (const auto& triple : draw(row.draw, row.count, 1)) {
    for (const uint64_t x : triple) {
      probe.input.push_back(static_cast<uint32_t>(x));
      probe.input.push_back(static_cast<uint32_t>(x >> 32));
    }
  }
  probe.ptx = kernel_text(R"(
.shared .align 8 .b8 cells[1024];
.reg .b64 P, Q, A, B, C, D;
.reg .b32 S, n, a, b, c, d, lo, hi;
.reg .b16 h, i, j, k;
.reg .pred p, q;
mov.u32 n, %ctaid.x;
mad.lo.u32 n, n, )" + std::to_string(probe.threads) +
                          R"(, t;
mad.wide.u32 P, n, 24, in;
mad.wide.u32 Q, n, )" + std::to_string(4 * words) +
                          ", out;\n" + test::kLoadOperands + R"(mov.u32 S, cells;
mad.lo.u32 S, t, 8, S;
st.shared.u64 [S], A;
)" + test::kPartsOfOperands +
                          R"(and.b32 n, a, 1;
setp.ne.u32 p, n, 0;
setp.eq.u32 q, 0, 1;
mov.b64 D, 0;
mov.b32 d, 0;
mov.b16 k, 0;
)" + row.text + R"(
)" + stores(results));
  return probe;
}

std::vector<Probe> lane_probes(const std::vector<LaneRow>& rows) {
  std::vector<Probe> probes;
  for (const LaneRow& row : rows) probes.push_back(lane_probe(row));
  return probes;
}

}  // namespace fa4::emulator::probes
