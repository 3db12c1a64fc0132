// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/exec/matrix_descriptor.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "emulator/machine.h"
#include "emulator/numeric.h"
#include "emulator/tensor_memory.h"
#include "emulator/worker.h"

namespace fa4::emulator {
namespace {

uint32_t field(uint64_t bits, int first, int count) {
  return static_cast<uint32_t>(bits >> first & ((uint64_t{1} << count) - 1));
}

/// Bytes of a row of the swizzle pattern.
uint32_t span_of(SmemSwizzle s) {
  switch (s) {
    case SmemSwizzle::k32B:
      return 32;
    case SmemSwizzle::k64B:
      return 64;
    default:
      return 128;
  }
}

/// The pattern follows the address itself, as bulk tensor copies write it.
uint32_t swizzled(uint32_t address, SmemSwizzle s) {
  switch (s) {
    case SmemSwizzle::kPlain:
      return address;
    case SmemSwizzle::k128B:
      return address ^ (address >> 7 & 7) << 4;
    case SmemSwizzle::k64B:
      return address ^ (address >> 7 & 3) << 4;
    case SmemSwizzle::k32B:
      return address ^ (address >> 7 & 1) << 4;
    case SmemSwizzle::k128B32:
      return address ^ (address >> 7 & 3) << 5;
  }
  return address;
}

std::array<float, 256> make_table(SmallFormat format) {
  std::array<float, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) table[i] = static_cast<float>(decode_small(i, format));
  return table;
}

/// By the 8 bits of an element, for the types that are looked up.
template <TensorElement kType>
const float* table_of() {
  if constexpr (kType == TensorElement::kE4M3 || kType == TensorElement::kE5M2) {
    static const std::array<float, 256> table =
        make_table(kType == TensorElement::kE4M3 ? kFloatE4M3 : kFloatE5M2);
    return table.data();
  } else {
    return nullptr;
  }
}

template <TensorElement kType>
float element(const std::byte* at, uint32_t index, [[maybe_unused]] const float* table) {
  if constexpr (kType == TensorElement::kTF32) {
    uint32_t x;
    std::memcpy(&x, at + 4 * index, sizeof x);
    return std::bit_cast<float>(x & 0xffffe000);
  } else if constexpr (bits_of(kType) == 16) {
    uint16_t x;
    std::memcpy(&x, at + 2 * index, sizeof x);
    return kType == TensorElement::kF16 ? from_float16(x) : from_bfloat16(x);
  } else {
    const auto x = static_cast<uint8_t>(at[index]);
    if constexpr (kType == TensorElement::kE4M3 || kType == TensorElement::kE5M2) {
      return table[x];
    } else if constexpr (kType == TensorElement::kU8) {
      return static_cast<float>(x);
    } else {
      return static_cast<float>(static_cast<int8_t>(x));
    }
  }
}

template <TensorElement kType>
void load_shared(const TensorDescriptor& matrix, Cta& cta, MajorLayout major, uint32_t rows,
                 const Panel& panel) {
  constexpr uint32_t kPerChunk = kChunkBytes * 8 / bits_of(kType);
  const float* table = table_of<kType>();
  constexpr uint32_t kDepth = kDepthBytes * 8 / bits_of(kType);
  if (major == MajorLayout::kK) {
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t c = 0; c < kDepthBytes / kChunkBytes; ++c) {
        const std::byte* at = matrix.chunk(cta, major, row, c);
        float* out = panel.values + c * kPerChunk * panel.stride + row;
        for (uint32_t i = 0; i < kPerChunk; ++i)
          out[i * panel.stride] = element<kType>(at, i, table);
      }
    }
    return;
  }
  for (uint32_t k = 0; k < kDepth; ++k) {
    for (uint32_t c = 0; c < rows / kPerChunk; ++c) {
      const std::byte* at = matrix.chunk(cta, major, k, c);
      float* out = panel.values + k * panel.stride + c * kPerChunk;
      for (uint32_t i = 0; i < kPerChunk; ++i) out[i] = element<kType>(at, i, table);
    }
  }
}

template <TensorElement kType>
void load_tensor(const TensorMemory& memory, uint32_t column, uint32_t first_lane, uint32_t rows,
                 const Panel& panel) {
  constexpr uint32_t kPerCell = 32 / bits_of(kType);
  const float* table = table_of<kType>();
  for (uint32_t c = 0; c < kDepthBytes / 4; ++c) {
    const uint32_t* cells = memory.cells.data() + size_t{column + c} * kTensorLanes + first_lane;
    for (uint32_t i = 0; i < kPerCell; ++i) {
      float* out = panel.values + (c * kPerCell + i) * panel.stride;
      for (uint32_t m = 0; m < rows; ++m) {
        out[m] = element<kType>(reinterpret_cast<const std::byte*>(cells + m), i, table);
      }
    }
  }
}

/// Calls f with the type as a constant.
template <class F>
void with_type(TensorElement type, F f) {
  switch (type) {
    case TensorElement::kF16:
      return f.template operator()<TensorElement::kF16>();
    case TensorElement::kBF16:
      return f.template operator()<TensorElement::kBF16>();
    case TensorElement::kTF32:
      return f.template operator()<TensorElement::kTF32>();
    case TensorElement::kE4M3:
      return f.template operator()<TensorElement::kE4M3>();
    case TensorElement::kE5M2:
      return f.template operator()<TensorElement::kE5M2>();
    case TensorElement::kU8:
      return f.template operator()<TensorElement::kU8>();
    case TensorElement::kS8:
      return f.template operator()<TensorElement::kS8>();
  }
}

}  // namespace

TensorDescriptor TensorDescriptor::parse(uint64_t bits, const char* name) {
  const auto wrong = [&](const std::string& what) {
    throw Fault(std::string(name) + ": matrix descriptor " + hex(bits) + ": " + what);
  };
  if (field(bits, 46, 3) != 1) wrong("bits 46-48 are not 0b001, as tcgen05 wants them");
  if (field(bits, 14, 2) != 0 || field(bits, 30, 2) != 0) {
    wrong("bits 14-15 or 30-31 are set: an address beyond 256 KiB");
  }
  if (field(bits, 49, 3) != 0) wrong("a base offset is not supported");
  if (field(bits, 52, 1) != 0) wrong("the absolute leading dimension is not there on sm_100");
  if (field(bits, 53, 8) != 0) wrong("bits 53-60 are not 0");
  const uint32_t mode = field(bits, 61, 3);
  if (mode == 3 || mode == 5 || mode == 7) wrong("swizzle " + std::to_string(mode));
  TensorDescriptor d;
  d.start = field(bits, 0, 14) << 4;
  d.leading = field(bits, 16, 14) << 4;
  d.stride = field(bits, 32, 14) << 4;
  d.swizzle = static_cast<SmemSwizzle>(mode);
  return d;
}

uint32_t TensorDescriptor::offset(MajorLayout major, uint32_t line, uint32_t chunk) const {
  uint32_t at = start;
  const uint32_t span = span_of(swizzle);
  const uint32_t per_span = span / kChunkBytes;
  if (major == MajorLayout::kK) {
    if (swizzle == SmemSwizzle::kPlain) {
      at += line / 8 * stride + line % 8 * kChunkBytes + chunk * leading;
    } else {
      at += line / 8 * stride + line % 8 * span + chunk * kChunkBytes;
    }
  } else if (swizzle == SmemSwizzle::kPlain) {
    at += chunk * stride + line / 8 * leading + line % 8 * kChunkBytes;
  } else {
    // Atoms of 8 lines, but of 4 where the swizzle moves 32 bytes.
    const uint32_t lines = swizzle == SmemSwizzle::k128B32 ? 4 : 8;
    at += chunk / per_span * leading + line / lines * stride + line % lines * span +
          chunk % per_span * kChunkBytes;
  }
  return swizzled(at, swizzle);
}

const std::byte* TensorDescriptor::chunk(Cta& cta, MajorLayout major, uint32_t line,
                                         uint32_t chunk) const {
  const uint32_t at = offset(major, line, chunk);
  if (at < kSharedStart || at + kChunkBytes > cta.shared.size() ||
      cta.cluster->worker->monitor() != nullptr) {
    return resolve_shared(*cta.cluster, cta.shared_base() | at, kChunkBytes, kChunkBytes,
                          Access::kRead, Proxy::kTensor);
  }
  return cta.shared.data() + at;
}

void load_panel(const TensorDescriptor& matrix, Cta& cta, MajorLayout major, TensorElement type,
                uint32_t rows, const Panel& panel) {
  with_type(type,
            [&]<TensorElement kType>() { load_shared<kType>(matrix, cta, major, rows, panel); });
}

void load_panel(const TensorMemory& memory, uint32_t column, uint32_t first_lane,
                TensorElement type, uint32_t rows, const Panel& panel) {
  const LaneSet lanes = LaneSet::range(first_lane, rows);
  for (uint32_t c = column; c < column + kDepthBytes / 4; ++c) {
    if (memory.written[c].contains(lanes)) continue;
    throw Fault(Rule::kTensorUndefined, "A reads tensor memory that nobody wrote: column " +
                                            std::to_string(c) + ", lanes from " +
                                            std::to_string(first_lane));
  }
  with_type(type, [&]<TensorElement kType>() {
    load_tensor<kType>(memory, column, first_lane, rows, panel);
  });
}

}  // namespace fa4::emulator
