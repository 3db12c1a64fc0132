// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/kernels/tensor_gemm.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

constexpr uint32_t kLanesOfMemory = 128;
constexpr uint32_t kColumnOfD = 32;  ///< Not 0, so that a lost base address shows.
constexpr uint32_t kColumnOfA = 320;
constexpr uint32_t kUnused = 0x7fc1dead;  ///< A NaN.

uint32_t depth_of(const Gemm& g) { return g.steps * 32 / bytes_of(g.a); }

SharedLayout layout_of_a(const Gemm& g) {
  return {g.m / g.group, depth_of(g), bytes_of(g.a), g.a_mn_major, g.a_swizzle};
}
SharedLayout layout_of_b(const Gemm& g) {
  return {g.n / g.group, depth_of(g), bytes_of(g.b), g.b_mn_major, g.b_swizzle};
}

/// Where D's element (m, n) lies.
struct Place {
  uint32_t cta, lane, column;
};
Place place_of(const Gemm& g, uint32_t m, uint32_t n) {
  if (g.group == 1 && g.m == 64) return {0, m / 16 * 32 + m % 16 + g.lane, n};
  if (g.group == 2 && g.m == 128) {
    const bool upper = n >= g.n / 2;
    return {m / 64, m % 64 + (upper ? 64 : 0), upper ? n - g.n / 2 : n};
  }
  return {m / 128, m % 128, n};
}

/// A as 32-bit cells [cta][lane][column]; where no row lies there are NaNs.
std::vector<uint32_t> make_tensor_image(const Gemm& g, const Matrix& a) {
  const uint32_t columns = g.steps * 8, size = bytes_of(g.a), per_cell = 4 / size;
  std::vector<uint32_t> image(size_t{g.group} * kLanesOfMemory * columns, kUnused);
  for (uint32_t m = 0; m < g.m; ++m) {
    // 128 rows in a pair stand in both halves of the lanes.
    for (const uint32_t n : {0u, g.n - 1}) {
      const Place p = place_of(g, m, n);
      uint32_t* row = &image[(size_t{p.cta} * kLanesOfMemory + p.lane) * columns];
      for (uint32_t c = 0; c < columns; ++c) {
        row[c] = 0;
        for (uint32_t i = 0; i < per_cell; ++i) {
          row[c] |= encode(g.a, a.at(m, c * per_cell + i)) << (8 * size * i);
        }
      }
    }
  }
  return image;
}

// ---- the kernel --------------------------------------------------------------------------------

uint32_t instruction_descriptor(const Gemm& g) {
  constexpr uint32_t kCodes[] = {0, 1, 2, 0, 1, 0, 1};
  return (g.saturate ? 1u << 3 : 0) | static_cast<uint32_t>(g.d) << 4 |
         kCodes[static_cast<int>(g.a)] << 7 | kCodes[static_cast<int>(g.b)] << 10 |
         (g.negate_a ? 1u << 13 : 0) | (g.negate_b ? 1u << 14 : 0) | (g.a_mn_major ? 1u << 15 : 0) |
         (g.b_mn_major ? 1u << 16 : 0) | g.n / 8 << 17 | g.m / 16 << 24;
}

const char* kind_of(Element e) {
  switch (e) {
    case Element::kF16:
    case Element::kBF16:
      return "kind::f16";
    case Element::kTF32:
      return "kind::tf32";
    case Element::kE4M3:
    case Element::kE5M2:
      return "kind::f8f6f4";
    default:
      return "kind::i8";
  }
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

/// An operand's bytes into shared memory.
constexpr char kCopy[] = R"(    shl.b32 i, tid, 2;
COPY_OPERAND:
    setp.ge.u32 p, i, OPERAND_BYTES;
    @p bra COPIED_OPERAND;
    cvt.u64.u32 T, i;
    add.u64 U, POPERAND, T;
    ld.global.u32 v, [U];
    add.u32 a, smem_operand, i;
    st.shared.u32 [a], v;
    add.u32 i, i, 512;
    bra COPY_OPERAND;
COPIED_OPERAND:
)";

/// Buffers: A's image in shared memory, B's, descriptors of A and B by step, A's image in tensor
/// memory, D's cells.
constexpr char kKernel[] = R"(
    .reg .b64 PA, PB, PD, PT, PO, T, U, DA, DB;
    .reg .b32 tid, warp, rank, own, base, a, v, i, x, smem_a, smem_b, bar, d_tmem, a_tmem;
    .reg .pred p, first, leader, more, done, accumulate, even;
    .shared .align 1024 .b8 sa[A_BYTES];
    .shared .align 1024 .b8 sb[B_BYTES];
    .shared .align 8 .b64 barrier;
    .shared .align 4 .b32 slot;
    ld.param.u64 PA, [p0];
    ld.param.u64 PB, [p1];
    ld.param.u64 PD, [p2];
    ld.param.u64 PT, [p3];
    ld.param.u64 PO, [p4];
    mov.u32 tid, %tid.x;
    shr.u32 warp, tid, 5;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 smem_a, sa;
    mov.u32 smem_b, sb;
    mov.u32 bar, barrier;
    setp.eq.u32 first, warp, 0;
    setp.eq.u32 leader, tid, 0;
    setp.eq.u32 even, rank, 0;
    @!first bra ALLOCATED;
    tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [slot], 512;
    @leader mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
ALLOCATED:
    // The operands' bytes, word by word.
    mul.wide.u32 T, rank, A_BYTES;
    add.u64 PA, PA, T;
    mul.wide.u32 T, rank, B_BYTES;
    add.u64 PB, PB, T;
COPIES
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 base, [slot];
    shl.b32 own, warp, 21;
    add.u32 own, own, base;
    // D's columns hold INITIAL, A's its image.
    mov.u32 v, INITIAL;
    mov.u32 i, 0;
FILL:
    add.u32 a, own, i;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [a], {v};
    add.u32 i, i, 1;
    setp.lt.u32 more, i, COLUMN_OF_A;
    @more bra FILL;
    mul.wide.u32 T, rank, T_BYTES;
    add.u64 PT, PT, T;
    mul.wide.u32 T, tid, T_ROW;
    add.u64 PT, PT, T;
    mov.u32 i, 0;
LOAD_A:
    setp.ge.u32 p, i, COLUMNS_OF_A;
    @p bra LOADED_A;
    ld.global.u32 v, [PT];
    add.u64 PT, PT, 4;
    add.u32 a, own, i;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [a+COLUMN_OF_A], {v};
    add.u32 i, i, 1;
    bra LOAD_A;
LOADED_A:
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    SYNCHRONISE
    tcgen05.fence::after_thread_sync;
    @!leader bra ISSUED;
    @!even bra ISSUED;
    add.u32 d_tmem, base, D_ADDRESS;
    add.u32 a_tmem, base, A_ADDRESS;
    shr.u32 a, smem_a, 4;
    cvt.u64.u32 T, a;
    shr.u32 a, smem_b, 4;
    cvt.u64.u32 U, a;
STEPS
    tcgen05.commit.cta_group::GROUP.mbarrier::arrive::one.shared::clusterCOMMIT;
ISSUED:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;
    @!done bra ISSUED;
    tcgen05.fence::after_thread_sync;
    // All of D's columns.
    mul.wide.u32 T, rank, O_BYTES;
    add.u64 PO, PO, T;
    mul.wide.u32 T, tid, O_ROW;
    add.u64 PO, PO, T;
    mov.u32 i, 0;
DUMP:
    add.u32 a, own, i;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [a];
    st.global.u32 [PO], v;
    add.u64 PO, PO, 4;
    add.u32 i, i, 1;
    setp.lt.u32 more, i, COLUMN_OF_A;
    @more bra DUMP;
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    SYNCHRONISE
    @!first bra FREED;
    tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 base, 512;
FREED:
)";

/// One product: loads the descriptors of the step and adds the bases.
std::string step_text(const Gemm& g, uint32_t step) {
  const auto text = [](uint32_t x) { return std::to_string(x); };
  std::string s = "    ld.global.u64 DA, [PD+" + text(16 * step) + "];\n    ld.global.u64 DB, [PD+";
  s += text(16 * step + 8) + "];\n    add.u64 DA, DA, T;\n    add.u64 DB, DB, U;\n    setp.";
  s += step > 0 || g.accumulate ? "eq" : "ne";
  s += ".u32 accumulate, 0, 0;\n    mov.u32 x, " + text(instruction_descriptor(g));
  s += ";\n    tcgen05.mma.cta_group::" + text(g.group) + "." + kind_of(g.a) + " [d_tmem], ";
  s += g.a_in_tensor ? "[a_tmem+" + text(8 * step) + "]" : std::string("DA");
  s += ", DB, x, ";
  for (size_t i = 0; i < g.disabled.size(); ++i) {
    s += (i == 0 ? "{" : ", ") + text(g.disabled[i]);
  }
  if (!g.disabled.empty()) s += "}, ";
  s += "accumulate";
  if (g.scale > 0 && step == 0) s += ", " + text(g.scale);
  return s + ";\n";
}

uint32_t initial_cell(const Gemm& g) {
  switch (g.d) {
    case Result::kF16:
      return encode(Element::kF16, 3);
    case Result::kF32:
      return std::bit_cast<uint32_t>(3.0f);
    default:
      return 3;
  }
}

std::string kernel_text(const Gemm& g, uint32_t a_bytes, uint32_t b_bytes) {
  std::string steps;
  for (uint32_t s = 0; s < g.steps; ++s) steps += step_text(g, s);
  std::string k = kKernel, copies;
  for (const char* name : {"A", "B"}) {
    copies += kCopy;
    replace_all(copies, "OPERAND", name);
    replace_all(copies, "operand", name[0] == 'A' ? "a" : "b");
  }
  replace_all(k, "COPIES\n", copies);
  replace_all(k, "STEPS\n", steps);
  replace_all(k, "COMMIT", g.group == 2 ? ".multicast::cluster.b64 [bar], 3" : ".b64 [bar]");
  replace_all(k, "SYNCHRONISE",
              g.group == 2 ? "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
                           : "bar.sync 0;");
  const uint32_t columns = g.steps * 8;
  const std::pair<const char*, uint32_t> numbers[] = {{"GROUP", g.group},
                                                      {"A_BYTES", a_bytes},
                                                      {"B_BYTES", b_bytes},
                                                      {"INITIAL", initial_cell(g)},
                                                      {"COLUMNS_OF_A", g.a_in_tensor ? columns : 0},
                                                      {"COLUMN_OF_A", kColumnOfA},
                                                      {"T_BYTES", kLanesOfMemory * columns * 4},
                                                      {"T_ROW", columns * 4},
                                                      {"O_BYTES", kLanesOfMemory * kColumnOfA * 4},
                                                      {"O_ROW", kColumnOfA * 4},
                                                      {"D_ADDRESS", g.lane << 16 | kColumnOfD},
                                                      {"A_ADDRESS", g.lane << 16 | kColumnOfA}};
  for (const auto& [name, value] : numbers) replace_all(k, name, std::to_string(value));
  return k;
}

// ---- the result --------------------------------------------------------------------------------

/// Of a number that float16 holds as a normal one.
uint32_t float16_of(double x) {
  if (x == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);  // in [0.5, 1)
  return (x < 0 ? 0x8000u : 0) | static_cast<uint32_t>(exponent + 14) << 10 |
         static_cast<uint32_t>((2 * fraction - 1) * 1024);
}

uint32_t result_cell(const Gemm& g, const Matrix& a, const Matrix& b, uint32_t m, uint32_t n) {
  double sum = 0;
  for (uint32_t k = 0; k < a.depth; ++k) sum += a.at(m, k) * b.at(n, k);
  if (g.negate_a != g.negate_b) sum = -sum;
  if (g.accumulate) sum += 3.0 / (1u << g.scale);
  if (sum == 0) return 0;
  switch (g.d) {
    case Result::kF16:
      return float16_of(sum);
    case Result::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(sum));
    default:
      return static_cast<uint32_t>(static_cast<int64_t>(sum));
  }
}

bool is_disabled(const Gemm& g, const Place& p) {
  if (g.disabled.empty()) return false;
  return (g.disabled[4 * p.cta + p.lane / 32] >> (p.lane % 32) & 1) != 0;
}

/// Zeros of either sign are equal.
bool equal(const Gemm& g, uint32_t got, uint32_t want) {
  if (want != 0) return got == want;
  return got == 0 || (g.d == Result::kF32 && got == 0x80000000) ||
         (g.d == Result::kF16 && got == 0x8000);
}

void compare(const Gemm& g, const Matrix& a, const Matrix& b, const std::vector<uint32_t>& cells,
             GemmRun& run) {
  std::vector<uint32_t> want(cells.size(), initial_cell(g));
  std::vector<bool> covered(cells.size());
  for (uint32_t m = 0; m < g.m; ++m) {
    for (uint32_t n = 0; n < g.n; ++n) {
      const Place p = place_of(g, m, n);
      if (is_disabled(g, p)) continue;
      const size_t lane = size_t{p.cta} * kLanesOfMemory + p.lane;
      const size_t at = lane * kColumnOfA + kColumnOfD + p.column;
      want[at] = result_cell(g, a, b, m, n);
      covered[at] = true;
    }
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (equal(g, cells[i], want[i])) continue;
    ++(covered[i] ? run.wrong : run.touched);
    if (!run.first.empty()) continue;
    run.first = "lane " + std::to_string(i / kColumnOfA) + ", column " +
                std::to_string(i % kColumnOfA) + ": " + hex(cells[i]) + ", not " + hex(want[i]);
  }
}

std::vector<uint32_t> words(const std::vector<uint8_t>& bytes) {
  std::vector<uint32_t> w((bytes.size() + 3) / 4);
  std::memcpy(w.data(), bytes.data(), bytes.size());
  return w;
}

}  // namespace

std::string name_of(const Gemm& g) {
  std::string s = std::string(name_of(g.a)) + "_" + name_of(g.b) + "_m" + std::to_string(g.m) +
                  "_n" + std::to_string(g.n) + "_group" + std::to_string(g.group);
  s += g.a_in_tensor ? "_ta" : std::string(g.a_mn_major ? "_am_" : "_ak_") + name_of(g.a_swizzle);
  s += std::string(g.b_mn_major ? "_bn_" : "_bk_") + name_of(g.b_swizzle);
  if (g.lane != 0) s += "_lane" + std::to_string(g.lane);
  if (g.d == Result::kF16) s += "_to_f16";
  if (g.negate_a) s += "_nega";
  if (g.negate_b) s += "_negb";
  if (g.saturate) s += "_sat";
  if (g.accumulate) s += "_acc";
  if (g.scale != 0) s += "_scale" + std::to_string(g.scale);
  if (!g.disabled.empty()) s += "_disabled" + std::to_string(g.disabled[0]);
  return s;
}

std::string gemm_kernel(const Gemm& g) {
  return kernel_text(g, layout_of_a(g).bytes(), layout_of_b(g).bytes());
}

GemmRun run_gemm(const Gemm& g, const RunOptions& options) {
  return run_gemm(g, gemm_kernel(g), options);
}

GemmRun run_gemm(const Gemm& g, const std::string& kernel, const RunOptions& options) {
  const uint32_t depth = depth_of(g);
  const Matrix a = make_matrix(g.m, depth, g.a, 1), b = make_matrix(g.n, depth, g.b, 2);
  const SharedLayout la = layout_of_a(g), lb = layout_of_b(g);
  std::vector<uint8_t> a_bytes, b_bytes;
  for (uint32_t cta = 0; cta < g.group; ++cta) {
    const auto ia = image_of(a, cta * la.rows, la, g.a), ib = image_of(b, cta * lb.rows, lb, g.b);
    a_bytes.insert(a_bytes.end(), ia.begin(), ia.end());
    b_bytes.insert(b_bytes.end(), ib.begin(), ib.end());
  }
  std::vector<uint32_t> descriptors;
  for (uint32_t s = 0; s < g.steps; ++s) {
    for (const uint64_t x : {la.descriptor(s), lb.descriptor(s)}) {
      descriptors.push_back(static_cast<uint32_t>(x));
      descriptors.push_back(static_cast<uint32_t>(x >> 32));
    }
  }
  std::vector<std::vector<uint32_t>> buffers = {
      words(a_bytes), words(b_bytes), descriptors, make_tensor_image(g, a),
      std::vector<uint32_t>(size_t{g.group} * kLanesOfMemory * kColumnOfA, 0xcccccccc)};
  const LaunchConfig config{
      .blocks = {g.group, 1, 1}, .threads = {128, 1, 1}, .cluster = {g.group, 1, 1}};
  const Ran ran = run_body(kernel, buffers, config, options);
  GemmRun result;
  result.error = ran.error;
  result.tally = ran.tally;
  if (ran.error.empty()) compare(g, a, b, buffers[4], result);
  return result;
}

}  // namespace fa4::emulator::test
