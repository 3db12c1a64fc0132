// SPDX-License-Identifier: BSD-3-Clause
// Matrices of one warp: ldmatrix, stmatrix, mma.sync (PTX ISA 9.7.14).
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/exec/matrix_handlers.h"
#include "emulator/exec/memory_access.h"
#include "emulator/numeric.h"
#include "emulator/tensor_sum.h"
#include "emulator/worker.h"

namespace fa4::emulator::exec {
namespace {

constexpr uint32_t kRows = 8, kRowBytes = 16;

/// Rows of the matrices: lane i gives the address of row i % 8 of matrix i / 8.
template <class F>
void for_rows(Warp& w, const Inst& i, Access access, uint32_t mask, F f) {
  if (mask != kAllLanes) throw Fault("a matrix instruction by a part of a warp");
  const uint32_t lanes = i.list_size * kRows;
  const uint32_t used = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  Accessor memory(w, i, access, kRowBytes);
  memory.for_each(used, [&](uint32_t lane, std::byte* at) { f(lane / kRows, lane % kRows, at); });
}

/// Elements are 16 bits: lane t has row t / 4, columns 2 (t % 4) and the next; transposed, rows
/// 2 (t % 4) and the next of column t / 4.
Step ldmatrix(Warp& w, const Inst& i, uint32_t mask) {
  uint16_t matrix[4][kRows][8];
  for_rows(w, i, Access::kRead, mask, [&](uint32_t m, uint32_t row, const std::byte* at) {
    std::memcpy(matrix[m][row], at, kRowBytes);
  });
  for (uint32_t m = 0; m < i.list_size; ++m) {
    uint32_t* d = w.reg<uint32_t>(w.program().lists[i.list + m]);
    for (uint32_t t = 0; t < kLanes; ++t) {
      const uint32_t x = t / 4, y = t % 4 * 2;
      const bool transposed = i.mod[0] != 0;
      const uint32_t low = transposed ? matrix[m][y][x] : matrix[m][x][y];
      const uint32_t high = transposed ? matrix[m][y + 1][x] : matrix[m][x][y + 1];
      d[t] = high << 16 | low;
    }
  }
  return Step::kNext;
}

Step stmatrix(Warp& w, const Inst& i, uint32_t mask) {
  for_rows(w, i, Access::kWrite, mask, [&](uint32_t m, uint32_t row, std::byte* at) {
    const uint32_t* a = w.reg<uint32_t>(w.program().lists[i.list + m]);
    uint16_t values[8];
    for (uint32_t column = 0; column < 8; ++column) {
      const bool transposed = i.mod[0] != 0;
      const uint32_t x = transposed ? column : row, y = transposed ? row : column;
      values[column] = static_cast<uint16_t>(a[x * 4 + y / 2] >> 16 * (y % 2));
    }
    std::memcpy(at, values, kRowBytes);
  });
  return Step::kNext;
}

// ---- mma.sync ----------------------------------------------------------------------------------

// mod[0], mod[1] element types, mod[2] K, mod[3] Type of D, mod[4..6] registers of D and C, A, B.

struct Operands {
  float a[16][32];
  float b[32][8];
  float c[16][8];
};

/// An element of a fragment: register words, `per_word` elements each, from lane t.
float element(const Warp& w, uint32_t slot, uint32_t lane, uint32_t index, ElementType type) {
  std::byte bytes[4];
  std::memcpy(bytes, &w.reg<uint32_t>(slot)[lane], 4);
  return element_value(bytes + index * size_of(type), type);
}

/// A is 16 x K: register r of lane t has row t / 4 + 8 (r % 2) and columns from
/// per_word (t % 4) + (r / 2) K / 2 on. B is K x 8: rows likewise, column t / 4. Where K is only
/// as large as a word's share of four lanes, A has two registers and B one.
void gather(const Warp& w, const Inst& i, const uint32_t* list, Operands& o) {
  const auto ta = static_cast<ElementType>(i.mod[0]), tb = static_cast<ElementType>(i.mod[1]);
  const uint32_t per_word = 4 / size_of(ta), block = 4 * per_word;
  const uint32_t* a = list + i.mod[4];
  const uint32_t* b = a + i.mod[5];
  for (uint32_t t = 0; t < kLanes; ++t) {
    for (uint32_t j = 0; j < per_word; ++j) {
      const uint32_t k = t % 4 * per_word + j;
      for (uint32_t r = 0; r < i.mod[5]; ++r) {
        o.a[t / 4 + 8 * (r % 2)][k + r / 2 * block] = element(w, a[r], t, j, ta);
      }
      for (uint32_t r = 0; r < i.mod[6]; ++r) {
        o.b[k + r * block][t / 4] = element(w, b[r], t, j, tb);
      }
    }
  }
}

/// D and C are 16 x 8: lane t has rows t / 4 and t / 4 + 8, columns 2 (t % 4) and the next.
template <class F>
void for_accumulators(const Inst& i, F f) {
  const bool halves = static_cast<Type>(i.mod[3]) == Type::kF16;
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t t = 0; t < kLanes; ++t) {
      f(halves ? r / 2 : r, halves ? r % 2 : 0, t, t / 4 + r / 2 * 8, t % 4 * 2 + r % 2);
    }
  }
}

/// 8-bit floats are widened, and multiplied 16 at a time; the accumulator is added at the end.
float hopper_element(const Operands& o, uint32_t row, uint32_t column, uint32_t depth, bool tiny,
                     float c) {
  constexpr uint32_t kAtATime = 16;
  float sum = tiny ? 0 : c;
  for (uint32_t k = 0; k < depth; k += kAtATime) {
    const uint32_t count = std::min(depth - k, kAtATime);
    sum = hopper_sum({o.a[row] + k, 1, &o.b[k][column], 8, count}, sum, kSumBits);
  }
  return tiny ? c + sum : sum;
}

Step mma_sync(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != kAllLanes) throw Fault("mma by a part of a warp");
  const auto type = static_cast<Type>(i.mod[3]);
  const uint32_t* list = &w.program().lists[i.list];
  const uint32_t* c_list = list + i.mod[4] + i.mod[5] + i.mod[6];
  Operands o;
  gather(w, i, list, o);
  float product[16][8] = {};
  uint32_t whole[16][8];
  for_accumulators(i, [&](uint32_t reg, uint32_t half, uint32_t t, uint32_t row, uint32_t column) {
    const uint32_t word = w.reg<uint32_t>(c_list[reg])[t];
    whole[row][column] = word;
    if (type == Type::kF32) product[row][column] = std::bit_cast<float>(word);
    if (type == Type::kF16) product[row][column] = from_float16(word >> 16 * half & 0xffff);
  });
  const bool tiny = size_of(static_cast<ElementType>(i.mod[0])) == 1;
  const bool hopper = type != Type::kS32 && w.worker->grid().options.sums == Sums::kHopper;
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t column = 0; hopper && column < 8; ++column) {
      float& x = product[row][column];
      x = hopper_element(o, row, column, i.mod[2], tiny, x);
    }
    for (uint32_t k = 0; !hopper && k < i.mod[2]; ++k) {
      for (uint32_t column = 0; column < 8; ++column) {
        product[row][column] += o.a[row][k] * o.b[k][column];
      }
    }
  }
  for_accumulators(i, [&](uint32_t reg, uint32_t half, uint32_t t, uint32_t row, uint32_t column) {
    uint32_t& d = w.reg<uint32_t>(list[reg])[t];
    const float x = product[row][column];
    if (type == Type::kF32) {
      d = std::bit_cast<uint32_t>(x);
    } else if (type == Type::kF16) {
      d = half == 0 ? to_float16(x) : (d & 0xffff) | to_float16(x) << 16;
    } else {
      d = whole[row][column] + static_cast<uint32_t>(static_cast<int32_t>(x));
    }
  });
  w.worker->tally().matrix_flops += uint64_t{2} * 16 * 8 * i.mod[2];
  return Step::kNext;
}

}  // namespace

Handler load_matrix() { return ldmatrix; }
Handler store_matrix() { return stmatrix; }

Handler mma(const MmaForm& f, Inst& inst) {
  const uint32_t word = 4 * (4 / size_of(f.a));  // elements of K in one register of four lanes
  if (f.m != 16 || f.n != 8 || f.k % word != 0 || f.k / word < 1 || f.k / word > 2) return nullptr;
  const uint32_t blocks = f.k / word;
  const uint32_t accumulators = f.d == Type::kF16 ? 2 : 4;
  if (inst.list_size != 2 * accumulators + 3 * blocks) return nullptr;
  inst.mod = {static_cast<uint8_t>(f.a),          static_cast<uint8_t>(f.b),
              static_cast<uint8_t>(f.k),          static_cast<uint8_t>(f.d),
              static_cast<uint8_t>(accumulators), static_cast<uint8_t>(2 * blocks),
              static_cast<uint8_t>(blocks)};
  return mma_sync;
}

}  // namespace fa4::emulator::exec
