// SPDX-License-Identifier: BSD-3-Clause
// ldmatrix, stmatrix, mma.sync: PTX ISA 9.7.14.
#include <algorithm>
#include <string>

#include "emulator/probes/operand_words.h"
#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kTileWords = 256;

/// 1,024 bytes of a tile, then for each lane the offset of its row: all 64 rows have equal chances,
/// no two lanes share one.
std::vector<uint32_t> tile_and_rows() {
  Random random(5);
  std::vector<uint32_t> words(kTileWords);
  for (uint32_t& word : words) word = random.word();
  std::vector<uint32_t> rows(64);
  for (uint32_t i = 0; i < 64; ++i) rows[i] = 16 * i;
  for (uint32_t i = 0; i < 32; ++i) {
    std::swap(rows[i], rows[i + random.below(64 - i)]);
    words.push_back(rows[i]);
  }
  return words;
}

constexpr const char* kTileText = R"(
.reg .b32 s, n, r<8>;
.reg .b64 g, i;
mov.u32 s, tile;
mad.lo.u32 n, t, 32, s;
mul.wide.u32 i, t, 32;
add.u64 g, in, i;
ld.global.v4.u32 {r0, r1, r2, r3}, [g];
ld.global.v4.u32 {r4, r5, r6, r7}, [g+16];
)";

Probe load_probe(uint32_t count, const std::string& trans) {
  Probe probe;
  probe.name = "ldmatrix.x" + std::to_string(count) + trans;
  probe.input = tile_and_rows();
  probe.output_words = 32 * count;
  std::string text = std::string(kTileText) + R"(
st.shared.v4.u32 [n], {r0, r1, r2, r3};
st.shared.v4.u32 [n+16], {r4, r5, r6, r7};
bar.warp.sync 0xffffffff;
mul.wide.u32 i, t, 4;
add.u64 g, in, i;
ld.global.u32 n, [g+1024];
add.u32 n, s, n;
ldmatrix.sync.aligned.m8n8.x)" +
                     std::to_string(count) + trans + ".shared.b16 " + register_list("r", count) +
                     ", [n];\n" + "mul.wide.u32 i, t, " + std::to_string(4 * count) +
                     ";\nadd.u64 g, out, i;\n";
  for (uint32_t r = 0; r < count; ++r) {
    text += "st.global.u32 [g+" + std::to_string(4 * r) + "], r" + std::to_string(r) + ";\n";
  }
  probe.ptx = kernel_text(text, ".shared .align 16 .b8 tile[1024];");
  return probe;
}

Probe store_probe(uint32_t count, const std::string& trans) {
  Probe probe;
  probe.name = "stmatrix.x" + std::to_string(count) + trans;
  probe.input = tile_and_rows();
  probe.output_words = kTileWords;
  probe.ptx = kernel_text(std::string(kTileText) + R"(
.reg .b32 z;
mov.u32 z, 0xaaaaaaaa;
st.shared.v4.u32 [n], {z, z, z, z};
st.shared.v4.u32 [n+16], {z, z, z, z};
bar.warp.sync 0xffffffff;
mul.wide.u32 i, t, 4;
add.u64 g, in, i;
ld.global.u32 n, [g+1024];
add.u32 n, s, n;
stmatrix.sync.aligned.m8n8.x)" +
                              std::to_string(count) + trans + ".shared.b16 [n], " +
                              register_list("r", count) + R"(;
bar.warp.sync 0xffffffff;
mad.lo.u32 n, t, 32, s;
ld.shared.v4.u32 {r0, r1, r2, r3}, [n];
ld.shared.v4.u32 {r4, r5, r6, r7}, [n+16];
mul.wide.u32 i, t, 32;
add.u64 g, out, i;
st.global.v4.u32 [g], {r0, r1, r2, r3};
st.global.v4.u32 [g+16], {r4, r5, r6, r7};
)",
                          ".shared .align 16 .b8 tile[1024];");
  return probe;
}

// ---- mma.sync ----------------------------------------------------------------------------------

struct Shape {
  uint32_t k;
  const char* accumulator;
  ElementType a, b;
};
constexpr Shape kShapes[] = {
    {16, "f32", ElementType::kF16, ElementType::kF16},
    {8, "f32", ElementType::kF16, ElementType::kF16},
    {16, "f16", ElementType::kF16, ElementType::kF16},
    {8, "f16", ElementType::kF16, ElementType::kF16},
    {16, "f32", ElementType::kBF16, ElementType::kBF16},
    {8, "f32", ElementType::kBF16, ElementType::kBF16},
    {8, "f32", ElementType::kTF32, ElementType::kTF32},
    {4, "f32", ElementType::kTF32, ElementType::kTF32},
    {32, "f32", ElementType::kE4M3, ElementType::kE4M3},
    {32, "f32", ElementType::kE4M3, ElementType::kE5M2},
    {32, "f32", ElementType::kE5M2, ElementType::kE4M3},
    {32, "f32", ElementType::kE5M2, ElementType::kE5M2},
    {16, "s32", ElementType::kS8, ElementType::kS8},
    {32, "s32", ElementType::kS8, ElementType::kS8},
    {32, "s32", ElementType::kU8, ElementType::kS8},
    {32, "s32", ElementType::kS8, ElementType::kU8},
    {16, "s32", ElementType::kU8, ElementType::kU8},
};

/// Of a sum of at most 33 terms of at most 16: the tensor core aligns them to the largest and cuts
/// them off there, at 2^-13 of it for 8-bit floats, 2^-23 for others.
Tolerance product_tolerance(const Shape& s) {
  const bool tiny = s.a == ElementType::kE4M3 || s.a == ElementType::kE5M2;
  const std::string type = s.accumulator;
  if (type == "s32") return {};
  if (type == "f16") return {Format::kFloat16, 2, 0x1p-8};
  return {Format::kFloat32, 0, tiny ? 0x1p-6 : 0x1p-15};
}

Probe mma_probe(const Shape& s, Numbers numbers) {
  const uint32_t b = s.k * size_of(s.a) / 16, a = 2 * b;
  const uint32_t c = std::string(s.accumulator) == "f16" ? 2 : 4, all = a + b + c;
  Probe probe;
  probe.name = "mma.m16n8k" + std::to_string(s.k) + "." + s.accumulator + "." + name_of(s.a) + "." +
               name_of(s.b) + (numbers == Numbers::kReal ? "/real" : "/exact");
  probe.output_words = 32 * c;
  if (numbers == Numbers::kReal) probe.tolerance = product_tolerance(s);
  Random random(7);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (const auto& part :
         {operand_words(s.a, a, numbers, random), operand_words(s.b, b, numbers, random),
          accumulator_words(s.accumulator, c, numbers, random)}) {
      probe.input.insert(probe.input.end(), part.begin(), part.end());
    }
  }
  std::string text = ".reg .b32 r<16>, d<4>;\n.reg .b64 g, i;\nmul.wide.u32 i, t, " +
                     std::to_string(4 * all) + ";\nadd.u64 g, in, i;\n";
  for (uint32_t r = 0; r < all; ++r) {
    text += "ld.global.b32 r" + std::to_string(r) + ", [g+" + std::to_string(4 * r) + "];\n";
  }
  // PTX wants .f32 registers for float32 accumulators; .b32 ones fit every type.
  text += "mma.sync.aligned.m16n8k" + std::to_string(s.k) + ".row.col." + s.accumulator + "." +
          name_of(s.a) + "." + name_of(s.b) + "." + s.accumulator + " " + register_list("d", c) +
          ", " + register_list("r", a) + ", " + register_list("r", b, a) + ", " +
          register_list("r", c, a + b) + ";\nmul.wide.u32 i, t, " + std::to_string(4 * c) +
          ";\nadd.u64 g, out, i;\n";
  for (uint32_t r = 0; r < c; ++r) {
    text += "st.global.b32 [g+" + std::to_string(4 * r) + "], d" + std::to_string(r) + ";\n";
  }
  probe.ptx = kernel_text(text);
  return probe;
}

}  // namespace

std::vector<Probe> matrix_probes() {
  std::vector<Probe> probes;
  for (const char* trans : {"", ".trans"}) {
    for (const uint32_t count : {1u, 2u, 4u}) {
      probes.push_back(load_probe(count, trans));
      probes.push_back(store_probe(count, trans));
    }
  }
  for (const Shape& shape : kShapes) {
    probes.push_back(mma_probe(shape, Numbers::kExact));
    probes.push_back(mma_probe(shape, Numbers::kReal));
  }
  return probes;
}

}  // namespace fa4::emulator::probes
