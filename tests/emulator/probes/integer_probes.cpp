// SPDX-License-Identifier: BSD-3-Clause
// Integers, bits, comparisons: PTX ISA 9.7.1, 9.7.2, 9.7.6 to 9.7.8.
#include <string>

#include "emulator/probes/lane_table.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kCount = 64;

void add_arithmetic(std::vector<LaneRow>& rows) {
  for (const char* type : {"s32", "u32", "s64", "u64", "s16", "u16"}) {
    const bool wide = type[1] == '6', narrow = type[1] == '1';
    const Draw draw = wide ? Draw::kLong : Draw::kInt;
    const std::string d = wide ? " D, " : narrow ? " k, " : " d, ";
    const std::string two = d + (wide ? "A, B;" : narrow ? "h, i;" : "a, b;");
    const std::string three = d + (wide ? "A, B, C;" : narrow ? "h, i, j;" : "a, b, c;");
    for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"}) {
      rows.push_back({std::string(op) + "." + type + two, draw, kCount});
    }
    // What a division by zero gives is not defined.
    const char* odd = wide ? "or.b64 B, B, 1; " : narrow ? "or.b16 i, i, 1; " : "or.b32 b, b, 1; ";
    for (const char* op : {"div", "rem"}) {
      rows.push_back({std::string(odd) + op + "." + type + two, draw, kCount});
    }
    for (const char* op : {"mad.lo", "mad.hi"}) {
      rows.push_back({std::string(op) + "." + type + three, draw, kCount});
    }
    if (type[0] == 's') {
      rows.push_back({std::string("abs.") + type + d +
                          (wide     ? "A;"
                           : narrow ? "h;"
                                    : "a;"),
                      draw, kCount});
      rows.push_back({std::string("neg.") + type + d +
                          (wide     ? "A;"
                           : narrow ? "h;"
                                    : "a;"),
                      draw, kCount});
    }
    if (!wide && !narrow) {
      rows.push_back({std::string("mul.wide.") + type + " D, a, b;", draw, kCount});
      rows.push_back({std::string("mad.wide.") + type + " D, a, b, C;", draw, kCount});
      rows.push_back({std::string("sad.") + type + three, draw, kCount});
    }
    if (narrow) rows.push_back({std::string("mul.wide.") + type + " d, h, i;", draw, kCount});
  }
  for (const char* text :
       {"add.sat.s32 d, a, b;", "sub.sat.s32 d, a, b;", "mul24.lo.s32 d, a, b;",
        "mul24.hi.u32 d, a, b;", "mad24.lo.u32 d, a, b, c;", "mad24.hi.s32 d, a, b, c;",
        "dp4a.u32.u32 d, a, b, c;", "dp4a.s32.s32 d, a, b, c;", "dp4a.u32.s32 d, a, b, c;",
        "dp4a.s32.u32 d, a, b, c;", "dp2a.lo.u32.u32 d, a, b, c;", "dp2a.hi.s32.s32 d, a, b, c;",
        "dp2a.lo.s32.u32 d, a, b, c;", "add.cc.u32 n, a, b; addc.u32 d, a, c;",
        "sub.cc.u32 n, a, b; subc.u32 d, a, c;",
        "mad.lo.cc.u32 n, a, b, c; madc.hi.u32 d, a, b, c;",
        "add.cc.u64 D, A, B; addc.u64 D, A, C;"}) {
    rows.push_back({text, Draw::kInt, kCount});
  }
}

void add_bits(std::vector<LaneRow>& rows) {
  for (const char* text : {"and.b32 d, a, b;",
                           "or.b32 d, a, b;",
                           "xor.b32 d, a, b;",
                           "not.b32 d, a;",
                           "cnot.b32 d, a;",
                           "popc.b32 d, a;",
                           "clz.b32 d, a;",
                           "brev.b32 d, a;",
                           "bfind.u32 d, a;",
                           "bfind.s32 d, a;",
                           "bfind.shiftamt.u32 d, a;",
                           "bfind.shiftamt.s32 d, a;",
                           "lop3.b32 d, a, b, c, 0x1b;",
                           "lop3.b32 d, a, b, c, 0xe8;",
                           "lop3.b32 d, a, b, c, 0x96;",
                           "prmt.b32 d, a, b, c;",
                           "prmt.b32.f4e d, a, b, c;",
                           "prmt.b32.b4e d, a, b, c;",
                           "prmt.b32.rc8 d, a, b, c;",
                           "prmt.b32.ecl d, a, b, c;",
                           "prmt.b32.ecr d, a, b, c;",
                           "prmt.b32.rc16 d, a, b, c;"}) {
    rows.push_back({text, Draw::kInt, kCount});
  }
  for (const char* text :
       {"and.b64 D, A, B;", "xor.b64 D, A, B;", "not.b64 D, A;", "popc.b64 d, A;", "clz.b64 d, A;",
        "brev.b64 D, A;", "bfind.u64 d, A;", "bfind.s64 d, A;"}) {
    rows.push_back({text, Draw::kLong, kCount});
  }
  for (const char* text : {"shl.b32 d, a, b;",
                           "shr.u32 d, a, b;",
                           "shr.s32 d, a, b;",
                           "shl.b64 D, A, b;",
                           "shr.u64 D, A, b;",
                           "shr.s64 D, A, b;",
                           "shl.b16 k, h, b;",
                           "shr.s16 k, h, b;",
                           "shr.u16 k, h, b;",
                           "shf.l.wrap.b32 d, a, a, b;",
                           "shf.r.wrap.b32 d, a, b, c;",
                           "shf.l.clamp.b32 d, b, a, c;",
                           "shf.r.clamp.b32 d, a, b, c;",
                           "bfe.u32 d, a, b, c;",
                           "bfe.s32 d, a, b, c;",
                           "bfe.u64 D, A, b, c;",
                           "bfe.s64 D, A, b, c;",
                           "bmsk.clamp.b32 d, b, c;",
                           "bmsk.wrap.b32 d, b, c;",
                           "szext.clamp.u32 d, a, b;",
                           "szext.wrap.s32 d, a, b;",
                           "szext.clamp.s32 d, a, b;"}) {
    rows.push_back({text, Draw::kShift, 128});
  }
  rows.push_back(
      {"shr.u32 n, c, 8; and.b32 c, c, 255; bfi.b32 d, a, b, c, n;", Draw::kField, 128, {}, "d"});
  rows.push_back(
      {"shr.u32 n, c, 8; and.b32 c, c, 255; bfi.b64 D, A, B, c, n;", Draw::kField, 128, {}, "D"});
}

void add_comparisons(std::vector<LaneRow>& rows) {
  for (const char* c : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    for (const char* type : {"s32", "u32"}) {
      rows.push_back({std::string("setp.") + c + "." + type + " q, a, b;", Draw::kInt, 64});
    }
    rows.push_back({std::string("setp.") + c + ".s64 q, A, B;", Draw::kLong, 64});
    rows.push_back({std::string("setp.") + c + ".f64 q, A, B;", Draw::kDouble, 64});
    rows.push_back({std::string("setp.") + c + ".f16 q, h, i;", Draw::kHalf, 64});
    rows.push_back({std::string("setp.") + c + ".bf16 q, h, i;", Draw::kHalf, 64});
  }
  for (const char* c : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                        "geu", "num", "nan"}) {
    rows.push_back({std::string("setp.") + c + ".f32 q, a, b;", Draw::kFloat, 96});
    rows.push_back({std::string("setp.") + c + ".ftz.f32 q, a, b;", Draw::kFloat, 96});
  }
  rows.push_back({"setp.lt.and.s32 q, a, b, p;", Draw::kInt, 64});
  rows.push_back({"setp.lt.or.u32 q, a, b, !p;", Draw::kInt, 64});
  rows.push_back({"setp.gt.xor.f32 q, a, b, p;", Draw::kFloat, 64});
  rows.push_back({"set.gt.u32.f32 d, a, b;", Draw::kFloat, 64});
  rows.push_back({"set.le.f32.s32 d, a, b;", Draw::kInt, 64});
  rows.push_back({"set.ltu.ftz.s32.f32 d, a, b;", Draw::kFloat, 64});
  rows.push_back({"slct.u32.s32 d, a, b, c;", Draw::kInt, 64});
  rows.push_back({"slct.b32.f32 d, a, b, c;", Draw::kFloat, 64});
  rows.push_back({"slct.ftz.b32.f32 d, a, b, c;", Draw::kFloat, 64});
  rows.push_back({"selp.b32 d, a, b, p;", Draw::kInt, 64});
  rows.push_back({"selp.b64 D, A, B, !p;", Draw::kLong, 64});
}

}  // namespace

std::vector<Probe> integer_probes() {
  std::vector<LaneRow> rows;
  add_arithmetic(rows);
  add_bits(rows);
  add_comparisons(rows);
  for (LaneRow& row : rows) {
    // Of two instructions the second one's result is kept.
    const size_t second = row.text.find("; ");
    if (second == std::string::npos || !row.results.empty()) continue;
    row.results = row.text.substr(row.text.find(' ', second + 2) + 1, 1);
  }
  return lane_probes(rows);
}

}  // namespace fa4::emulator::probes
