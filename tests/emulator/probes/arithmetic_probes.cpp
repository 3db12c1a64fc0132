// SPDX-License-Identifier: BSD-3-Clause
// Float arithmetic, approximations, 16-bit floats and pairs of them: PTX ISA 9.7.3 to 9.7.5,
// 9.7.6.
#include <string>

#include "emulator/probes/lane_table.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kSpread = 512;

// What PTX says of the approximations (ISA 9.1, 9.7.3), in units in the last place: a relative
// error of 2^-22.5 is 1.5 units at most, and each side may have it.
constexpr Tolerance kOneUlp{Format::kFloat32, 2};
constexpr Tolerance kTwoUlps{Format::kFloat32, 4};
constexpr Tolerance kExp{Format::kFloat32, 4};
// 2^-22 absolute in (0.5, 2), relative elsewhere.
constexpr Tolerance kLog{Format::kFloat32, 4, 0x1p-22};
// 2^-20.5 absolute in [-pi, pi]; a range of 2 pi doubles it.
constexpr Tolerance kTrigonometry{Format::kFloat32, 2, 0x1p-19};
// 2^-11 relative.
constexpr Tolerance kTanh{Format::kFloat32, 8192};

void add_rounded(std::vector<LaneRow>& rows) {
  for (const char* round : {"rn", "rz", "rm", "rp"}) {
    for (const char* rest : {"", ".ftz", ".sat", ".ftz.sat"}) {
      const std::string mode = std::string(".") + round + rest + ".f32";
      rows.push_back({"add" + mode + " d, a, b;", Draw::kNear, 128});
      rows.push_back({"mul" + mode + " d, a, b;", Draw::kFloat, 128});
      rows.push_back({"fma" + mode + " d, a, b, c;", Draw::kNear, 128});
    }
    rows.push_back({std::string("sub.") + round + ".f32 d, a, b;", Draw::kFloat, 128});
    rows.push_back(
        {std::string("add.") + round + ".f32 d, a, b;", Draw::kFloat, 128, {}, "", "any"});
    rows.push_back(
        {std::string("fma.") + round + ".f32 d, a, b, c;", Draw::kFloat, 256, {}, "", "any"});
  }
}

void add_selections(std::vector<LaneRow>& rows) {
  for (const char* op : {"min", "max"}) {
    for (const char* mode : {".f32", ".ftz.f32", ".NaN.f32", ".ftz.NaN.f32"}) {
      rows.push_back({std::string(op) + mode + " d, a, b;", Draw::kFloat, 128});
    }
    rows.push_back({std::string(op) + ".f64 D, A, B;", Draw::kDouble, 64});
  }
  for (const char* text : {"abs.f32 d, a;", "abs.ftz.f32 d, a;", "neg.f32 d, a;",
                           "neg.ftz.f32 d, a;", "copysign.f32 d, a, b;"}) {
    rows.push_back({text, Draw::kFloat, 96});
  }
  for (const char* what : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    rows.push_back({std::string("testp.") + what + ".f32 q, a;", Draw::kFloat, 96});
    rows.push_back({std::string("testp.") + what + ".f64 q, A;", Draw::kDouble, 64});
  }
}

void add_approximations(std::vector<LaneRow>& rows) {
  for (const char* ftz : {"", ".ftz"}) {
    const auto add = [&](const char* op, Draw draw, const Tolerance& tolerance) {
      rows.push_back({std::string(op) + ".approx" + ftz + ".f32 d, a;", draw, kSpread, tolerance});
    };
    add("ex2", Draw::kExponent, kExp);
    add("lg2", Draw::kPositive, kLog);
    add("rcp", Draw::kFloat, kOneUlp);
    add("sqrt", Draw::kPositive, kTwoUlps);
    add("rsqrt", Draw::kPositive, kTwoUlps);
    add("sin", Draw::kAngle, kTrigonometry);
    add("cos", Draw::kAngle, kTrigonometry);
    rows.push_back({std::string("div.approx") + ftz + ".f32 d, a, b;",
                    Draw::kNear,
                    kSpread,
                    {Format::kFloat32, 4}});
    rows.push_back({std::string("div.full") + ftz + ".f32 d, a, b;",
                    Draw::kNear,
                    kSpread,
                    {Format::kFloat32, 4}});
  }
  rows.push_back({"tanh.approx.f32 d, a;", Draw::kFloat, kSpread, kTanh});
  rows.push_back({"lg2.approx.ftz.f32 d, a;", Draw::kTable, kSpread, kLog, "", "table"});
  rows.push_back({"rcp.approx.ftz.f32 d, a;", Draw::kTable, kSpread, kOneUlp, "", "table"});
  rows.push_back({"tanh.approx.f32 d, a;", Draw::kAngle, kSpread, kTanh, "", "near"});
}

void add_exact(std::vector<LaneRow>& rows) {
  for (const char* text : {"rcp.rn.f32 d, a;", "rcp.rz.f32 d, a;", "sqrt.rn.f32 d, a;",
                           "sqrt.rz.f32 d, a;", "rcp.rn.ftz.f32 d, a;", "sqrt.rn.ftz.f32 d, a;"}) {
    rows.push_back({text, Draw::kFloat, 128});
  }
  for (const char* text :
       {"div.rn.f32 d, a, b;", "div.rz.f32 d, a, b;", "div.rn.ftz.f32 d, a, b;"}) {
    rows.push_back({text, Draw::kNear, 128});
  }
  for (const char* text :
       {"add.rn.f64 D, A, B;", "sub.rn.f64 D, A, B;", "mul.rn.f64 D, A, B;",
        "fma.rn.f64 D, A, B, C;", "div.rn.f64 D, A, B;", "rcp.rn.f64 D, A;", "sqrt.rn.f64 D, A;",
        "abs.f64 D, A;", "neg.f64 D, A;", "copysign.f64 D, A, B;"}) {
    rows.push_back({text, Draw::kDouble, 64});
  }
}

const char* note_of(Draw draw) { return draw == Draw::kHalf ? "any" : ""; }

/// add, sub, mul, fma, min, max and the like of one 16-bit type, `moderate` its usual inputs.
void add_half_type(std::vector<LaneRow>& rows, const std::string& type, bool pair, Draw moderate) {
  const char* unary = pair ? " d, a;" : " k, h;";
  const char* binary = pair ? " d, a, b;" : " k, h, i;";
  const char* ternary = pair ? " d, a, b, c;" : " k, h, i, j;";
  const bool brain = type[0] == 'b';
  for (const char* op : {"add.rn", "sub.rn", "mul.rn"}) {
    for (const Draw draw : {moderate, Draw::kHalf}) {
      rows.push_back({std::string(op) + "." + type + binary, draw, 64, {}, "", note_of(draw)});
    }
    if (!brain) {
      rows.push_back({std::string(op) + ".ftz." + type + binary, Draw::kHalf, 64});
      rows.push_back({std::string(op) + ".sat." + type + binary, Draw::kHalf, 64});
    }
  }
  rows.push_back({"fma.rn." + type + ternary, moderate, 128});
  rows.push_back({"fma.rn." + type + ternary, Draw::kHalf, 128, {}, "", note_of(Draw::kHalf)});
  rows.push_back({"fma.rn.relu." + type + ternary, Draw::kHalf, 64});
  if (!brain) {
    rows.push_back({"fma.rn.ftz." + type + ternary, Draw::kHalf, 64});
    rows.push_back({"fma.rn.sat." + type + ternary, Draw::kHalf, 64});
  }
  for (const char* op : {"min.", "max.", "min.NaN.", "max.NaN."}) {
    rows.push_back({op + type + binary, Draw::kHalf, 64});
  }
  rows.push_back({"abs." + type + unary, Draw::kHalf, 64});
  rows.push_back({"neg." + type + unary, Draw::kHalf, 64});
  // 2^-9.9 and 2^-10.987 relative for float16, 2^-7 and 2^-8 for bfloat16.
  const Tolerance loose{brain ? Format::kBFloat16 : Format::kFloat16, 2};
  const std::string ftz = brain ? "ex2.approx.ftz." : "ex2.approx.";
  rows.push_back({ftz + type + unary, moderate, 256, loose});
  rows.push_back({ftz + type + unary, Draw::kHalf, 128, loose, "", note_of(Draw::kHalf)});
  rows.push_back({"tanh.approx." + type + unary, moderate, 256, loose});
  rows.push_back(
      {"tanh.approx." + type + unary, Draw::kHalf, 128, loose, "", note_of(Draw::kHalf)});
}

}  // namespace

std::vector<Probe> float_probes() {
  std::vector<LaneRow> rows;
  add_rounded(rows);
  add_selections(rows);
  add_approximations(rows);
  add_exact(rows);
  return lane_probes(rows);
}

std::vector<Probe> half_probes() {
  std::vector<LaneRow> rows;
  add_half_type(rows, "f16", false, Draw::kHalfNear);
  add_half_type(rows, "f16x2", true, Draw::kHalfNear);
  add_half_type(rows, "bf16", false, Draw::kBrainNear);
  add_half_type(rows, "bf16x2", true, Draw::kBrainNear);
  return lane_probes(rows);
}

}  // namespace fa4::emulator::probes
