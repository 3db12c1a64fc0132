// SPDX-License-Identifier: BSD-3-Clause
// Communication within a warp: PTX ISA 9.7.9.6, 9.7.13.8 and its neighbours.
#include <string>

#include "emulator/probes/lane_table.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kCount = 64;

/// Clamp and segments, as shfl's c: whole warps, segments of 8 and of 16, a clamp in between.
void add_shuffles(std::vector<LaneRow>& rows) {
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    const bool up = mode == std::string("up");
    for (const char* c : {up ? "0x0" : "0x1f", up ? "0x1800" : "0x181f", up ? "0x1000" : "0x101f",
                          "0x1805", "0x0011"}) {
      rows.push_back({std::string("shfl.sync.") + mode + ".b32 d|q, a, b, " + c + ", 0xffffffff;",
                      Draw::kShift, kCount});
    }
  }
}

void add_votes(std::vector<LaneRow>& rows) {
  for (const char* mode : {"all", "any", "uni"}) {
    rows.push_back(
        {std::string("vote.sync.") + mode + ".pred q, p, 0xffffffff;", Draw::kInt, kCount});
    rows.push_back(
        {std::string("setp.lt.u32 p, t, 64; vote.sync.") + mode + ".pred q, p, 0xffffffff;",
         Draw::kInt,
         128,
         {},
         "q"});
  }
  rows.push_back({"vote.sync.ballot.b32 d, p, 0xffffffff;", Draw::kInt, kCount});
  rows.push_back({"vote.sync.ballot.b32 d, !p, 0xffffffff;", Draw::kInt, kCount});
  rows.push_back({"activemask.b32 d;", Draw::kInt, 32});
  rows.push_back({"elect.sync d|q, 0xffffffff;", Draw::kInt, 32});
  // By the lanes whose p holds.
  for (const char* text :
       {"@p elect.sync d|q, c;", "@p activemask.b32 d;", "@p redux.sync.add.u32 d, b, c;",
        "@p match.any.sync.b32 d, b, c;", "@p vote.sync.any.pred q, p, c;"}) {
    rows.push_back({std::string("vote.sync.ballot.b32 c, p, 0xffffffff; ") + text,
                    Draw::kInt,
                    kCount,
                    {},
                    std::string(text).find("vote") != std::string::npos ? "q" : "d"});
  }
}

void add_matches(std::vector<LaneRow>& rows) {
  rows.push_back({"match.any.sync.b32 d, a, 0xffffffff;", Draw::kFew, kCount});
  rows.push_back({"match.any.sync.b64 d, A, 0xffffffff;", Draw::kFew, kCount});
  rows.push_back({"match.all.sync.b32 d|q, a, 0xffffffff;", Draw::kFew, kCount});
  rows.push_back({"match.all.sync.b64 d|q, A, 0xffffffff;", Draw::kFew, kCount});
  rows.push_back(
      {"shr.u32 b, t, 5; match.all.sync.b32 d|q, b, 0xffffffff;", Draw::kFew, kCount, {}, "dq"});
}

void add_reductions(std::vector<LaneRow>& rows) {
  for (const char* op : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                         "and.b32", "or.b32", "xor.b32"}) {
    rows.push_back({std::string("redux.sync.") + op + " d, a, 0xffffffff;", Draw::kInt, kCount});
  }
}

}  // namespace

std::vector<Probe> warp_probes() {
  std::vector<LaneRow> rows;
  add_shuffles(rows);
  add_votes(rows);
  add_matches(rows);
  add_reductions(rows);
  return lane_probes(rows);
}

}  // namespace fa4::emulator::probes
