// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/matrix_operand.h"

#include <bit>
#include <cstring>

#include "emulator/numeric.h"
#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

constexpr uint32_t kChunk = 16;

uint32_t span_of(Swizzle s) { return s == Swizzle::kOff ? kChunk : 16u << static_cast<int>(s); }

/// Offset of the chunk of 16 bytes that begins with element (mn, k), before the swizzle. e: bytes
/// of an element.
uint32_t chunk_offset(const MatrixDescriptor& d, bool k_major, uint32_t e, uint32_t mn,
                      uint32_t k) {
  const uint32_t per_chunk = kChunk / e;
  const uint32_t span = span_of(d.swizzle);
  if (k_major) {
    if (d.swizzle == Swizzle::kOff) {
      return mn / 8 * d.stride + mn % 8 * kChunk + k / per_chunk * d.leading;
    }
    return mn / 8 * d.stride + mn % 8 * span + k * e;
  }
  if (d.swizzle == Swizzle::kOff) {
    return mn / per_chunk * d.stride + k / 8 * d.leading + k % 8 * kChunk;
  }
  const uint32_t per_span = span / e;
  return mn / per_span * d.leading + k / 8 * d.stride + k % 8 * span + mn % per_span * e;
}

/// Where an operand's chunks lie, all within the CTA's shared memory.
class Chunks {
 public:
  Chunks(Cluster& cluster, uint32_t rank, const MatrixDescriptor& d, bool k_major, uint32_t e)
      : cluster_(cluster),
        d_(d),
        k_major_(k_major),
        e_(e),
        base_(rank << kRankShift),
        shared_(cta_of(cluster, base_).shared),
        watched_(cluster.worker->monitor() != nullptr) {}

  const std::byte* at(uint32_t mn, uint32_t k) const {
    const uint32_t place = swizzled(d_.start + chunk_offset(d_, k_major_, e_, mn, k), d_.swizzle);
    if (!watched_ && place >= kSharedStart && place + kChunk <= shared_.size()) {
      return shared_.data() + place;
    }
    if (place > kOffsetMask) throw Fault("a matrix descriptor beyond shared memory");
    return resolve_shared(cluster_, base_ | place, kChunk, kChunk, Access::kRead, Proxy::kAsync);
  }

 private:
  Cluster& cluster_;
  const MatrixDescriptor& d_;
  bool k_major_;
  uint32_t e_;
  uint32_t base_;
  const std::vector<std::byte>& shared_;
  bool watched_;
};

template <ElementType kType>
void convert_chunk(const std::byte* chunk, float* out) {
  constexpr uint32_t kSize = size_of(kType);
  for (uint32_t i = 0; i < kChunk / kSize; ++i) {
    if constexpr (kSize == 2) {
      uint16_t x;
      std::memcpy(&x, chunk + 2 * i, sizeof x);
      out[i] = kType == ElementType::kF16 ? from_float16(x) : from_bfloat16(x);
    } else {
      out[i] = element_value(chunk + i * kSize, kType);
    }
  }
}

template <ElementType kType>
void fetch(const Chunks& chunks, bool k_major, uint32_t rows, float* out) {
  constexpr uint32_t kCount = kChunk / size_of(kType), kDepth = k_of(kType);
  if (!k_major) {
    for (uint32_t k = 0; k < kDepth; ++k) {
      for (uint32_t mn = 0; mn < rows; mn += kCount) {
        float values[kCount];
        convert_chunk<kType>(chunks.at(mn, k), values);
        const uint32_t count = rows - mn < kCount ? rows - mn : kCount;
        std::memcpy(out + k * rows + mn, values, count * sizeof(float));
      }
    }
    return;
  }
  // Eight rows at a time, so that what is written lies together. Rows come in eights.
  for (uint32_t mn = 0; mn < rows; mn += 8) {
    for (uint32_t k = 0; k < kDepth; k += kCount) {
      float values[8][kCount];
      for (uint32_t j = 0; j < 8; ++j) convert_chunk<kType>(chunks.at(mn + j, k), values[j]);
      for (uint32_t i = 0; i < kCount; ++i) {
        for (uint32_t j = 0; j < 8; ++j) out[(k + i) * rows + mn + j] = values[j][i];
      }
    }
  }
}

}  // namespace

MatrixDescriptor decode_wgmma_descriptor(uint64_t bits) {
  const auto field = [bits](int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) << 4; };
  constexpr Swizzle kModes[] = {Swizzle::kOff, Swizzle::k128, Swizzle::k64, Swizzle::k32};
  MatrixDescriptor d;
  d.start = field(0);
  d.leading = field(16);
  d.stride = field(32);
  d.base = static_cast<uint32_t>(bits >> 49 & 7);
  d.swizzle = kModes[bits >> 62];
  return d;
}

float element_value(const std::byte* at, ElementType type) {
  switch (type) {
    case ElementType::kF16: {
      uint16_t x;
      std::memcpy(&x, at, sizeof x);
      return from_float16(x);
    }
    case ElementType::kBF16: {
      uint16_t x;
      std::memcpy(&x, at, sizeof x);
      return from_bfloat16(x);
    }
    case ElementType::kTF32: {
      uint32_t x;
      std::memcpy(&x, at, sizeof x);
      return std::bit_cast<float>(x & ~0x1fffu);
    }
    case ElementType::kE4M3:
      return static_cast<float>(decode_small(static_cast<uint32_t>(*at), kFloatE4M3));
    case ElementType::kE5M2:
      return static_cast<float>(decode_small(static_cast<uint32_t>(*at), kFloatE5M2));
    case ElementType::kS8:
      return static_cast<float>(static_cast<int8_t>(*at));
    case ElementType::kU8:
      return static_cast<float>(static_cast<uint8_t>(*at));
  }
  return 0;
}

void fetch_operand(Cluster& cluster, uint32_t rank, const MatrixDescriptor& d, bool k_major,
                   ElementType type, uint32_t rows, float* out) {
  if (d.base != 0) throw Fault("a matrix descriptor with a base offset is not supported");
  const Chunks chunks(cluster, rank, d, k_major, size_of(type));
  switch (type) {
    case ElementType::kF16:
      return fetch<ElementType::kF16>(chunks, k_major, rows, out);
    case ElementType::kBF16:
      return fetch<ElementType::kBF16>(chunks, k_major, rows, out);
    case ElementType::kTF32:
      return fetch<ElementType::kTF32>(chunks, k_major, rows, out);
    case ElementType::kE4M3:
      return fetch<ElementType::kE4M3>(chunks, k_major, rows, out);
    case ElementType::kE5M2:
      return fetch<ElementType::kE5M2>(chunks, k_major, rows, out);
    case ElementType::kS8:
      return fetch<ElementType::kS8>(chunks, k_major, rows, out);
    case ElementType::kU8:
      return fetch<ElementType::kU8>(chunks, k_major, rows, out);
  }
}

}  // namespace fa4::emulator
