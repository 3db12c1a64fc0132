// SPDX-License-Identifier: BSD-3-Clause
// mov in all its forms: PTX ISA 9.7.9.1, 9.7.9.2; special registers that change.
#include "emulator/exec/handlers.h"
#include "emulator/exec/targets.h"
#include "emulator/worker.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulator/exec/exec_move.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "emulator/exec/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fa4::emulator {
namespace HWY_NAMESPACE {
namespace {

struct Same {
  template <class T>
  static T run(T a) {
    return a;
  }
};

/// A .b128 is two 64-bit arrays, low words first.
Step move_128(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = w.reg<uint64_t>(i.a);
  uint64_t* d = w.reg<uint64_t>(i.d);
  for_lanes(d, mask, [=](uint32_t l) { return a[l]; });
  for_lanes(d + kLanes, mask, [=](uint32_t l) { return a[kLanes + l]; });
  return Step::kNext;
}

/// D of parts P, of which 32-bit words hold those up to 32 bits.
template <class D, class P>
Step pack(Warp& w, const Inst& i, uint32_t mask) {
  constexpr uint32_t kCount = sizeof(D) / sizeof(P);
  const uint32_t* list = &w.program().lists[i.list];
  const Word<P>* parts[kCount];
  for (uint32_t k = 0; k < kCount; ++k) parts[k] = w.reg<Word<P>>(list[k]);
  for_lanes(w.reg<D>(i.d), mask, [&](uint32_t l) {
    D x = 0;
    for (uint32_t k = 0; k < kCount; ++k) {
      x |= static_cast<D>(static_cast<P>(parts[k][l])) << (8 * sizeof(P) * k);
    }
    return x;
  });
  return Step::kNext;
}

template <class D, class P>
Step unpack(Warp& w, const Inst& i, uint32_t mask) {
  constexpr uint32_t kCount = sizeof(D) / sizeof(P);
  const uint32_t* list = &w.program().lists[i.list];
  // A part may take the source's place: keep it.
  D source[kLanes];
  const D* a = w.reg<D>(i.a);
  for (uint32_t l = 0; l < kLanes; ++l) source[l] = a[l];
  for (uint32_t k = 0; k < kCount; ++k) {
    for_lanes(w.reg<Word<P>>(list[k]), mask, [&](uint32_t l) {
      return static_cast<Word<P>>(static_cast<P>(source[l] >> (8 * sizeof(P) * k)));
    });
  }
  return Step::kNext;
}

template <bool kUnpack>
Step pack_128(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.program().lists[i.list];
  for (uint32_t k = 0; k < 2; ++k) {
    uint64_t* part = w.reg<uint64_t>(list[k]);
    uint64_t* whole = w.reg<uint64_t>(kUnpack ? i.a : i.d) + k * kLanes;
    const uint64_t* from = kUnpack ? whole : part;
    for_lanes(kUnpack ? part : whole, mask, [=](uint32_t l) { return from[l]; });
  }
  return Step::kNext;
}

template <class T>
Step clock_now(Warp& w, const Inst& i, uint32_t mask) {
  // Nanoseconds and cycles alike: instructions that the worker has run.
  const auto now = static_cast<T>(w.worker->executed());
  for_lanes(w.reg<T>(i.d), mask, [=](uint32_t) { return now; });
  return Step::kNext;
}

}  // namespace

Handler move_handler(uint32_t bytes) {
  if (bytes == 16) return move_128;
  return bytes == 8 ? unary<uint64_t, Same> : unary<uint32_t, Same>;
}

Handler pack_handler(uint32_t bytes, uint32_t total) {
  if (total == 16 && bytes == 8) return pack_128<false>;
  if (total == 8 && bytes == 4) return pack<uint64_t, uint32_t>;
  if (total == 8 && bytes == 2) return pack<uint64_t, uint16_t>;
  if (total == 4 && bytes == 2) return pack<uint32_t, uint16_t>;
  if (total == 4 && bytes == 1) return pack<uint32_t, uint8_t>;
  return nullptr;
}

Handler unpack_handler(uint32_t bytes, uint32_t total) {
  if (total == 16 && bytes == 8) return pack_128<true>;
  if (total == 8 && bytes == 4) return unpack<uint64_t, uint32_t>;
  if (total == 8 && bytes == 2) return unpack<uint64_t, uint16_t>;
  if (total == 4 && bytes == 2) return unpack<uint32_t, uint16_t>;
  if (total == 4 && bytes == 1) return unpack<uint32_t, uint8_t>;
  return nullptr;
}

Handler clock_handler(uint32_t bytes) {
  return bytes == 8 ? clock_now<uint64_t> : clock_now<uint32_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace fa4::emulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fa4::emulator::exec {

Handler move(uint32_t bytes) { return FA4_EMULATOR_BEST(move_handler(bytes)); }
Handler pack(uint32_t b, uint32_t total) { return FA4_EMULATOR_BEST(pack_handler(b, total)); }
Handler unpack(uint32_t b, uint32_t total) { return FA4_EMULATOR_BEST(unpack_handler(b, total)); }
Handler read_clock(uint32_t bytes) { return FA4_EMULATOR_BEST(clock_handler(bytes)); }

}  // namespace fa4::emulator::exec
#endif
