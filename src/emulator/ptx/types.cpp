// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/ptx/types.h"

namespace fa4::emulator::ptx {
namespace {

struct Name {
  std::string_view name;
  Type type;
};
constexpr Name kNames[] = {
    {"b8", Type::kB8},       {"b16", Type::kB16},       {"b32", Type::kB32},
    {"b64", Type::kB64},     {"b128", Type::kB128},     {"u8", Type::kU8},
    {"u16", Type::kU16},     {"u32", Type::kU32},       {"u64", Type::kU64},
    {"s8", Type::kS8},       {"s16", Type::kS16},       {"s32", Type::kS32},
    {"s64", Type::kS64},     {"f16", Type::kF16},       {"f32", Type::kF32},
    {"f64", Type::kF64},     {"bf16", Type::kBF16},     {"tf32", Type::kTF32},
    {"f16x2", Type::kF16x2}, {"bf16x2", Type::kBF16x2}, {"f32x2", Type::kF32x2},
    {"u16x2", Type::kU16x2}, {"s16x2", Type::kS16x2},   {"e4m3", Type::kE4M3},
    {"e5m2", Type::kE5M2},   {"e4m3x2", Type::kE4M3x2}, {"e5m2x2", Type::kE5M2x2},
    {"pred", Type::kPred},
};

}  // namespace

std::optional<Type> find_type(std::string_view name) {
  if (!name.empty() && name[0] == '.') name.remove_prefix(1);
  for (const Name& n : kNames) {
    if (n.name == name) return n.type;
  }
  return std::nullopt;
}

std::string_view name_of(Type type) {
  for (const Name& n : kNames) {
    if (n.type == type) return n.name;
  }
  return "?";
}

}  // namespace fa4::emulator::ptx
