// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/tile_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine.h"
#include "emulator/monitor.h"
#include "emulator/numeric.h"

namespace fa4::emulator {
namespace {

/// Bytes that no swizzle parts.
constexpr uint32_t swizzle_piece(Swizzle s) { return s == Swizzle::k128Atom32Flip ? 8 : 16; }
/// Stores and reductions take whole ones, beyond the end of the tensor's rows too.
constexpr uint32_t kStorePiece = 16;
/// What an H200 fills with, whatever the element's size: a NaN of float16 and bfloat16, and so of
/// wider floats.
constexpr uint16_t kNanFill = 0x7ff7;
constexpr uint64_t kMaxBoxBytes = 256 * 1024;
/// Chunks change places within these many bytes.
constexpr uint32_t kLine = 128;

/// Bytes of shared memory that a box may touch. A row of a swizzled box takes the swizzle's whole
/// span, how short it be: CUDA's programming guide wants room for that, and on an H200 copies of
/// half as wide boxes into memory for their bytes alone end as illegal addresses. What stands in
/// the gaps afterwards is not known; here, what stood there.
uint32_t touched(const TensorMapSpec& map, uint32_t bytes) {
  if (map.swizzle == Swizzle::kOff) return bytes;
  const uint32_t rows = bytes / (map.box[0] * size_of(map.type));
  return (rows * row_span(map.swizzle) + kLine - 1) / kLine * kLine;
}

/// f(offset in the dense box, offset in shared memory, bytes) for what stays together.
template <class F>
void for_pieces(const TensorMapSpec& map, uint32_t address, uint32_t bytes, F f) {
  if (map.swizzle == Swizzle::kOff) return f(0u, 0u, bytes);
  const uint32_t row = map.box[0] * size_of(map.type), span = row_span(map.swizzle);
  const uint32_t piece = swizzle_piece(map.swizzle);
  for (uint32_t from = 0, line = address; from < bytes; line += span - row) {
    for (const uint32_t end = from + row; from < end; from += piece, line += piece) {
      f(from, swizzled(line, map.swizzle) - address, piece);
    }
  }
}

/// Extents of the box in shared memory: strided dimensions are thinned out.
std::array<uint32_t, 5> extents(const TensorMapSpec& map) {
  std::array<uint32_t, 5> e = map.box;
  for (uint32_t i = 1; i < map.rank; ++i) {
    e[i] = (map.box[i] + map.element_strides[i] - 1) / map.element_strides[i];
  }
  return e;
}

/// f(row, offset in the tensor, first, last) for the box's rows: elements [first, last) of the row
/// lie inside the tensor, the first of the row at `offset` bytes from the tensor's begin (modulo
/// 2^64, where the row begins outside).
template <class F>
void for_rows(const TensorMapSpec& map, const Coordinates& at, F f) {
  const std::array<uint32_t, 5> e = extents(map);
  const uint32_t rows = e[1] * e[2] * e[3] * e[4];
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t rest = row;
    uint64_t offset = static_cast<uint64_t>(int64_t{at[0]}) * map.strides[0];
    bool inside = true;
    for (uint32_t i = 1; i < map.rank; ++i) {
      const int64_t c = int64_t{at[i]} + int64_t{rest % e[i]} * map.element_strides[i];
      rest /= e[i];
      inside = inside && c >= 0 && static_cast<uint64_t>(c) < map.dims[i];
      offset += static_cast<uint64_t>(c) * map.strides[i];
    }
    const int64_t dim = static_cast<int64_t>(map.dims[0]);
    const int64_t first = std::clamp<int64_t>(-int64_t{at[0]}, 0, e[0]);
    const int64_t last = std::clamp<int64_t>(dim - at[0], first, e[0]);
    f(row, offset, static_cast<uint32_t>(first), static_cast<uint32_t>(inside ? last : first));
  }
}

void fill(std::byte* at, size_t bytes, const TensorMapSpec& map) {
  std::memset(at, 0, bytes);
  const bool is_float = map.type >= MapType::kF16;
  if (!map.nan_fill || !is_float) return;
  for (size_t i = 0; i < bytes; i += sizeof kNanFill) {
    std::memcpy(at + i, &kNanFill, sizeof kNanFill);
  }
}

template <class T, class F>
void each(std::byte* to, const std::byte* from, size_t bytes, F f) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    const T r = f(a, b);
    std::memcpy(to + i, &r, sizeof r);
  }
}

template <class T>
void reduce_integers(std::byte* to, const std::byte* from, size_t bytes, ReduceKind kind) {
  using U = std::make_unsigned_t<T>;
  each<T>(to, from, bytes, [kind](T a, T b) -> T {
    switch (kind) {
      case ReduceKind::kAdd:
        return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case ReduceKind::kMin:
        return std::min(a, b);
      case ReduceKind::kMax:
        return std::max(a, b);
      case ReduceKind::kIncrement:
        return a >= b ? T{0} : static_cast<T>(a + 1);
      case ReduceKind::kDecrement:
        return a == 0 || a > b ? b : static_cast<T>(a - 1);
      case ReduceKind::kAnd:
        return a & b;
      case ReduceKind::kOr:
        return a | b;
      case ReduceKind::kXor:
        return a ^ b;
      default:
        return b;
    }
  });
}

double combine(double a, double b, ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kAdd:
      return a + b;
    case ReduceKind::kMin:
      return std::fmin(a, b);
    case ReduceKind::kMax:
      return std::fmax(a, b);
    default:
      throw Fault("a reduction that floating-point numbers have not");
  }
}

}  // namespace

void reduce_bytes(std::byte* to, const std::byte* from, size_t bytes, MapType type,
                  ReduceKind kind) {
  switch (type) {
    case MapType::kU32:
      return reduce_integers<uint32_t>(to, from, bytes, kind);
    case MapType::kS32:
      return reduce_integers<int32_t>(to, from, bytes, kind);
    case MapType::kU64:
      return reduce_integers<uint64_t>(to, from, bytes, kind);
    case MapType::kS64:
      return reduce_integers<int64_t>(to, from, bytes, kind);
    case MapType::kF16:
    case MapType::kBF16: {
      const SmallFormat f = type == MapType::kF16 ? kFloat16 : kBFloat16;
      return each<uint16_t>(to, from, bytes, [&](uint16_t a, uint16_t b) {
        return static_cast<uint16_t>(encode_small(
            combine(decode_small(a, f), decode_small(b, f), kind), f, Round::kNearest, false));
      });
    }
    case MapType::kF32:
      return each<float>(to, from, bytes,
                         [&](float a, float b) { return static_cast<float>(combine(a, b, kind)); });
    case MapType::kF32Flush:
      return each<float>(to, from, bytes, [&](float a, float b) {
        return flush(static_cast<float>(combine(flush(a), flush(b), kind)));
      });
    case MapType::kF64:
      return each<double>(to, from, bytes, [&](double a, double b) { return combine(a, b, kind); });
    default:
      throw Fault("a reduction of elements of that type");
  }
}

uint32_t box_bytes(const TensorMapSpec& map) {
  uint64_t bytes = size_of(map.type);
  for (const uint32_t extent : extents(map)) bytes *= extent;
  if (bytes > kMaxBoxBytes) throw Fault("a box of " + std::to_string(bytes) + " bytes");
  return static_cast<uint32_t>(bytes);
}

std::vector<std::byte> read_box(const MemoryMap& memory, const TensorMapSpec& map,
                                const Coordinates& at, Monitor* monitor) {
  const uint32_t size = size_of(map.type), row_bytes = map.box[0] * size;
  std::vector<std::byte> box(box_bytes(map));
  for_rows(map, at, [&](uint32_t row, uint64_t offset, uint32_t first, uint32_t last) {
    std::byte* to = box.data() + size_t{row} * row_bytes;
    if (first > 0 || last < map.box[0]) fill(to, row_bytes, map);
    if (first == last) return;
    const uint32_t bytes = (last - first) * size;
    const std::byte* from =
        resolve_global(memory, map.address + offset + first * size, bytes, Access::kRead);
    if (monitor != nullptr) {
      monitor->global_access(reinterpret_cast<uint64_t>(from), bytes, Access::kRead);
    }
    std::memcpy(to + first * size, from, bytes);
  });
  return box;
}

void write_box(const MemoryMap& memory, const TensorMapSpec& map, const Coordinates& at,
               const std::vector<std::byte>& box, ReduceKind reduce, Monitor* monitor) {
  const uint32_t size = size_of(map.type), row_bytes = map.box[0] * size;
  for_rows(map, at, [&](uint32_t row, uint64_t offset, uint32_t first, uint32_t last) {
    if (first == last) return;
    const uint32_t bytes = ((last - first) * size + kStorePiece - 1) / kStorePiece * kStorePiece;
    const std::byte* from = box.data() + size_t{row} * row_bytes + first * size;
    std::byte* to =
        resolve_global(memory, map.address + offset + first * size, bytes, Access::kWrite);
    if (monitor != nullptr) {
      const bool plain = reduce == ReduceKind::kReplace;
      monitor->global_access(reinterpret_cast<uint64_t>(to), bytes,
                             plain ? Access::kWrite : Access::kAtomic);
    }
    if (reduce == ReduceKind::kReplace) {
      std::memcpy(to, from, bytes);
    } else {
      reduce_bytes(to, from, bytes, map.type, reduce);
    }
  });
}

void box_to_shared(Cluster& cluster, uint32_t address, const TensorMapSpec& map,
                   const std::vector<std::byte>& box) {
  const auto bytes = static_cast<uint32_t>(box.size());
  std::byte* to =
      resolve_shared(cluster, address, touched(map, bytes), kLine, Access::kWrite, Proxy::kAsync);
  for_pieces(map, address, bytes, [&](uint32_t in_box, uint32_t in_shared, uint32_t count) {
    std::memcpy(to + in_shared, box.data() + in_box, count);
  });
}

std::vector<std::byte> box_from_shared(Cluster& cluster, uint32_t address,
                                       const TensorMapSpec& map) {
  const uint32_t bytes = box_bytes(map);
  const std::byte* from =
      resolve_shared(cluster, address, touched(map, bytes), kLine, Access::kRead, Proxy::kAsync);
  std::vector<std::byte> box(bytes);
  for_pieces(map, address, bytes, [&](uint32_t in_box, uint32_t in_shared, uint32_t count) {
    std::memcpy(box.data() + in_box, from + in_shared, count);
  });
  return box;
}

}  // namespace fa4::emulator
