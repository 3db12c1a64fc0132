// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/tensor_map.h"

#include <cstring>
#include <string>

#include "emulator/machine.h"

namespace fa4::emulator {
namespace {

// 32-bit words of the format.
constexpr size_t kAddress = 0, kHeader = 2, kStrides = 3, kStridesHigh = 7, kDims = 8, kBox0 = 13,
                 kBoxes = 14, kBoxBytes = 16, kRepeat = 18;
constexpr uint32_t kInterleaveShift = 11, kSwizzleShift = 13, kNanShift = 15, kTf32Shift = 16,
                   kPromotionShift = 17;
/// How much stays together within 128 bytes: 16, 32, 32 with the flip, 64 bytes. ptxas's code for
/// tensormap.replace writes three bits there.
constexpr uint32_t kAtomShift = 19;
/// The swizzle's third bit, of 96 bytes (sm_103a).
constexpr uint32_t kSwizzleHighShift = 22;

using Words = std::array<uint32_t, 32>;

Status wrong(const std::string& what) { return invalid_argument("tensor map: " + what); }

Status check_dimension(const TensorMapSpec& s, uint32_t i) {
  const std::string which = std::string(1, ' ').append(std::to_string(i));
  if (s.dims[i] == 0 || s.dims[i] > uint64_t{1} << 32) {
    return wrong("dimension" + which + " is " + std::to_string(s.dims[i]) + "; allowed: 1 to 2^32");
  }
  if (s.box[i] == 0 || s.box[i] > 256) {
    return wrong("box dimension" + which + " is " + std::to_string(s.box[i]) +
                 "; allowed: 1 to 256");
  }
  if (s.element_strides[i] == 0 || s.element_strides[i] > 8) {
    return wrong("element stride" + which + " is " + std::to_string(s.element_strides[i]) +
                 "; allowed: 1 to 8");
  }
  if (i > 0 && (s.strides[i] % 16 != 0 || s.strides[i] >= uint64_t{1} << 40)) {
    return wrong("stride" + which + " is " + std::to_string(s.strides[i]) +
                 "; allowed: a multiple of 16 below 2^40");
  }
  return {};
}

Status check(const TensorMapSpec& s) {
  if (s.rank == 0 || s.rank > 5) {
    return wrong("rank is " + std::to_string(s.rank) + "; allowed: 1 to 5");
  }
  if (s.address % 16 != 0) return wrong("address is no multiple of 16");
  for (uint32_t i = 0; i < s.rank; ++i) {
    Status status = check_dimension(s, i);
    if (!status.ok()) return status;
  }
  const uint32_t inner = s.box[0] * size_of(s.type);
  const uint32_t span = row_span(s.swizzle);
  if (inner % 16 != 0 || inner > span) {
    return wrong("box dimension 0 has " + std::to_string(inner) +
                 " bytes; allowed: a multiple of 16 up to " + std::to_string(span));
  }
  return {};
}

}  // namespace

uint32_t size_of(MapType type) {
  switch (type) {
    case MapType::kU8:
      return 1;
    case MapType::kU16:
    case MapType::kF16:
    case MapType::kBF16:
      return 2;
    case MapType::kU64:
    case MapType::kS64:
    case MapType::kF64:
      return 8;
    default:
      return 4;
  }
}

namespace {

/// What an H200's driver (580) writes into two words that nothing documents and that copies here do
/// not need: a box's bytes in shared memory, where the driver counts strided dimensions rounded
/// down (copies round them up), and the bytes after which the swizzle repeats. Of the swizzles of
/// larger pieces it has not been seen.
uint32_t box_word(const TensorMapSpec& s) {
  uint32_t bytes = size_of(s.type) * s.box[0];
  for (uint32_t i = 1; i < s.rank; ++i) bytes *= s.box[i] / s.element_strides[i];
  return bytes;
}
uint32_t repeat_word(Swizzle swizzle) {
  return swizzle == Swizzle::kOff ? 16 : row_span(swizzle) * 8;
}

}  // namespace

Result<TensorMapBytes> encode_tensor_map(const TensorMapSpec& s) {
  const Status status = check(s);
  if (!status.ok()) return status;
  const auto swizzle = static_cast<uint32_t>(s.swizzle);
  const uint32_t atom = swizzle > 3 ? swizzle - 3 : 0;
  Words w{};
  w[kAddress] = static_cast<uint32_t>(s.address);
  w[kAddress + 1] = static_cast<uint32_t>(s.address >> 32);
  w[kHeader] = (s.rank - 1) << 4 | static_cast<uint32_t>(s.type) << 7 |
               (swizzle - atom) << kSwizzleShift | atom << kAtomShift |
               static_cast<uint32_t>(s.nan_fill) << kNanShift | 2u << kPromotionShift;
  for (uint32_t i = 1; i < s.rank; ++i) {
    const uint64_t stride = s.strides[i] >> 4;
    w[kStrides + i - 1] = static_cast<uint32_t>(stride);
    w[kStridesHigh] |= static_cast<uint32_t>(stride >> 32 & 15) << (4 * (i - 1));
  }
  for (uint32_t i = 0; i < s.rank; ++i) {
    w[kDims + i] = static_cast<uint32_t>(s.dims[i] - 1);
    w[kBox0] |= (s.element_strides[i] - 1) << (3 * i);
    if (i > 0) w[kBoxes] |= (s.box[i] - 1) << (8 * (i - 1));
  }
  w[kBox0] |= (s.box[0] - 1) << 24;
  w[kBoxBytes] = box_word(s);
  w[kRepeat] = repeat_word(s.swizzle);
  TensorMapBytes bytes;
  std::memcpy(bytes.data(), w.data(), bytes.size());
  return bytes;
}

namespace {

/// Throws Fault at what the copy engine here cannot do, with the field's name.
void check_header(uint32_t header) {
  const uint32_t rank = (header >> 4 & 7) + 1, type = header >> 7 & 15;
  const uint32_t interleave = header >> kInterleaveShift & 3, atom = header >> kAtomShift & 3;
  const auto refuse = [](const std::string& what) { throw Fault("tensor map: " + what); };
  if (rank > 5) refuse("rank is " + std::to_string(rank) + "; allowed: 1 to 5");
  if (type > static_cast<uint32_t>(MapType::kBF16)) {
    refuse("element type is number " + std::to_string(type) +
           " (packed types of 4 or 6 bits are 11 and up); allowed: 0 to 10");
  }
  if ((header >> kTf32Shift & 1) != 0) {
    refuse(
        "element type is tf32, of which it is not known how copies round; allowed: f32 and the "
        "other numbers 0 to 10");
  }
  if (interleave != 0) {
    refuse("interleave is " + std::string(interleave == 1 ? "16" : "32") + " bytes; allowed: none");
  }
  if ((header >> kSwizzleHighShift & 1) != 0) {
    refuse("swizzle is number 4, of 96 bytes; allowed: 0 (none) to 3 (128 bytes)");
  }
  if (atom != 0 && (header >> kSwizzleShift & 3) != 3) {
    refuse("swizzle atomicity is " + std::to_string(atom) +
           " without the swizzle of 128 bytes; allowed: 0 (16 bytes)");
  }
}

}  // namespace

TensorMapSpec decode_tensor_map(std::span<const std::byte, 128> bytes) {
  Words w;
  std::memcpy(w.data(), bytes.data(), sizeof w);
  TensorMapSpec s;
  const uint32_t header = w[kHeader];
  check_header(header);
  s.address = static_cast<uint64_t>(w[kAddress + 1]) << 32 | w[kAddress];
  s.rank = (header >> 4 & 7) + 1;
  s.type = static_cast<MapType>(header >> 7 & 15);
  s.swizzle = static_cast<Swizzle>((header >> kSwizzleShift & 3) + (header >> kAtomShift & 3));
  s.nan_fill = (header >> kNanShift & 1) != 0;
  for (uint32_t i = 0; i < s.rank; ++i) {
    s.dims[i] = static_cast<uint64_t>(w[kDims + i]) + 1;
    s.element_strides[i] = (w[kBox0] >> (3 * i) & 7) + 1;
    s.box[i] = i == 0 ? (w[kBox0] >> 24) + 1 : (w[kBoxes] >> (8 * (i - 1)) & 255) + 1;
    if (i == 0) {
      s.strides[0] = size_of(s.type);
      continue;
    }
    const uint64_t high = w[kStridesHigh] >> (4 * (i - 1)) & 15;
    s.strides[i] = (high << 32 | w[kStrides + i - 1]) << 4;
  }
  // Whoever wrote the bytes: copies rely on it.
  if (const Status status = check(s); !status.ok()) throw Fault(status.message());
  return s;
}

namespace {

void put(uint32_t& word, uint32_t shift, uint32_t mask, uint64_t value) {
  word = (word & ~(mask << shift)) | (static_cast<uint32_t>(value) & mask) << shift;
}

void want(bool good, const char* field, uint64_t value, const char* allowed) {
  if (good) return;
  throw Fault("tensormap.replace: " + std::string(field) + " is " + std::to_string(value) +
              "; allowed: " + allowed);
}

void replace_type(uint32_t& header, uint64_t value) {
  // tf32 and tf32.ftz are f32 and f32.ftz with a bit of their own; ptxas leaves that for the
  // others.
  const bool tf32 = value == 11 || value == 12;
  if (tf32) put(header, kTf32Shift, 1, 1);
  put(header, 7, 15, tf32 ? value - 4 : value > 12 ? value - 2 : value);
}

void replace_stride(Words& w, uint32_t dimension, uint64_t value) {
  want(value % 16 == 0 && value < uint64_t{1} << 40, "global_stride", value,
       "a multiple of 16 below 2^40");
  w[kStrides + dimension] = static_cast<uint32_t>(value >> 4);
  put(w[kStridesHigh], 4 * dimension, 15, value >> 36);
}

void replace_box(Words& w, uint32_t dimension, uint64_t value) {
  want(value >= 1 && value <= 256, "box_dim", value, "1 to 256");
  if (dimension == 0) return put(w[kBox0], 24, 255, value - 1);
  put(w[kBoxes], 8 * (dimension - 1), 255, value - 1);
}

}  // namespace

void replace_field(std::span<std::byte, 128> bytes, TensorMapField field, uint32_t dimension,
                   uint64_t value) {
  Words w;
  std::memcpy(w.data(), bytes.data(), sizeof w);
  uint32_t& header = w[kHeader];
  switch (field) {
    case TensorMapField::kGlobalAddress:
      want(value % 16 == 0, "global_address", value, "a multiple of 16");
      w[kAddress] = static_cast<uint32_t>(value);
      w[kAddress + 1] = static_cast<uint32_t>(value >> 32);
      break;
    case TensorMapField::kRank:
      want(value <= 4, "rank", value, "0 to 4, one less than the rank");
      put(header, 4, 7, value);
      break;
    case TensorMapField::kBoxDim:
      replace_box(w, dimension, value);
      break;
    case TensorMapField::kGlobalDim:
      w[kDims + dimension] = static_cast<uint32_t>(value - 1);
      break;
    case TensorMapField::kGlobalStride:
      replace_stride(w, dimension, value);
      break;
    case TensorMapField::kElementStride:
      want(value >= 1 && value <= 8, "element_stride", value, "1 to 8");
      put(w[kBox0], 3 * dimension, 7, value - 1);
      break;
    case TensorMapField::kElementType:
      replace_type(header, value);
      break;
    case TensorMapField::kInterleave:
      put(header, kInterleaveShift, 3, value);
      break;
    case TensorMapField::kSwizzle:
      put(header, kSwizzleShift, 3, value);
      put(header, kSwizzleHighShift, 1, value >> 2);
      break;
    case TensorMapField::kAtomicity:
      put(header, kAtomShift, 7, value);
      break;
    case TensorMapField::kFill:
      put(header, kNanShift, 1, value);
      break;
  }
  std::memcpy(bytes.data(), w.data(), sizeof w);
}

}  // namespace fa4::emulator
