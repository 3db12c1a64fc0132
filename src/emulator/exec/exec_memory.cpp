// SPDX-License-Identifier: BSD-3-Clause
// Loads, stores, atomics, address arithmetic between spaces: PTX ISA 9.7.9, 9.7.13.
#include <bit>
#include <cstring>

#include "emulator/exec/memory_access.h"
#include "emulator/exec/warp_handlers.h"
#include "emulator/numeric.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

// mod[0] Type, mod[1] register bytes, mod[14] Space, mod[15] address bytes.
Type type_of(const Inst& i) { return static_cast<Type>(i.mod[0]); }

uint64_t extend(uint64_t x, Type type, uint32_t register_bytes) {
  switch (type) {
    case Type::kS8:
      x = static_cast<uint64_t>(static_cast<int64_t>(x << 56) >> 56);
      break;
    case Type::kS16:
      x = static_cast<uint64_t>(static_cast<int16_t>(x));
      break;
    case Type::kS32:
      x = static_cast<uint64_t>(static_cast<int32_t>(x));
      break;
    default:
      return x;
  }
  return register_bytes == 2 ? x & 0xffff : x;
}

template <class T>
void put_lane(const Warp& w, uint32_t slot, uint32_t lane, uint64_t x) {
  w.reg<T>(slot)[lane] = static_cast<T>(x);
}

/// Elements of up to 8 bytes, up to 8 of them.
template <class Memory>
Step load_vector(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.program().lists[i.list];
  const uint32_t count = i.list_size;
  const bool wide = i.mod[1] > 4;
  const Type type = type_of(i);
  Accessor memory(w, i, Access::kRead, static_cast<uint32_t>(sizeof(Memory)) * count);
  memory.for_each(mask, [&](uint32_t lane, const std::byte* at) {
    for (uint32_t k = 0; k < count; ++k) {
      Memory m;
      std::memcpy(&m, at + k * sizeof(Memory), sizeof(Memory));
      const uint64_t x = extend(m, type, i.mod[1]);
      if (wide) {
        put_lane<uint64_t>(w, list[k], lane, x);
      } else {
        put_lane<uint32_t>(w, list[k], lane, x);
      }
    }
  });
  return Step::kNext;
}

template <class Memory>
Step store_vector(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.program().lists[i.list];
  const uint32_t count = i.list_size;
  const bool wide = i.mod[1] > 4;
  Accessor memory(w, i, Access::kWrite, static_cast<uint32_t>(sizeof(Memory)) * count);
  memory.for_each(mask, [&](uint32_t lane, std::byte* at) {
    for (uint32_t k = 0; k < count; ++k) {
      const auto m = static_cast<Memory>(wide ? w.reg<uint64_t>(list[k])[lane]
                                              : w.reg<uint32_t>(list[k])[lane]);
      std::memcpy(at + k * sizeof(Memory), &m, sizeof(Memory));
    }
  });
  return Step::kNext;
}

/// .b128: two 64-bit arrays a register.
template <bool kStore>
Step move_128(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t slot = w.program().lists[i.list];
  Accessor memory(w, i, kStore ? Access::kWrite : Access::kRead, 16);
  memory.for_each(mask, [&](uint32_t lane, std::byte* at) {
    for (uint32_t k = 0; k < 2; ++k) {
      uint64_t* word = w.reg<uint64_t>(slot) + k * kLanes + lane;
      if (kStore) {
        std::memcpy(at + 8 * k, word, 8);
      } else {
        std::memcpy(word, at + 8 * k, 8);
      }
    }
  });
  return Step::kNext;
}

void put(const MemoryForm& form, Inst& inst) {
  inst.mod[0] = static_cast<uint8_t>(form.type);
  inst.mod[1] = form.register_bytes;
  inst.mod[14] = static_cast<uint8_t>(form.space);
}

// ---- atomics -----------------------------------------------------------------------------------

template <class T>
T add_floats(T a, T b, Type type, bool global) {
  if constexpr (sizeof(T) == 8) {
    // Global memory's own adders hand NaNs through.
    for (const T x : {a, b}) {
      if (global && std::isnan(std::bit_cast<double>(x))) return x;
    }
    return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
  } else if (type == Type::kF32) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(a)),
                y = std::bit_cast<float>(static_cast<uint32_t>(b));
    const float sum = global ? flush(flush(x) + flush(y)) : x + y;
    return static_cast<T>(std::isnan(sum) ? kNanBits : std::bit_cast<uint32_t>(sum));
  } else {
    const bool brain = type == Type::kBF16x2 || type == Type::kBF16;
    const SmallFormat f = brain ? kBFloat16 : kFloat16;
    T r = 0;
    for (uint32_t s = 0; s < 8 * sizeof(T); s += 16) {
      const double sum = decode_small(static_cast<uint32_t>(a) >> s & 0xffff, f) +
                         decode_small(static_cast<uint32_t>(b) >> s & 0xffff, f);
      r = static_cast<T>(r | static_cast<T>(encode_small(sum, f, Round::kNearest, false) << s));
    }
    return r;
  }
}

template <class T>
T combine(ReduceOp op, Type type, bool global, T old, T b, T c) {
  using S = std::make_signed_t<T>;
  const bool less = ptx::is_signed(type) ? static_cast<S>(b) < static_cast<S>(old) : b < old;
  switch (op) {
    case ReduceOp::kAdd:
      return ptx::is_float(type) ? add_floats<T>(old, b, type, global) : static_cast<T>(old + b);
    case ReduceOp::kMin:
      return less ? b : old;
    case ReduceOp::kMax:
      return less ? old : b;
    case ReduceOp::kAnd:
      return old & b;
    case ReduceOp::kOr:
      return old | b;
    case ReduceOp::kXor:
      return old ^ b;
    case ReduceOp::kExchange:
      return b;
    case ReduceOp::kCompareSwap:
      return old == b ? c : old;
    case ReduceOp::kIncrement:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case ReduceOp::kDecrement:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  return old;
}

/// One element: other host threads may do the same.
template <class T>
T update(Worker& worker, std::byte* at, ReduceOp op, Type type, bool global, T b, T c) {
  T* p = reinterpret_cast<T*>(at);
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  T next = 0;
  do {
    next = combine<T>(op, type, global, old, b, c);
  } while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  if (next != old) worker.changed();
  return old;
}

/// mod[2] ReduceOp, mod[3] global, mod[4] elements.
template <class T>
Step atomic_lanes(Warp& w, const Inst& i, uint32_t mask) {
  using W = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const uint32_t* list = &w.program().lists[i.list];
  const uint32_t count = i.mod[4];
  const auto op = static_cast<ReduceOp>(i.mod[2]);
  Accessor memory(w, i, Access::kAtomic, static_cast<uint32_t>(sizeof(T)) * count);
  memory.for_each(mask, [&](uint32_t lane, std::byte* at) {
    for (uint32_t k = 0; k < count; ++k) {
      const auto b = static_cast<T>(w.reg<W>(list[k])[lane]);
      const T c = i.c != kNone ? static_cast<T>(w.reg<W>(i.c)[lane]) : T{0};
      const T old = update<T>(*w.worker, at + k * sizeof(T), op, type_of(i), i.mod[3] != 0, b, c);
      if (i.list_size > count) w.reg<W>(list[count + k])[lane] = old;
    }
  });
  return Step::kNext;
}

// ---- addresses ---------------------------------------------------------------------------------

uint64_t window_of(Space space) {
  switch (space) {
    case Space::kShared:
    case Space::kSharedCluster:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParam:
      return kParamWindow;
    default:
      return 0;
  }
}

uint64_t get(const Warp& w, uint32_t slot, uint32_t bytes, uint32_t lane) {
  return bytes == 8 ? w.reg<uint64_t>(slot)[lane] : w.reg<uint32_t>(slot)[lane];
}
void set(const Warp& w, uint32_t slot, uint32_t bytes, uint32_t lane, uint64_t x) {
  if (bytes == 8) {
    w.reg<uint64_t>(slot)[lane] = x;
  } else {
    w.reg<uint32_t>(slot)[lane] = static_cast<uint32_t>(x);
  }
}

template <AddressOp kOp>
Step address(Warp& w, const Inst& i, uint32_t mask) {
  const auto space = static_cast<Space>(i.mod[14]);
  const uint64_t window = window_of(space);
  uint32_t inside = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const uint64_t a = get(w, i.a, i.mod[13], l);
    uint64_t d = a;
    switch (kOp) {
      case AddressOp::kToGeneric:
        d = a | window;
        break;
      case AddressOp::kFromGeneric:
        d = a & ~window;
        break;
      case AddressOp::kIsSpace: {
        const uint64_t in = a & kWindows;
        bool is = in == window;
        if (space == Space::kShared)
          is = is && static_cast<uint32_t>(a) >> kRankShift == w.cta->rank;
        inside |= static_cast<uint32_t>(is) << l;
        continue;
      }
      case AddressOp::kMapa: {
        const uint64_t rank = w.reg<uint32_t>(i.b)[l];
        d = (a & ~(uint64_t{0xff} << kRankShift)) | rank << kRankShift;
        break;
      }
      case AddressOp::kGetRank:
        d = a >> kRankShift & 0xff;
        break;
    }
    set(w, i.d, i.mod[12], l, d);
  }
  if (kOp == AddressOp::kIsSpace) w.set_lanes(i.d, inside, mask);
  return Step::kNext;
}

}  // namespace

Handler load(const MemoryForm& form, Inst& inst) {
  put(form, inst);
  switch (ptx::size_of(form.type)) {
    case 1:
      return load_vector<uint8_t>;
    case 2:
      return load_vector<uint16_t>;
    case 4:
      return load_vector<uint32_t>;
    case 8:
      return load_vector<uint64_t>;
    case 16:
      return inst.list_size == 1 ? move_128<false> : nullptr;
    default:
      return nullptr;
  }
}

Handler store(const MemoryForm& form, Inst& inst) {
  put(form, inst);
  switch (ptx::size_of(form.type)) {
    case 1:
      return store_vector<uint8_t>;
    case 2:
      return store_vector<uint16_t>;
    case 4:
      return store_vector<uint32_t>;
    case 8:
      return store_vector<uint64_t>;
    case 16:
      return inst.list_size == 1 ? move_128<true> : nullptr;
    default:
      return nullptr;
  }
}

Handler atomic(const MemoryForm& form, ReduceOp op, bool global, Inst& inst) {
  put(form, inst);
  inst.mod[2] = static_cast<uint8_t>(op);
  inst.mod[3] = global ? 1 : 0;
  switch (ptx::size_of(form.type)) {
    case 2:
      return atomic_lanes<uint16_t>;
    case 4:
      return atomic_lanes<uint32_t>;
    case 8:
      return atomic_lanes<uint64_t>;
    default:
      return nullptr;
  }
}

Handler address_handler(AddressOp op) {
  switch (op) {
    case AddressOp::kToGeneric:
      return address<AddressOp::kToGeneric>;
    case AddressOp::kFromGeneric:
      return address<AddressOp::kFromGeneric>;
    case AddressOp::kIsSpace:
      return address<AddressOp::kIsSpace>;
    case AddressOp::kMapa:
      return address<AddressOp::kMapa>;
    case AddressOp::kGetRank:
      return address<AddressOp::kGetRank>;
  }
  return nullptr;
}

}  // namespace fa4::emulator::exec
