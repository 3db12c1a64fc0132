// SPDX-License-Identifier: BSD-3-Clause
// PTX's types and state spaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fa4::emulator::ptx {

enum class Type : uint8_t {
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kTF32,
  kF16x2,
  kBF16x2,
  kF32x2,
  kU16x2,
  kS16x2,
  kE4M3,
  kE5M2,
  kE4M3x2,
  kE5M2x2,
  kPred,
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kSharedCluster, kLocal, kConst, kParam };

/// ".u32" or "u32" to a type.
std::optional<Type> find_type(std::string_view name);
std::string_view name_of(Type type);

constexpr uint32_t size_of(Type t) {
  switch (t) {
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
    case Type::kE4M3:
    case Type::kE5M2:
    case Type::kPred:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBF16:
    case Type::kE4M3x2:
    case Type::kE5M2x2:
      return 2;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
    case Type::kF32x2:
      return 8;
    case Type::kB128:
      return 16;
    default:
      return 4;
  }
}

constexpr bool is_signed(Type t) {
  return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64;
}
constexpr bool is_float(Type t) {
  switch (t) {
    case Type::kF16:
    case Type::kF32:
    case Type::kF64:
    case Type::kBF16:
    case Type::kTF32:
    case Type::kF16x2:
    case Type::kBF16x2:
    case Type::kF32x2:
    case Type::kE4M3:
    case Type::kE5M2:
    case Type::kE4M3x2:
    case Type::kE5M2x2:
      return true;
    default:
      return false;
  }
}

}  // namespace fa4::emulator::ptx
