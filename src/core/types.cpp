// SPDX-License-Identifier: BSD-3-Clause
#include <fa4/types.h>
#include <fa4/version.h>

#include <algorithm>

namespace fa4 {

const char* version() { return FA4_VERSION_STRING; }

std::string to_string(Device device) {
  const std::string index = std::to_string(device.index);
  switch (device.type) {
    case DeviceType::kCpu:
      return device.index == 0 ? "cpu" : "cpu:" + index;
    case DeviceType::kCuda:
      return "cuda:" + index;
    case DeviceType::kEmulator:
      if (device.index < 0) return "emulator of an unknown target";
      return "emulator:sm_" + index + (device.index >= 90 ? "a" : "");
  }
  return "unknown device " + std::to_string(static_cast<int>(device.type)) + ":" + index;
}

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
  }
  return "unknown dtype";
}

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kBool:
      return 1;
  }
  return 0;
}

float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // quiet, sign and payload kept
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

float to_float(Float16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000 | (magnitude << 13));
  }
  // Multiplying by 2^112 moves the exponent from half's bias to float's, subnormals included.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

Float16 to_float16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return {static_cast<uint16_t>(sign | 0x7E00 | ((bits >> 13) & 0x1FF))};
  if (magnitude >= 0x477FF000)
    return {static_cast<uint16_t>(sign | 0x7C00)};  // rounds to 2^16 or more
  if (magnitude < 0x38800000) {  // below 2^-14: subnormal; adding 1/2 lines the bits up and rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3F000000))};
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1) - (uint32_t{112} << 23);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

namespace {

Tensor make_view(void* data, DType dtype, std::span<const int64_t> dims, Device device) {
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  t.rank = static_cast<int>(dims.size());  // above kMaxRank it is refused where it is used
  t.device = device;
  std::copy_n(dims.begin(), std::min(t.rank, Tensor::kMaxRank), t.dims.begin());
  return t;
}

}  // namespace

Tensor Tensor::contiguous(const void* data, DType dtype, std::span<const int64_t> dims,
                          Device device) {
  // Inputs and outputs share one view type.
  Tensor t = make_view(const_cast<void*>(data), dtype, dims, device);
  int64_t stride = 1;
  for (int i = std::min(t.rank, kMaxRank) - 1; i >= 0; --i) {
    t.strides[i] = stride;
    // Sizes that wrap are caught where the tensor is used.
    stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(t.dims[i]));
  }
  return t;
}

Tensor Tensor::strided(const void* data, DType dtype, std::span<const int64_t> dims,
                       std::span<const int64_t> strides, Device device) {
  Tensor t = make_view(const_cast<void*>(data), dtype, dims, device);
  if (strides.size() != dims.size()) {
    t.strides.fill(-1);  // which every call refuses
  } else {
    std::copy_n(strides.begin(), std::min(t.rank, kMaxRank), t.strides.begin());
  }
  return t;
}

}  // namespace fa4
