// SPDX-License-Identifier: BSD-3-Clause
// wgmma: PTX ISA 9.7.15. Shared memory holds numbers everywhere, so that a descriptor that finds
// others than the hardware's gives another product.
#include <string>

#include "emulator/probes/operand_words.h"
#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kBytesA = 16384, kBytesB = 24576;
constexpr uint32_t kWordsA = kBytesA / 4, kWordsB = kBytesB / 4;
constexpr uint32_t kThreads = 128;
/// In the input, in bytes: shared memory, A's registers, the accumulators' first values.
constexpr uint32_t kRegistersAt = kBytesA + kBytesB, kAccumulatorsAt = kRegistersAt + 16 * kThreads;
constexpr uint32_t kFirstValues = 16;  ///< A lane; accumulators take them in turn.

struct Product {
  uint32_t n;
  const char* accumulator;
  ElementType a, b;
  Swizzle swizzle = Swizzle::k128;
  bool a_in_registers = false;
  bool a_m_major = false, b_n_major = false;
  uint32_t step = 0;  ///< Bytes by which the operands begin behind the pattern's begin.
  bool adds = true;
  int sign_a = 1, sign_b = 1;
  Numbers numbers = Numbers::kExact;
};

/// Everything of a descriptor but the address.
uint64_t descriptor(const Product& p, bool mn_major) {
  const uint64_t span = 16u << static_cast<int>(p.swizzle);
  constexpr uint64_t kModes[] = {0, 3, 2, 1};
  uint64_t leading = 16, stride = 8 * span;
  if (p.swizzle == Swizzle::kOff) {
    // Matrices of 8 rows of 16 bytes, two along K.
    leading = 128;
    stride = 256;
  } else if (mn_major) {
    leading = 16 * span;  // of 16 rows of K
  }
  return kModes[static_cast<int>(p.swizzle)] << 62 | (stride >> 4) << 32 | (leading >> 4) << 16;
}

std::string name_of(const Product& p) {
  constexpr const char* kSwizzles[] = {"plain", "32B", "64B", "128B"};
  std::string name = "wgmma.m64n" + std::to_string(p.n) + "." + p.accumulator + "." +
                     probes::name_of(p.a) + "." + probes::name_of(p.b) + "/" +
                     kSwizzles[static_cast<int>(p.swizzle)];
  if (p.a_in_registers) name += "-registers";
  if (p.a_m_major) name += "-ma";
  if (p.b_n_major) name += "-nb";
  if (p.step != 0) name += "-step" + std::to_string(p.step);
  if (!p.adds) name += "-alone";
  if (p.sign_a < 0) name += "-a";
  if (p.sign_b < 0) name += "-b";
  return name + (p.numbers == Numbers::kReal ? "/real" : "/exact");
}

/// The product and what surrounds it.
std::string product_text(const Product& p, uint32_t registers) {
  const bool whole = std::string(p.accumulator) == "s32";
  const std::string a = probes::name_of(p.a), b = probes::name_of(p.b);
  std::string text = "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(p.n) + "k" + std::to_string(k_of(p.a)) + "." + p.accumulator +
                     "." + a + "." + b + " " + register_list("d", registers) + ", " +
                     (p.a_in_registers ? register_list("x", 4) : "da") + ", db, p";
  if (!whole) text += ", " + std::to_string(p.sign_a) + ", " + std::to_string(p.sign_b);
  if (size_of(p.a) == 2) {
    if (!p.a_in_registers) text += p.a_m_major ? ", 1" : ", 0";
    text += p.b_n_major ? ", 1" : ", 0";
  }
  return text +
         ";\nwgmma.commit_group.sync.aligned;\n"
         "wgmma.wait_group.sync.aligned 0;\n";
}

std::string fill_text() {
  return R"(
mov.u32 s, tile;
mov.u32 n, t;
fill:
mul.wide.u32 i, n, 16;
add.u64 g, in, i;
ld.global.v4.u32 {x0, x1, x2, x3}, [g];
mad.lo.u32 m, n, 16, s;
st.shared.v4.u32 [m], {x0, x1, x2, x3};
add.u32 n, n, 128;
setp.lt.u32 p, n, )" +
         std::to_string(kRegistersAt / 16) + R"(;
@p bra fill;
fence.proxy.async.shared::cta;
bar.sync 0;
)";
}

std::string descriptor_text(const char* name, uint32_t offset, uint64_t upper) {
  return std::string("add.u32 n, s, ") + std::to_string(offset) +
         ";\nshr.u32 n, n, 4;\nand.b32 n, n, 0x3fff;\ncvt.u64.u32 " + name + ", n;\nor.b64 " +
         name + ", " + name + ", " + std::to_string(upper) + "U;\n";
}

/// Terms of at most about 16; see mma.sync's probes.
Tolerance tolerance_of(const Product& p) {
  if (p.numbers == Numbers::kExact || std::string(p.accumulator) == "s32") return {};
  if (std::string(p.accumulator) == "f16") return {Format::kFloat16, 2, 0x1p-8};
  return {Format::kFloat32, 0, k_of(p.a) == 32 ? 0x1p-6 : 0x1p-15};
}

Probe probe_of(const Product& p) {
  const uint32_t registers = std::string(p.accumulator) == "f16" ? p.n / 4 : p.n / 2;
  Probe probe;
  probe.name = name_of(p);
  probe.threads = kThreads;
  probe.output_words = kThreads * registers;
  probe.keep = p.numbers == Numbers::kReal ? 1024 : 32;
  probe.tolerance = tolerance_of(p);
  Random random(11);
  for (const auto& part :
       {operand_words(p.a, kWordsA, p.numbers, random),
        operand_words(p.b, kWordsB, p.numbers, random),
        operand_words(p.a, 4 * kThreads, p.numbers, random),
        accumulator_words(p.accumulator, kFirstValues * kThreads, p.numbers, random)}) {
    probe.input.insert(probe.input.end(), part.begin(), part.end());
  }
  std::string text =
      ".reg .b32 s, n, m, x<4>, d<128>;\n.reg .b64 g, i, da, db;\n.reg .pred p;\n" + fill_text() +
      descriptor_text("da", p.step, descriptor(p, p.a_m_major)) +
      descriptor_text("db", kBytesA + p.step, descriptor(p, p.b_n_major)) +
      "mul.wide.u32 i, t, 16;\nadd.u64 g, in, i;\nld.global.v4.u32 {x0, x1, x2, x3}, [g+" +
      std::to_string(kRegistersAt) + "];\nmul.wide.u32 i, t, " + std::to_string(4 * kFirstValues) +
      ";\nadd.u64 g, in, i;\n";
  for (uint32_t r = 0; r < registers; ++r) {
    text += "ld.global.b32 d" + std::to_string(r) + ", [g+" +
            std::to_string(kAccumulatorsAt + 4 * (r % kFirstValues)) + "];\n";
  }
  text += std::string("setp.") + (p.adds ? "ge" : "lt") + ".s32 p, 0, 0;\n" +
          product_text(p, registers) + "mul.wide.u32 i, t, " + std::to_string(4 * registers) +
          ";\nadd.u64 g, out, i;\n";
  for (uint32_t r = 0; r < registers; ++r) {
    text += "st.global.b32 [g+" + std::to_string(4 * r) + "], d" + std::to_string(r) + ";\n";
  }
  probe.ptx =
      kernel_text(text, ".shared .align 1024 .b8 tile[" + std::to_string(kBytesA + kBytesB) + "];");
  return probe;
}

constexpr Swizzle kSwizzles[] = {Swizzle::kOff, Swizzle::k32, Swizzle::k64, Swizzle::k128};
constexpr auto kF16 = ElementType::kF16, kBF16 = ElementType::kBF16, kTF32 = ElementType::kTF32,
               kE4M3 = ElementType::kE4M3, kE5M2 = ElementType::kE5M2, kS8 = ElementType::kS8,
               kU8 = ElementType::kU8;

void add_layouts(std::vector<Product>& all) {
  for (const Swizzle swizzle : kSwizzles) {
    for (const bool a_m_major : {false, true}) {
      for (const bool b_n_major : {false, true}) {
        all.push_back({64, "f32", kBF16, kBF16, swizzle, false, a_m_major, b_n_major});
      }
    }
    all.push_back({64, "f32", kF16, kF16, swizzle, true, false, true});
    all.push_back({64, "f32", kF16, kF16, swizzle, true});
    all.push_back({32, "f32", kTF32, kTF32, swizzle});
    all.push_back({32, "f32", kE4M3, kE4M3, swizzle});
    all.push_back({32, "s32", kS8, kS8, swizzle});
  }
  for (const uint32_t step : {32u, 64u, 96u}) {
    Product p{64, "f32", kBF16, kBF16};
    p.step = step;
    all.push_back(p);
  }
}

void add_shapes(std::vector<Product>& all) {
  for (const uint32_t n : {8u, 16u, 24u, 40u, 80u, 96u, 112u, 128u, 176u, 192u}) {
    all.push_back({n, "f32", kBF16, kBF16});
  }
  all.push_back({256, "f32", kBF16, kBF16, Swizzle::k64});
  all.push_back({248, "f32", kF16, kF16, Swizzle::k32});
  all.push_back({128, "f16", kF16, kF16});
  all.push_back({24, "f16", kF16, kF16, Swizzle::k64, true});
}

void add_types(std::vector<Product>& all) {
  all.push_back({16, "f32", kE4M3, kE5M2});
  all.push_back({16, "f32", kE5M2, kE4M3});
  all.push_back({16, "f32", kE5M2, kE5M2, Swizzle::k128, true});
  all.push_back({16, "f32", kE4M3, kE4M3, Swizzle::k128, true});
  all.push_back({16, "f16", kE4M3, kE4M3});
  all.push_back({16, "f32", kTF32, kTF32, Swizzle::k128, true});
  all.push_back({16, "s32", kU8, kS8});
  all.push_back({16, "s32", kS8, kU8, Swizzle::k128, true});
  all.push_back({16, "s32", kU8, kU8});
  Product alone{64, "f32", kBF16, kBF16};
  alone.adds = false;
  all.push_back(alone);
  Product negative{64, "f32", kF16, kF16};
  negative.sign_a = -1;
  all.push_back(negative);
  negative.sign_b = -1;
  all.push_back(negative);
}

void add_real(std::vector<Product>& all) {
  std::vector<Product> real = {
      {16, "f32", kBF16, kBF16}, {16, "f32", kF16, kF16},   {16, "f16", kF16, kF16},
      {16, "f32", kTF32, kTF32}, {16, "f32", kE4M3, kE4M3}, {16, "f32", kE5M2, kE5M2},
      {16, "s32", kS8, kS8},     {16, "s32", kU8, kU8},     {16, "f32", kBF16, kBF16}};
  real.back().a_in_registers = true;
  for (Product& p : real) {
    p.numbers = Numbers::kReal;
    all.push_back(p);
  }
}

}  // namespace

std::vector<Probe> wgmma_probes() {
  std::vector<Product> all;
  add_layouts(all);
  add_shapes(all);
  add_types(all);
  add_real(all);
  std::vector<Probe> probes;
  for (const Product& p : all) probes.push_back(probe_of(p));
  return probes;
}

}  // namespace fa4::emulator::probes
