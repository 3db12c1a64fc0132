// SPDX-License-Identifier: BSD-3-Clause
// Communication within a warp, and control flow: PTX ISA 9.7.9.6, 9.7.12, 9.7.13.
#include <bit>
#include <cstring>
#include <string>

#include "emulator/exec/warp_handlers.h"
#include "emulator/numeric.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

/// Lanes that a .sync instruction is for; others are waited for.
struct Members {
  uint32_t lanes;
  bool here;  ///< All that live are in this split.
};
Members members(const Warp& w, uint32_t slot, uint32_t mask) {
  const auto lanes = w.first<uint32_t>(slot, mask);
  return {lanes, (lanes & w.alive & ~w.mask) == 0};
}

Step wait_for(Warp& w, uint32_t lanes) { return w.block({WaitKind::kConverge, lanes, 0}); }

template <class F>
void for_each_lane(uint32_t mask, F f) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    f(static_cast<uint32_t>(std::countr_zero(rest)));
  }
}

/// d, e = predicate; a value, b lane, c clamp and segments, f members. mod[0]: ShuffleMode.
Step shuffle(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const uint32_t *a = w.reg<uint32_t>(i.a), *b = w.reg<uint32_t>(i.b), *c = w.reg<uint32_t>(i.c);
  uint32_t result[kLanes], valid = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    const uint32_t segment = c[l] >> 8 & 31, clamp = c[l] & 31, n = b[l] & 31;
    const uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment;
    uint32_t from = l;
    bool ok = false;
    switch (static_cast<ShuffleMode>(i.mod[0])) {
      case ShuffleMode::kUp:
        from = l - n;
        ok = static_cast<int32_t>(from) >= static_cast<int32_t>(most);
        break;
      case ShuffleMode::kDown:
        from = l + n;
        ok = from <= most;
        break;
      case ShuffleMode::kButterfly:
        from = l ^ n;
        ok = from <= most;
        break;
      case ShuffleMode::kIndex:
        from = least | (n & ~segment);
        ok = from <= most;
        break;
    }
    if (!ok) from = l;
    valid |= static_cast<uint32_t>(ok) << l;
    result[l] = a[from & 31];
  }
  uint32_t* d = w.reg<uint32_t>(i.d);
  for (uint32_t l = 0; l < kLanes; ++l) d[l] = (mask >> l & 1) != 0 ? result[l] : d[l];
  if (i.e != kNone) w.set_lanes(i.e, valid, mask);
  return w.pass();
}

/// a predicate, f members; d predicate, or register for ballot. mod[0]: VoteMode.
Step vote(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const uint32_t voters = mask & m.lanes, yes = w.lanes_of(i.a) & voters;
  const auto mode = static_cast<VoteMode>(i.mod[0]);
  if (mode == VoteMode::kBallot) {
    for_each_lane(mask, [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = yes; });
    return w.pass();
  }
  const bool all = yes == voters;
  const bool result = mode == VoteMode::kAll   ? all
                      : mode == VoteMode::kAny ? yes != 0
                                               : all || yes == 0;
  w.set_lanes(i.d, result ? mask : 0, mask);
  return w.pass();
}

/// d = the leader (e = whether it is this lane). Of the members the lowest living lane.
Step elect(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const uint32_t voters = mask & m.lanes;
  if (voters == 0) throw Fault("elect.sync by a lane that is not in its member mask");
  const auto leader = static_cast<uint32_t>(std::countr_zero(voters));
  for_each_lane(mask, [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = leader; });
  if (i.e != kNone) w.set_lanes(i.e, 1u << leader, mask);
  return w.pass();
}

template <class T>
Step match(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const T* a = w.reg<T>(i.a);
  const uint32_t voters = mask & m.lanes;
  const bool want_all = i.mod[0] != 0;
  uint32_t result[kLanes] = {}, all = 0;
  for_each_lane(voters, [&](uint32_t l) {
    for_each_lane(voters,
                  [&](uint32_t k) { result[l] |= static_cast<uint32_t>(a[l] == a[k]) << k; });
    if (result[l] == voters) all |= 1u << l;
  });
  for_each_lane(mask, [&](uint32_t l) {
    w.reg<uint32_t>(i.d)[l] = want_all && result[l] != voters ? 0 : result[l];
  });
  if (i.e != kNone) w.set_lanes(i.e, all, mask);
  return w.pass();
}

/// mod[0]: ReduceOp, mod[1]: signed.
Step redux(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const bool is_signed = i.mod[1] != 0;
  uint32_t r = 0;
  bool first = true;
  for_each_lane(mask & m.lanes, [&](uint32_t l) {
    const uint32_t x = a[l];
    const bool less = is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(r) : x < r;
    switch (static_cast<ReduceOp>(i.mod[0])) {
      case ReduceOp::kAdd:
        r = first ? x : r + x;
        break;
      case ReduceOp::kMin:
        r = first || less ? x : r;
        break;
      case ReduceOp::kMax:
        r = first || !less ? x : r;
        break;
      case ReduceOp::kAnd:
        r = first ? x : r & x;
        break;
      case ReduceOp::kOr:
        r = first ? x : r | x;
        break;
      case ReduceOp::kXor:
        r = first ? x : r ^ x;
        break;
      default:
        break;
    }
    first = false;
  });
  for_each_lane(mask, [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = r; });
  return w.pass();
}

/// Float32 min and max. mod[1]: NaN wins; mod[2]: of magnitudes.
Step redux_float(Warp& w, const Inst& i, uint32_t mask) {
  const Members m = members(w, i.f, mask);
  if (!m.here) return wait_for(w, m.lanes);
  const bool max = static_cast<ReduceOp>(i.mod[0]) == ReduceOp::kMax;
  float r = canonical_nan();
  bool first = true, any_nan = false;
  for_each_lane(mask & m.lanes, [&](uint32_t l) {
    float x = std::bit_cast<float>(w.reg<uint32_t>(i.a)[l]);
    if (i.mod[2] != 0) x = std::fabs(x);
    any_nan |= std::isnan(x);
    if (std::isnan(x)) return;
    if (first ||
        (max ? x > r || (x == r && std::signbit(r)) : x < r || (x == r && std::signbit(x))))
      r = x;
    first = false;
  });
  if (i.mod[1] != 0 && any_nan) r = canonical_nan();
  for_each_lane(mask, [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = std::bit_cast<uint32_t>(r); });
  return w.pass();
}

Step active_mask(Warp& w, const Inst& i, uint32_t mask) {
  for_each_lane(mask, [&](uint32_t l) { w.reg<uint32_t>(i.d)[l] = mask; });
  return Step::kNext;
}

// ---- control -----------------------------------------------------------------------------------

Step branch(Warp& w, const Inst& i, uint32_t mask) { return w.branch(i.target, mask); }

Step leave(Warp& w, const Inst&, uint32_t mask) {
  const Step step = w.exit(mask);
  barrier_lost_lanes(*w.cta);
  return step;
}

Step trap(Warp&, const Inst&, uint32_t) { throw Fault("the program gave up here"); }

Step bad_index(Warp&, const Inst&, uint32_t) { throw Fault("an index beyond the list of labels"); }

Step call_external(Warp& w, const Inst& i, uint32_t) {
  throw Fault("calls " + w.program().externals[static_cast<size_t>(i.imm)] +
              ", which the module does not define");
}

template <class T>
T local_value(Warp& w, uint32_t offset, uint32_t lane) {
  T x;
  std::memcpy(&x, resolve(w, Space::kLocal, offset, sizeof x, 1, Access::kRead, lane), sizeof x);
  return x;
}

/// Text at a generic address, as far as it can be read.
std::string text_at(Warp& w, uint64_t address, uint32_t lane) {
  constexpr size_t kMost = 200;
  std::string text;
  try {
    while (text.size() < kMost) {
      const auto* c = resolve(w, Space::kGeneric, address + text.size(), 1, 1, Access::kRead, lane);
      if (*c == std::byte{0}) break;
      text += static_cast<char>(*c);
    }
  } catch (const Fault&) {
    text += "?";
  }
  return text;
}

Step assertion_failed(Warp& w, const Inst& i, uint32_t mask) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
  throw Fault("assertion failed in lane " + std::to_string(lane) + ": " +
              text_at(w, local_value<uint64_t>(w, i.a, lane), lane) + ", " +
              text_at(w, local_value<uint64_t>(w, i.b, lane), lane) + ":" +
              std::to_string(local_value<uint32_t>(w, i.c, lane)));
}

}  // namespace

Handler warp_handler(WarpOp op) {
  switch (op) {
    case WarpOp::kShuffle:
      return shuffle;
    case WarpOp::kVote:
      return vote;
    case WarpOp::kElect:
      return elect;
    case WarpOp::kMatch32:
      return match<uint32_t>;
    case WarpOp::kMatch64:
      return match<uint64_t>;
    case WarpOp::kRedux:
      return redux;
    case WarpOp::kReduxFloat:
      return redux_float;
    case WarpOp::kActiveMask:
      return active_mask;
    case WarpOp::kBranch:
      return branch;
    case WarpOp::kExit:
      return leave;
    case WarpOp::kTrap:
      return trap;
    case WarpOp::kBadIndex:
      return bad_index;
    case WarpOp::kExternal:
      return call_external;
    case WarpOp::kAssertionFailed:
      return assertion_failed;
    case WarpOp::kPrint:
      return print_text;
  }
  return nullptr;
}

}  // namespace fa4::emulator::exec
