// SPDX-License-Identifier: BSD-3-Clause
// cvt: PTX ISA 9.7.9.21.
#include <string>

#include "emulator/probes/lane_table.h"

namespace fa4::emulator::probes {
namespace {

struct Whole {
  const char* type;
  int bits;
  bool is_signed;
  const char* result;  ///< Register of a result of that type.
  const char* source;
  Draw draw;
};
// Numbers of 8 bits lie in 32-bit registers.
constexpr Whole kWholes[] = {
    {"s8", 8, true, "d", "a", Draw::kInt},    {"u8", 8, false, "d", "a", Draw::kInt},
    {"s16", 16, true, "k", "h", Draw::kInt},  {"u16", 16, false, "k", "h", Draw::kInt},
    {"s32", 32, true, "d", "a", Draw::kInt},  {"u32", 32, false, "d", "a", Draw::kInt},
    {"s64", 64, true, "D", "A", Draw::kLong}, {"u64", 64, false, "D", "A", Draw::kLong}};

struct Real {
  const char* type;
  const char* result;
  const char* source;
  Draw draw;
};
constexpr Real kReals[] = {{"f16", "k", "h", Draw::kHalf},
                           {"bf16", "k", "h", Draw::kHalf},
                           {"f32", "d", "a", Draw::kFloat},
                           {"f64", "D", "A", Draw::kDouble}};

std::string join(const char* opcode, const char* to, const char* from) {
  return std::string(opcode) + "." + to + "." + from;
}

void add_narrowing(std::vector<LaneRow>& rows) {
  for (const char* opcode : {"cvt.rn.bf16.f32 k, a;",
                             "cvt.rz.bf16.f32 k, a;",
                             "cvt.rn.relu.bf16.f32 k, a;",
                             "cvt.rz.relu.bf16.f32 k, a;",
                             "cvt.rn.f16.f32 k, a;",
                             "cvt.rz.f16.f32 k, a;",
                             "cvt.rm.f16.f32 k, a;",
                             "cvt.rp.f16.f32 k, a;",
                             "cvt.rn.ftz.f16.f32 k, a;",
                             "cvt.rn.sat.f16.f32 k, a;",
                             "cvt.rn.relu.f16.f32 k, a;",
                             "cvt.rna.tf32.f32 d, a;",
                             "cvt.rn.tf32.f32 d, a;",
                             "cvt.rz.tf32.f32 d, a;",
                             "cvt.rn.relu.tf32.f32 d, a;",
                             "cvt.rz.relu.tf32.f32 d, a;",
                             "cvt.rna.satfinite.tf32.f32 d, a;",
                             "cvt.rn.satfinite.f16.f32 k, a;",
                             "cvt.rn.satfinite.bf16.f32 k, a;",
                             "cvt.rn.satfinite.relu.bf16.f32 k, a;"}) {
    rows.push_back({opcode, Draw::kFloat, 256});
  }
}

void add_pairs(std::vector<LaneRow>& rows) {
  for (const char* to : {"f16x2", "bf16x2"}) {
    for (const char* mode : {"rn", "rz", "rn.relu", "rz.relu", "rn.satfinite"}) {
      rows.push_back({std::string("cvt.") + mode + "." + to + ".f32 d, a, b;", Draw::kFloat, 256});
    }
  }
  for (const char* to : {"e4m3x2", "e5m2x2"}) {
    for (const char* mode : {"rn.satfinite", "rn.satfinite.relu"}) {
      const std::string opcode = std::string("cvt.") + mode + "." + to;
      rows.push_back({opcode + ".f32 k, a, b;", Draw::kFloat, 256});
      rows.push_back({opcode + ".f16x2 k, a;", Draw::kHalf, 256});
    }
    for (const char* mode : {"rn", "rn.relu"}) {
      rows.push_back({std::string("cvt.") + mode + ".f16x2." + to + " d, h;", Draw::kHalf, 256});
    }
  }
}

void add_between_reals(std::vector<LaneRow>& rows) {
  for (const char* text :
       {"cvt.f32.f16 d, h;", "cvt.f32.bf16 d, h;", "cvt.ftz.f32.f16 d, h;", "cvt.f64.f16 D, h;",
        "cvt.f64.bf16 D, h;", "cvt.sat.f32.f16 d, h;", "cvt.rni.f16.f16 k, h;",
        "cvt.rzi.f16.f16 k, h;", "cvt.rmi.f16.f16 k, h;", "cvt.rpi.f16.f16 k, h;",
        "cvt.rni.bf16.bf16 k, h;", "cvt.rzi.bf16.bf16 k, h;", "cvt.rn.bf16.f16 k, h;",
        "cvt.rn.f16.bf16 k, h;", "cvt.rz.f16.bf16 k, h;"}) {
    rows.push_back({text, Draw::kHalf, 128});
  }
  for (const char* text :
       {"cvt.f64.f32 D, a;", "cvt.ftz.f64.f32 D, a;", "cvt.rni.f32.f32 d, a;",
        "cvt.rzi.f32.f32 d, a;", "cvt.rmi.f32.f32 d, a;", "cvt.rpi.f32.f32 d, a;",
        "cvt.rni.ftz.f32.f32 d, a;", "cvt.sat.f32.f32 d, a;", "cvt.ftz.sat.f32.f32 d, a;"}) {
    rows.push_back({text, Draw::kFloat, 128});
  }
  for (const char* text :
       {"cvt.rn.f32.f64 d, A;", "cvt.rz.f32.f64 d, A;", "cvt.rm.f32.f64 d, A;",
        "cvt.rp.f32.f64 d, A;", "cvt.rn.ftz.f32.f64 d, A;", "cvt.rn.sat.f32.f64 d, A;",
        "cvt.rn.f16.f64 k, A;", "cvt.rz.f16.f64 k, A;", "cvt.rn.bf16.f64 k, A;",
        "cvt.rni.f64.f64 D, A;", "cvt.rzi.f64.f64 D, A;"}) {
    rows.push_back({text, Draw::kDouble, 96});
  }
}

void add_wholes_and_reals(std::vector<LaneRow>& rows) {
  for (const Real& real : kReals) {
    for (const Whole& whole : kWholes) {
      // There is no way between bfloat16 and 8 bits.
      if (whole.bits == 8 && real.type == std::string("bf16")) continue;
      for (const char* mode : {"cvt.rni", "cvt.rzi", "cvt.rmi", "cvt.rpi", "cvt.rzi.ftz"}) {
        const bool is_float = std::string(real.type) == "f32";
        const bool chief = mode == std::string("cvt.rzi");
        if (!is_float && (mode == std::string("cvt.rzi.ftz") || (!chief && whole.result[0] != 'd')))
          continue;
        rows.push_back(
            {join(mode, whole.type, real.type) + " " + whole.result + ", " + real.source + ";",
             real.draw, is_float ? 128u : 96u});
      }
      for (const char* mode : {"cvt.rn", "cvt.rz", "cvt.rm", "cvt.rp"}) {
        const bool is_brain = std::string(real.type) == "bf16";
        if (is_brain && mode[5] != 'n') continue;
        rows.push_back(
            {join(mode, real.type, whole.type) + " " + real.result + ", " + whole.source + ";",
             whole.draw, 64});
      }
    }
  }
}

void add_wholes(std::vector<LaneRow>& rows) {
  for (const Whole& to : kWholes) {
    for (const Whole& from : kWholes) {
      if (std::string(to.type) == from.type) continue;
      const std::string operands =
          std::string(".") + to.type + "." + from.type + " " + to.result + ", " + from.source + ";";
      rows.push_back({"cvt" + operands, from.draw, 32});
      // Only where a number may not fit.
      if (to.bits - (to.is_signed ? 1 : 0) < from.bits - (from.is_signed ? 1 : 0) ||
          (from.is_signed && !to.is_signed)) {
        rows.push_back({"cvt.sat" + operands, from.draw, 32});
      }
    }
  }
}

}  // namespace

std::vector<Probe> conversion_probes() {
  std::vector<LaneRow> rows;
  add_narrowing(rows);
  add_pairs(rows);
  add_between_reals(rows);
  add_wholes_and_reals(rows);
  add_wholes(rows);
  return lane_probes(rows);
}

}  // namespace fa4::emulator::probes
