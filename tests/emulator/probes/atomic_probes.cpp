// SPDX-License-Identifier: BSD-3-Clause
// Atomics, one cell a lane: what comes back and what is there then; and many lanes on one cell,
// with numbers whose sum is exact in every order. PTX ISA 9.7.13.5, 9.7.13.6.
#include <bit>
#include <string>

#include "emulator/numeric.h"
#include "emulator/probes/lane_table.h"

namespace fa4::emulator::probes {
namespace {

struct Form {
  const char* operation;
  int bits;
  Draw draw;
};
constexpr Form kForms[] = {
    {"add.u32", 32, Draw::kInt},
    {"add.u64", 64, Draw::kLong},
    {"min.u32", 32, Draw::kInt},
    {"min.s32", 32, Draw::kInt},
    {"max.u32", 32, Draw::kInt},
    {"max.s32", 32, Draw::kInt},
    {"min.u64", 64, Draw::kLong},
    {"max.s64", 64, Draw::kLong},
    {"and.b32", 32, Draw::kInt},
    {"or.b32", 32, Draw::kInt},
    {"xor.b32", 32, Draw::kInt},
    {"xor.b64", 64, Draw::kLong},
    {"inc.u32", 32, Draw::kInt},
    {"dec.u32", 32, Draw::kInt},
    {"add.f32", 32, Draw::kNear},
    {"add.f64", 64, Draw::kDouble},
    {"add.noftz.f16x2", 32, Draw::kHalfNear},
    {"add.noftz.bf16x2", 32, Draw::kBrainNear},
    {"add.noftz.f16", 16, Draw::kHalfNear},
    {"add.noftz.bf16", 16, Draw::kBrainNear},
};

void add_cells(std::vector<LaneRow>& rows) {
  for (const Form& f : kForms) {
    const std::string value = f.bits == 64 ? "B" : f.bits == 32 ? "b" : "i";
    const std::string result = f.bits == 64 ? "C" : f.bits == 32 ? "d" : "k";
    const std::string kept = result + "D";
    for (const bool shared : {false, true}) {
      // In shared memory ptxas 13.0 makes loops of these, of which an H200 ran one as PTX has it
      // (see contended()) and left the upper half as it was in another.
      if (shared && std::string(f.operation).find("x2") != std::string::npos) continue;
      const std::string space = shared ? "shared" : "global", at = shared ? "[S]" : "[P]";
      const std::string load = " ld." + space + ".u64 D, " + at + ";";
      rows.push_back({"atom." + space + "." + f.operation + " " + result + ", " + at + ", " +
                          value + ";" + load,
                      f.draw,
                      64,
                      {},
                      kept});
      rows.push_back({"red." + space + "." + f.operation + " " + at + ", " + value + ";" + load,
                      f.draw,
                      64,
                      {},
                      "D"});
    }
  }
  for (const char* space : {"global", "shared"}) {
    const std::string at = space[0] == 'g' ? "[P]" : "[S]";
    const std::string load = std::string(" ld.") + space + ".u64 D, " + at + ";";
    const std::string atom = std::string("atom.") + space;
    rows.push_back({atom + ".exch.b32 d, " + at + ", b;" + load, Draw::kInt, 64, {}, "dD"});
    rows.push_back({atom + ".cas.b32 d, " + at + ", a, b;" + load, Draw::kInt, 64, {}, "dD"});
    rows.push_back({atom + ".cas.b32 d, " + at + ", b, c;" + load, Draw::kFew, 64, {}, "dD"});
    rows.push_back({atom + ".exch.b64 C, " + at + ", B;" + load, Draw::kLong, 64, {}, "CD"});
    rows.push_back({atom + ".cas.b64 C, " + at + ", A, B;" + load, Draw::kLong, 64, {}, "CD"});
    rows.push_back({atom + ".cas.b16 k, " + at + ", h, i;" + load, Draw::kInt, 64, {}, "kD"});
  }
  for (const char* text :
       {"red.global.add.v2.f32 [P+8], {a, c}; ld.global.u64 D, [P+8];",
        "red.global.add.noftz.v2.f16x2 [P+8], {a, c}; ld.global.u64 D, [P+8];",
        "red.global.add.noftz.v2.bf16x2 [P+8], {a, c}; ld.global.u64 D, [P+8];",
        "atom.global.add.v2.f32 {d, n}, [P+8], {a, c}; ld.global.u64 D, [P+8];"}) {
    rows.push_back({text, Draw::kNear, 64, {}, "D"});
  }
}

/// 256 lanes add to eight cells of a type, twice: in global and in shared memory.
Probe contended(const std::string& operation, const std::string& reg, uint32_t bytes,
                const std::vector<uint32_t>& input) {
  const std::string size = std::to_string(bytes), type = bytes == 8 ? "b64" : "b32";
  Probe probe;
  probe.name = "contended/" + operation;
  probe.threads = 256;
  probe.input = input;
  probe.output_words = 16 * bytes / 4;
  probe.ptx = kernel_text(
      ".reg .b32 x, cell, s, n;\n.reg .b64 X, g, i;\n.reg .pred p;\n"
      "mul.lo.u32 n, t, " +
          size + ";\nmul.wide.u32 i, t, " + size +
          ";\nadd.u64 in, in, i;\nmov.u32 s, cells;\nadd.u32 s, s, n;\n"
          "setp.lt.u32 p, t, 8;\nmov.b64 X, 0;\nmov.b32 x, 0;\n@p st.shared." +
          type + " [s], " + reg + ";\nbar.sync 0;\nld.global." + type + " " + reg +
          ", [in];\nand.b32 cell, t, 7;\nmul.lo.u32 n, cell, " + size +
          ";\nmul.wide.u32 g, cell, " + size +
          ";\nadd.u64 g, out, g;\nmov.u32 s, cells;\nadd.u32 s, s, n;\n"
          "red.global." +
          operation + " [g], " + reg + ";\nred.shared." + operation + " [s], " + reg +
          ";\nbar.sync 0;\n@p ld.shared." + type + " " + reg + ", [s];\n@p st.global." + type +
          " [g+" + std::to_string(8 * bytes) + "], " + reg + ";\n",
      ".shared .align 8 .b8 cells[64];");
  return probe;
}

std::vector<uint32_t> words_of(uint32_t count, uint32_t (*make)(int)) {
  Random random(3);
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < count; ++i) words.push_back(make(static_cast<int>(random.below(9)) - 4));
  return words;
}

std::vector<uint32_t> doubles() {
  Random random(3);
  std::vector<uint32_t> words;
  for (int i = 0; i < 256; ++i) {
    const auto x = std::bit_cast<uint64_t>(static_cast<double>(random.below(9)) - 4);
    words.push_back(static_cast<uint32_t>(x));
    words.push_back(static_cast<uint32_t>(x >> 32));
  }
  return words;
}

}  // namespace

std::vector<Probe> atomic_probes() {
  std::vector<LaneRow> rows;
  add_cells(rows);
  std::vector<Probe> probes = lane_probes(rows);
  const auto whole = [](int x) { return static_cast<uint32_t>(x); };
  const auto real = [](int x) { return std::bit_cast<uint32_t>(static_cast<float>(x)); };
  const auto half = [](int x) {
    return to_float16(static_cast<float>(x)) << 16 | to_float16(static_cast<float>(-x));
  };
  const auto brain = [](int x) {
    return to_bfloat16(static_cast<float>(x)) << 16 | to_bfloat16(static_cast<float>(-x));
  };
  for (const char* operation : {"add.u32", "min.s32", "max.u32", "xor.b32", "or.b32"}) {
    probes.push_back(contended(operation, "x", 4, words_of(256, whole)));
  }
  probes.push_back(contended("add.f32", "x", 4, words_of(256, real)));
  probes.push_back(contended("add.noftz.f16x2", "x", 4, words_of(256, half)));
  probes.push_back(contended("add.noftz.bf16x2", "x", 4, words_of(256, brain)));
  probes.push_back(contended("add.f64", "X", 8, doubles()));
  return probes;
}

}  // namespace fa4::emulator::probes
