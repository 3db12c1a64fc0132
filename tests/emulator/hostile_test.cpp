// SPDX-License-Identifier: BSD-3-Clause
// PTX that nobody meant: whatever the text, the launch and the memory, the answer is a result or an
// error, never a crash, a hang or memory without bound.
//
// FA4_HOSTILE=N does N times as much, FA4_HOSTILE_SEED=S draws from S. Every case has a seed of its
// own, which a crash prints.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>

#include "emulator/kernels/tensor_gemm.h"
#include "emulator/mutants/victim.h"
#include "emulator/ptx_kernel.h"
#include "emulator/tensor_map.h"
#include "gpu/jit/nvrtc.h"

namespace fa4::emulator::test {
namespace {

using Random = std::mt19937_64;

/// What runs now, for the handler below.
char g_case[256];

void tell_case(int signal) {
  const ssize_t written = write(STDERR_FILENO, g_case, std::strlen(g_case));
  std::signal(signal, SIG_DFL);
  std::raise(written < 0 ? SIGABRT : signal);
}

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Hostile : public testing::Test {
 protected:
  static uint64_t seed() { return number_of("FA4_HOSTILE_SEED", 1); }

  void SetUp() override {
    std::printf("FA4_HOSTILE_SEED=%llu\n", static_cast<unsigned long long>(seed()));
    for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(s, tell_case);
    before_ = peak();
  }
  void TearDown() override {
    for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(s, SIG_DFL);
    // Variables may have 1 GiB, and so may what is resident.
    EXPECT_LT(peak() - before_, int64_t{3} << 20) << "KiB of memory";
  }

  /// Calls `attempt` with a generator for each case.
  template <class Attempt>
  static void repeat(const char* what, int times, const Attempt& attempt) {
    const uint64_t all = static_cast<uint64_t>(times) * number_of("FA4_HOSTILE", 1);
    for (uint64_t i = 0; i < all; ++i) {
      std::snprintf(g_case, sizeof g_case, "hostile case: %s, number %llu of seed %llu\n", what,
                    static_cast<unsigned long long>(i), static_cast<unsigned long long>(seed()));
      Random random(seed() * 1000003 + i);
      attempt(random);
    }
  }

 private:
  static int64_t peak() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  int64_t before_ = 0;
};

RunOptions bounded(Random& random) {
  RunOptions o;
  o.seed = random();
  o.timing = static_cast<Timing>(random() % 3);
  o.schedule = static_cast<Schedule>(random() % 2);
  o.max_instructions = 100'000;
  return o;
}

// ---- texts --------------------------------------------------------------------------------------

struct Piece {
  size_t begin, end;
};
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '%' ||
         c == '$';
}
/// Words and marks of a text.
std::vector<Piece> pieces_of(const std::string& text) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    if (std::isspace(static_cast<unsigned char>(text[at])) == 0) pieces.push_back({at, end});
    at = end;
  }
  return pieces;
}

const char* absurd_number(Random& random) {
  constexpr const char* kNumbers[] = {"0",
                                      "-1",
                                      "1",
                                      "3",
                                      "7",
                                      "1048575",
                                      "2147483647",
                                      "2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "0x7fffffffffffffff",
                                      "18446744073709551615",
                                      "99999999999999999999999",
                                      "1024",
                                      "0f7f800000",
                                      "65536",
                                      "255",
                                      "16777216",
                                      "0xffffff00",
                                      "1e308"};
  return kNumbers[random() % std::size(kNumbers)];
}

/// One to four changes: a word lost, doubled, exchanged for another, or a number for an absurd one.
std::string changed(const std::string& text, const std::vector<Piece>& pieces, Random& random) {
  std::string out = text;
  // From the end to the front, so that places stay right.
  std::vector<size_t> where(1 + random() % 4);
  for (size_t& w : where) w = random() % pieces.size();
  std::sort(where.rbegin(), where.rend());
  for (size_t i = 0; i < where.size(); ++i) {
    if (i > 0 && where[i] == where[i - 1]) continue;
    const Piece p = pieces[where[i]];
    const Piece other = pieces[random() % pieces.size()];
    const std::string mine = text.substr(p.begin, p.end - p.begin);
    const bool number = std::isdigit(static_cast<unsigned char>(mine[0])) != 0;
    std::string by;
    switch (number ? random() % 4 : random() % 3) {
      case 0:
        break;
      case 1:
        by = mine + " " + mine;
        break;
      case 2:
        by = text.substr(other.begin, other.end - other.begin);
        break;
      default:
        by = absurd_number(random);
    }
    out.replace(p.begin, p.end - p.begin, by);
  }
  return out;
}

std::string gemm_module(const Gemm& g) { return module_of(gemm_kernel(g), 5); }

TEST_F(Hostile, TruncatedTexts) {
  std::vector<std::string> texts = {gemm_module({})};
  if (gpu::jit::nvrtc_version().ok()) {
    for (const auto& victim : mutants::victims()) {
      if (victim->name().starts_with("gemm")) continue;
      const auto ptx = victim->ptx(nullptr);
      ASSERT_TRUE(ptx.ok());
      texts.push_back(*ptx);
    }
  }
  repeat("truncated", 150, [&](Random& random) {
    const std::string& text = texts[random() % texts.size()];
    const auto program = load(text.substr(0, random() % text.size()));
    EXPECT_TRUE(program.ok() || !program.status().message().empty());
  });
}

TEST_F(Hostile, RandomBytes) {
  constexpr char kLetters[] = ".{}[]();,@%!|+-<>=:\"\n\t abrx0159_/*";
  repeat("bytes", 500, [&](Random& random) {
    std::string text =
        random() % 2 == 0 ? ".version 9.0\n.target sm_90a\n.visible .entry k(){\n" : "";
    for (size_t n = random() % 200; n > 0; --n) {
      text += random() % 8 == 0 ? static_cast<char>(random())
                                : kLetters[random() % (sizeof kLetters - 1)];
    }
    const auto program = load(text);
    EXPECT_TRUE(program.ok() || !program.status().message().empty());
  });
}

/// Changed texts that still load are run, with the arguments of the right one.
void run_changed(const mutants::Victim& victim, const std::vector<Piece>& pieces,
                 const std::string& text, Random& random) {
  const auto run = victim.load(changed(text, pieces, random));
  if (run.ok()) (void)(*run)(bounded(random));
}

TEST_F(Hostile, ChangedTexts) {
  const bool compiler = gpu::jit::nvrtc_version().ok();
  for (const auto& victim : mutants::victims()) {
    const bool gemm = victim->name().starts_with("gemm");
    if (!gemm && !compiler) continue;
    const bool forward = victim->name().starts_with("forward");
    const auto text = victim->ptx(nullptr);
    ASSERT_TRUE(text.ok());
    const std::vector<Piece> pieces = pieces_of(*text);
    repeat(victim->name().c_str(), forward ? 15 : 150,
           [&](Random& random) { run_changed(*victim, pieces, *text, random); });
  }
}

// ---- sizes --------------------------------------------------------------------------------------

TEST_F(Hostile, AbsurdSizes) {
  const std::string declarations[] = {
      ".reg .b64 %r<N>;",
      ".reg .b32 %r<N>;\nmov.b32 %r1000, 1;",
      ".shared .align N .b8 s[16];",
      ".shared .b8 s[N];",
      ".local .align N .b8 s[16];\nst.local.u32 [s], 1;",
      ".local .b64 s[N];\nst.local.u32 [s], 1;",
      ".param .b64 s[N];",
      "setmaxnreg.inc.sync.aligned.u32 N;",
      "bar.sync N;",
      "bar.sync 1, N;",
      "mov.u32 %x, N;",
      ".shared .v4 .b64 s[N][N];",
      "cp.async.wait_group N;",
      "wgmma.wait_group.sync.aligned N;",
      "nanosleep.u32 N;",
  };
  const std::string globals[] = {"",
                                 ".global .b8 g[N];",
                                 ".const .b64 g[N] = {N, N};",
                                 ".global .align N .b8 g[4];",
                                 ".extern .shared .align N .b8 e[];",
                                 ".shared .b8 g[N];"};
  repeat("sizes", 600, [&](Random& random) {
    std::string body = declarations[random() % std::size(declarations)];
    std::string global = globals[random() % std::size(globals)];
    for (std::string* text : {&body, &global}) {
      for (size_t at; (at = text->find('N')) != std::string::npos;) {
        text->replace(at, 1, absurd_number(random));
      }
    }
    std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(4));
    (void)run_body(body, buffers, {.threads = {32, 1, 1}}, bounded(random), global);
  });
}

TEST_F(Hostile, AbsurdLaunches) {
  constexpr uint32_t kSizes[] = {0, 1, 2, 3, 32, 1023, 1024, 1025, 65535, 0x7fffffff, 0xffffffff};
  const auto program = load(module_of(".local .b8 x[50000];\nst.local.u32 [x], 1;\nL: bra L;"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto kernel = (*program)->find("k");
  repeat("launches", 300, [&](Random& random) {
    const auto pick = [&] { return kSizes[random() % std::size(kSizes)]; };
    LaunchConfig config;
    for (size_t i = 0; i < 3; ++i) {
      config.blocks[i] = random() % 2 == 0 ? 1 : pick();
      config.threads[i] = random() % 2 == 0 ? 1 : pick();
      config.cluster[i] = random() % 2 == 0 ? 0 : pick();
    }
    if (random() % 2 == 0) config.dynamic_shared = pick();
    std::vector<std::byte> params(random() % 3 == 0 ? random() % 20 : 8);
    EXPECT_FALSE(run(kernel, config, params, {}, bounded(random)).ok());
  });
}

/// A text of two megabytes in which everything is alive everywhere.
TEST_F(Hostile, ManyLiveRegisters) {
  const Unjudged quiet;  // nobody wrote the registers
  std::string body = ".reg .b32 %r<100000>;\n.reg .pred p;\nsetp.eq.u32 p, 0, 1;\nTOP:\n";
  for (int i = 0; i < 50000; ++i) {
    const std::string n = std::to_string(i);
    body += "@p bra L" + n + ";\nadd.u32 %r" + n + ", %r" + n + ", 1;\nL" + n + ":\n";
  }
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(4));
  RunOptions options;
  options.max_instructions = 1'000'000;
  EXPECT_EQ(run_body(body + "@p bra TOP;", buffers, {.threads = {32, 1, 1}}, options).error, "");
}

TEST_F(Hostile, TooMuchForOneMachine) {
  // 16 CTAs of 1024 threads with half a megabyte of local memory each: 16 GiB for two clusters.
  const auto program = load(module_of(".local .b8 x[500000];\nst.local.u32 [x], 1;"));
  ASSERT_TRUE(program.ok());
  LaunchConfig config{.blocks = {64, 1, 1}, .threads = {1024, 1, 1}, .cluster = {16, 1, 1}};
  const auto ran = run((*program)->find("k"), config, std::vector<std::byte>(8), {});
  EXPECT_NE(ran.status().message().find("memory"), std::string::npos) << ran.status().message();
}

// ---- wild values --------------------------------------------------------------------------------

/// Instructions with A, B: 64-bit, a, b: 32-bit values that may be anything.
const char* const kWild[] = {
    "ld.global.u32 c, [A];",
    "ld.u64 C, [A];",
    "ld.global.v4.u32 {c, d, a, b}, [A];",
    "st.u8 [A], c;",
    "st.global.v2.u64 [A], {C, C};",
    "ld.shared.u32 c, [a];",
    "st.shared.v4.u32 [a], {c, c, c, c};",
    "ld.local.u32 c, [a];",
    "st.shared::cluster.u32 [a], c;",
    "ld.param.u64 C, [A];",
    "atom.add.u32 c, [A], a;",
    "atom.shared.cas.b64 C, [a], B, A;",
    "red.global.add.f32 [A], e;",
    "mbarrier.init.shared::cta.b64 [a], b;",
    "mbarrier.arrive.shared::cta.b64 C, [a];",
    "mbarrier.arrive.expect_tx.shared::cta.b64 C, [a], b;",
    "mbarrier.try_wait.parity.shared::cta.b64 p, [a], b;",
    "mbarrier.test_wait.shared::cta.b64 p, [a], B;",
    "mbarrier.init.shared::cta.b64 [BAR], 1;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 C, [BAR], b;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 C, [BAR], a;",
    "cp.async.ca.shared.global [a], [A], 16;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [BOX], [A], b, [BAR];",
    "cp.async.bulk.global.shared::cta.bulk_group [A], [a], b;\n"
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [A], [a], b;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [BOX], [A, "
    "{a, b}], [BAR];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [MAP, {a, b}], [BOX];",
    "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [BOX], [MAP, "
    "{a, b, c}], [BAR];",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [MAP, {a}], [BOX];",
    "prefetch.tensormap [A];",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {c, d, b, a}, [a];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [a], {c};",
    "mapa.shared::cluster.u32 c, a, b;",
    "ld.shared::cluster.u32 c, [a];",
    "bar.sync a, b;",
    "bar.arrive a, b;",
    "setp.eq.u32 p, a, b;\n@p exit;\nbar.sync 0;",
    "shfl.sync.idx.b32 c, a, b, c, d;",
    "vote.sync.ballot.b32 c, p, a;",
    "redux.sync.add.u32 c, a, b;",
    "shl.b32 c, a, b;\nshr.s64 C, A, b;",
    "div.s32 c, a, b;\nrem.s64 C, A, B;",
    "prmt.b32 c, a, b, d;",
    "bfe.s64 C, A, a, b;\nbfi.b32 c, a, b, a, b;",
    "wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {e, f, g, h}, A, B, 1, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [BOX], b;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [BOX], 64;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [a], A, B, b, 1;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [BOX], 512;\n"
    "tcgen05.mma.cta_group::1.kind::f8f6f4 [a], [b], B, c, 0;",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {c, d}, [a];",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [BOX], 32;\n"
    "tcgen05.st.sync.aligned.16x64b.x1.b32 [a], {c};",
    "tcgen05.cp.cta_group::1.128x256b [a], B;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 a, b;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [a];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [a], "
    "[BAR];",
    "L: bra L;",
    "L: mbarrier.try_wait.parity.shared::cta.b64 p, [BAR], 1;\n@p bra L;",
    "nanosleep.u32 a;",
};

uint64_t wild(Random& random, uint64_t near) {
  switch (random() % 6) {
    case 0:
      return random();
    case 1:
      return uint64_t{1} << (random() % 64);
    case 2:
      return near + random() % 64 - 16;
    case 3:
      return random() % 256;
    case 4:
      return 0xffffffff - random() % 64;
    default:
      return 1024 + random() % 4096;
  }
}

std::string wild_body(const char* instruction) {
  return std::string(R"(
    .reg .b64 P, A, B, C, MAP;
    .reg .b32 a, b, c, d, BOX, BAR;
    .reg .f32 e, f, g, h;
    .reg .pred p;
    .shared .align 1024 .b8 box[2048];
    .shared .align 8 .b64 bar;
    ld.param.u64 P, [p0];
    ld.param.u64 MAP, [p1];
    ld.global.u64 A, [P];
    ld.global.u64 B, [P+8];
    cvt.u32.u64 a, A;
    cvt.u32.u64 b, B;
    mov.u32 c, 1;
    mov.u32 d, 2;
    mov.b64 C, 3;
    mov.f32 e, 0f00000000;
    mov.f32 f, e;
    mov.f32 g, e;
    mov.f32 h, e;
    setp.eq.u32 p, c, d;
    mov.u32 BOX, box;
    mov.u32 BAR, bar;
  )") + instruction;
}

TEST_F(Hostile, EveryWildInstructionIsKnown) {
  for (const char* instruction : kWild) {
    EXPECT_EQ(load_error(wild_body(instruction), 2), "") << instruction;
  }
}

TEST_F(Hostile, WildAddressesAndDescriptors) {
  repeat("wild", 3000, [&](Random& random) {
    const char* instruction = kWild[random() % std::size(kWild)];
    std::vector<std::vector<uint32_t>> buffers(2, std::vector<uint32_t>(64));
    const auto near = reinterpret_cast<uint64_t>(buffers[random() % 2].data());
    const uint64_t values[] = {wild(random, near), wild(random, near)};
    std::memcpy(buffers[0].data(), values, sizeof values);
    // A tensor map of noise, or of little but zeros.
    const bool noise = random() % 2 == 0;
    for (uint32_t& word : buffers[1]) {
      word = noise || random() % 8 == 0 ? static_cast<uint32_t>(random()) : 0;
    }
    const LaunchConfig config{.threads = {random() % 2 == 0 ? 128u : 1u, 1, 1}};
    (void)run_body(wild_body(instruction), buffers, config, bounded(random));
  });
}

/// Each bit of a good tensor map turned over.
TEST_F(Hostile, DamagedTensorMaps) {
  std::vector<uint32_t> data(64 * 64);
  TensorMapSpec spec;
  spec.address = reinterpret_cast<uint64_t>(data.data());
  spec.type = MapType::kF32;
  spec.rank = 2;
  spec.dims = {64, 64, 1, 1, 1};
  spec.strides = {0, 256, 0, 0, 0};
  spec.box = {32, 8, 1, 1, 1};
  const auto bytes = encode_tensor_map(spec);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const std::string body = wild_body(
      "setp.ne.u32 p, %tid.x, 0;\n@p exit;\nmbarrier.init.shared::cta.b64 [BAR], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [BAR], 1024;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [BOX], "
      "[MAP, {a, b}], [BAR];\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [BAR], 0;\n@!p bra "
      "L;");
  repeat("maps", 1024, [&](Random& random) {
    std::vector<std::vector<uint32_t>> buffers(2, std::vector<uint32_t>(32));
    std::memcpy(buffers[1].data(), bytes->data(), bytes->size());
    for (size_t n = random() % 3; n > 0; --n) {
      buffers[1][random() % 32] ^= 1u << (random() % 32);
    }
    buffers[0][0] = static_cast<uint32_t>(wild(random, 0));
    // The data is declared too: a right map copies.
    buffers.push_back(data);
    (void)run_body(body, buffers, {.threads = {32, 1, 1}}, bounded(random));
  });
}

TEST_F(Hostile, LoopsEnd) {
  for (const char* body :
       {"L: bra L;", ".reg .pred p;\nsetp.eq.u32 p, 0, 1;\nL: @p ret;\nbra L;",
        ".reg .b32 a;\nmov.u32 a, 0;\nL: nanosleep.u32 100;\nadd.u32 a, a, 1;\nbra L;",
        "L: bar.sync 0;\nbra L;"}) {
    std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(4));
    RunOptions options;
    options.max_instructions = 10'000;
    const Ran ran = run_body(body, buffers, {.threads = {64, 1, 1}}, options);
    EXPECT_NE(ran.error.find("no end after"), std::string::npos) << body << ": " << ran.error;
  }
}

}  // namespace
}  // namespace fa4::emulator::test
