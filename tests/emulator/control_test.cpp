// SPDX-License-Identifier: BSD-3-Clause
// Calls, tables of branches, and instructions that the decoder makes of several: set, slct,
// carries.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "emulator/ptx_kernel.h"
#include "gpu/jit/nvrtc.h"

namespace fa4::emulator::test {
namespace {

/// Runs `body` in 32 lanes with functions around; the output is what each lane left in `o`.
std::vector<uint32_t> lanes_of(const std::string& body, const std::string& functions = "") {
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(32, 77));
  const Ran ran = run_body(R"(
    .reg .b64 P, Q;
    .reg .b32 t, o, x, y;
    .reg .pred p, q;
    ld.param.u64 P, [p0];
    mov.u32 t, %tid.x;
    mul.wide.u32 Q, t, 4;
    add.u64 P, P, Q;
    mov.u32 o, 99;
    )" + body + "\nst.global.u32 [P], o;",
                           buffers, {.threads = {32, 1, 1}}, {}, functions);
  EXPECT_EQ(ran.error, "");
  return buffers[0];
}

std::string error_of(const std::string& body, const std::string& functions = "") {
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(32));
  return run_body(body, buffers, {.threads = {32, 1, 1}}, {}, functions).error;
}

// ---- calls (9.7.12.5) ---------------------------------------------------------------------------

/// The larger of two, and the same of three by two calls of it; an early return in each.
constexpr char kFunctions[] = R"(
.func (.param .b32 r) larger(.param .b32 a, .param .b32 b)
{
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  setp.gt.u32 %p1, %r1, %r2;
  @!%p1 bra SECOND;
  st.param.b32 [r], %r1;
  ret;
SECOND:
  st.param.b32 [r+0], %r2;
  ret;
}
.func (.param .b32 r) largest(.param .b32 a, .param .b32 b, .param .b32 c)
{
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  ld.param.u32 %r3, [c];
  { .param .b32 x; .param .b32 y; .param .b32 z;
    st.param.b32 [x], %r1;
    st.param.b32 [y], %r2;
    call.uni (z), larger, (x, y);
    ld.param.b32 %r4, [z]; }
  { .param .b32 x; .param .b32 y; .param .b32 z;
    st.param.b32 [x], %r4;
    st.param.b32 [y], %r3;
    call.uni (z), larger, (x, y);
    ld.param.b32 %r5, [z]; }
  st.param.b32 [r], %r5;
  ret;
}
)";

TEST(Call, PassesParametersAndResults) {
  const auto out = lanes_of(R"(
    xor.b32 x, t, 21;
    { .param .b32 a; .param .b32 b; .param .b32 c; .param .b32 r;
      st.param.b32 [a], t;
      st.param.b32 [b], x;
      st.param.b32 [c], 16;
      call.uni (r), largest, (a, b, c);
      ld.param.b32 o, [r]; }
  )",
                            kFunctions);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], std::max({t, t ^ 21, 16u})) << t;
}

TEST(Call, UnderAGuard) {
  const auto out = lanes_of(R"(
    setp.lt.u32 p, t, 10;
    { .param .b32 a; .param .b32 b; .param .b32 r;
      st.param.b32 [a], t;
      st.param.b32 [b], 5;
      st.param.b32 [r], 1000;
      @p call (r), larger, (a, b);
      ld.param.b32 o, [r]; }
  )",
                            kFunctions);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 10 ? std::max(t, 5u) : 1000) << t;
}

/// Its local array, its labels and its shared variable are its own.
/// A function's return is no thread's end: what it started may go on. (The judge looks.)
TEST(Call, ReturnsWithACopyUnderWay) {
  const auto out = lanes_of(R"(
    .shared .align 16 .b32 tile[32];
    .reg .b32 at;
    mov.u32 at, tile;
    shl.b32 x, t, 2;
    add.u32 at, at, x;
    st.shared.u32 [at], t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.eq.u32 p, t, 0;
    mov.u32 at, tile;
    { .param .b64 to; .param .b32 from; .param .b32 one;
      st.param.b64 [to], P;
      st.param.b32 [from], at;
      selp.u32 x, 1, 0, p;
      st.param.b32 [one], x;
      call send, (to, from, one); }
    @p cp.async.bulk.wait_group 0;
    bar.sync 0;
    mul.lo.u32 o, t, 3;
    @p bra END;
    bra DONE;
  END:
    ld.shared.u32 x, [tile+4];
    mov.u32 o, x;
  DONE:
  )",
                            R"(.func send(.param .b64 to, .param .b32 from, .param .b32 one)
{
  .reg .b64 a;
  .reg .b32 b, c;
  .reg .pred p;
  ld.param.b64 a, [to];
  ld.param.b32 b, [from];
  ld.param.b32 c, [one];
  setp.eq.u32 p, c, 0;
  @p ret;
  cp.async.bulk.global.shared::cta.bulk_group [a], [b], 128;
  cp.async.bulk.commit_group;
  ret;
}
)");
  EXPECT_EQ(out[0], 1u);
  EXPECT_EQ(out[5], 15u);
}

TEST(Call, FunctionsHaveNamesOfTheirOwn) {
  const auto out = lanes_of(R"(
    .local .b32 a[2];
    st.local.u32 [a], 7;
    { .param .b32 v; .param .b32 w;
      st.param.b32 [v], t;
      call (w), twice, (v);
      ld.param.b32 x, [w]; }
    { .param .b32 v; .param .b32 w;
      st.param.b32 [v], x;
      call (w), twice, (v);
      ld.param.b32 x, [w]; }
    ld.local.u32 y, [a];
    bra DONE;
    mov.u32 x, 0;
DONE:
    add.u32 o, x, y;
  )",
                            R"(
.func (.param .b32 r) twice(.param .b32 v)
{
  .local .b32 a[4];
  .reg .b32 x, y;
  ld.param.u32 x, [v];
  st.local.u32 [a+12], x;
  bra DONE;
  mov.u32 x, 0;
DONE:
  ld.local.u32 y, [a+12];
  add.u32 y, x, y;
  st.param.b32 [r], y;
}
)");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], 4 * t + 7) << t;
}

TEST(Call, WithoutParameters) {
  const auto out =
      lanes_of("setp.eq.u32 p, t, 3;\n@p call leave;\nmov.u32 o, 1;", ".func leave() { exit; }");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t == 3 ? 77 : 1) << t;
}

TEST(Call, SaysWhatItCannot) {
  const std::string self = ".func f() { call f; ret; }";
  EXPECT_NE(error_of("call f;", self).find("recursive calls"), std::string::npos);
  EXPECT_NE(error_of("call nobody;").find("nobody is not declared"), std::string::npos);
  EXPECT_NE(error_of(".reg .b64 r;\ncall r;").find("indirect calls"), std::string::npos);
  const std::string two = ".func f(.param .b32 a, .param .b32 b) { ret; }";
  EXPECT_NE(error_of("{ .param .b32 x; call f, (x); }", two).find("2 arguments and 0 results; 1"),
            std::string::npos);
  EXPECT_NE(error_of(".reg .b32 r;\ncall f, (r, r);", two).find("no .param variables"),
            std::string::npos);
  // Eight levels of eight calls each: 16 million instructions.
  std::string deep = ".func f0() { .reg .b32 r; mov.u32 r, 1; ret; }\n";
  for (int i = 1; i < 9; ++i) {
    deep += ".func f" + std::to_string(i) + "() {\n";
    for (int k = 0; k < 8; ++k) deep += "call f" + std::to_string(i - 1) + ";\n";
    deep += "ret; }\n";
  }
  EXPECT_NE(error_of("call f8;", deep).find("too large"), std::string::npos);
}

TEST(Call, OfWhatTheModuleLacks) {
  const std::string externs =
      ".extern .func (.param .b32 r) malloc_like(.param .b64 n);\n"
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
      ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, "
      ".param .b64 c);\n"
      ".global .b8 message[6] = {120, 32, 62, 32, 48, 0};\n"
      ".global .b8 file[5] = {97, 46, 99, 117, 0};\n";
  const std::string unknown =
      error_of("{ .param .b64 n; .param .b32 r; st.param.b64 [n], 8; call (r), malloc_like, (n); }",
               externs);
  EXPECT_NE(unknown.find("calls malloc_like, which the module does not define"), std::string::npos)
      << unknown;
  const std::string assertion = error_of(R"(
    .reg .b64 A, B;
    .reg .pred p;
    .reg .b32 t;
    mov.u32 t, %tid.x;
    setp.ne.u32 p, t, 9;
    @p bra FINE;
    mov.u64 A, message;
    mov.u64 B, file;
    { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
      st.param.b64 [m], A;
      st.param.b64 [f], B;
      st.param.b32 [l], 42;
      st.param.b64 [n], A;
      st.param.b64 [c], 1;
      call.uni __assertfail, (m, f, l, n, c); }
FINE:
    ret;
  )",
                                         externs);
  EXPECT_NE(assertion.find("assertion failed in lane 9: x > 0, a.cu:42"), std::string::npos)
      << assertion;
  const auto printed = lanes_of(R"(
    { .param .b64 f; .param .b64 a; .param .b32 r;
      st.param.b64 [f], 0;
      st.param.b64 [a], 0;
      call.uni (r), vprintf, (f, a);
      ld.param.b32 o, [r]; }
  )",
                                externs);
  EXPECT_EQ(printed[5], 0xffffffffu);  // no format
}

// ---- brx.idx (9.7.12.4) -------------------------------------------------------------------------

constexpr char kTable[] = R"(
    bra OVER;
A:  mov.u32 o, 10;
    bra END;
B:  mov.u32 o, 11;
    bra END;
C:  mov.u32 o, 12;
    bra END;
OVER:
    TABLE: .branchtargets A, B, C, B;
)";

TEST(BranchByIndex, GoesToTheLabelOfEachLane) {
  const auto out = lanes_of(std::string("and.b32 x, t, 3;\n") + kTable + "brx.idx x, TABLE;\nEND:");
  constexpr uint32_t kWant[] = {10, 11, 12, 11};
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], kWant[t % 4]) << t;
}

TEST(BranchByIndex, UnderAGuard) {
  const auto out = lanes_of(std::string("and.b32 x, t, 3;\nsetp.lt.u32 p, t, 4;\n") + kTable +
                            "@p brx.idx x, TABLE;\nEND:");
  EXPECT_EQ(out[1], 11u);
  EXPECT_EQ(out[5], 99u);
}

TEST(BranchByIndex, Errors) {
  EXPECT_NE(error_of(std::string(".reg .b32 o, x;\nmov.u32 x, 4;\n") + kTable +
                     "brx.idx x, TABLE;\nEND: ret;")
                .find("an index beyond the list"),
            std::string::npos);
  EXPECT_NE(error_of(".reg .b32 x;\nbrx.idx x, TABLE;").find("TABLE is no list"),
            std::string::npos);
}

// ---- set, slct (9.7.6) --------------------------------------------------------------------------

uint64_t float_bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(Set, GivesOnesOrOne) {
  EXPECT_EQ(evaluate("set.lt.u32.s32 d, a, b;", 0xffffffff, 1), 0xffffffffu);
  EXPECT_EQ(evaluate("set.lt.u32.u32 d, a, b;", 0xffffffff, 1), 0u);
  EXPECT_EQ(evaluate("set.ge.f32.s32 d, a, b;", 5, 5), float_bits(1.0f));
  EXPECT_EQ(evaluate("set.ge.f32.s32 d, a, b;", 4, 5), 0u);
  EXPECT_EQ(evaluate("set.eq.and.s32.u32 d, a, b, p;", 5, 5), 0xffffffffu);  // p holds
  EXPECT_EQ(evaluate("set.eq.and.s32.u32 d, a, b, !p;", 5, 5), 0u);
  EXPECT_EQ(evaluate("set.eq.or.s32.u32 d, a, b, p;", 5, 6), 0xffffffffu);
  EXPECT_EQ(evaluate("set.gtu.u32.f32 d, a, b;", float_bits(1), 0x7fc00000), 0xffffffffu);
  EXPECT_EQ(evaluate("set.gt.u32.f32 d, a, b;", float_bits(1), 0x7fc00000), 0u);
  EXPECT_EQ(evaluate("set.ne.u32.u64 d, A, B;", uint64_t{1} << 40, 0), 0xffffffffu);
}

TEST(Slct, TakesTheFirstIfNotNegative) {
  EXPECT_EQ(evaluate("slct.u32.s32 d, a, b, c;", 1, 2, 0), 1u);
  EXPECT_EQ(evaluate("slct.u32.s32 d, a, b, c;", 1, 2, 0x80000000), 2u);
  EXPECT_EQ(evaluate("slct.u64.s32 D, A, B, c;", uint64_t{1} << 40, 2, 7), uint64_t{1} << 40);
  EXPECT_EQ(evaluate("slct.f32.f32 d, a, b, c;", 1, 2, float_bits(-0.0f)), 1u);
  EXPECT_EQ(evaluate("slct.u32.f32 d, a, b, c;", 1, 2, float_bits(-1.0f)), 2u);
  EXPECT_EQ(evaluate("slct.u32.f32 d, a, b, c;", 1, 2, 0x7fc00000), 2u);  // NaN
  EXPECT_EQ(evaluate("slct.u32.f32 d, a, b, c;", 1, 2, 0x80000001), 2u);
  EXPECT_EQ(evaluate("slct.ftz.u32.f32 d, a, b, c;", 1, 2, 0x80000001), 1u);  // flushed to -0
}

// ---- carries (9.7.2) ----------------------------------------------------------------------------

TEST(Carry, AddsLongNumbers) {
  // 96 bits in three words: all ones + 1.
  EXPECT_EQ(
      evaluate("add.cc.u32 d, a, b;\naddc.cc.u32 d, a, 0;\naddc.u32 d, c, 0;", 0xffffffff, 1, 41),
      42u);
  EXPECT_EQ(evaluate("add.cc.u32 d, a, b;\naddc.u32 d, c, 0;", 0xfffffffe, 1, 41), 41u);
  // A carry in and none out of it, and the other way around.
  EXPECT_EQ(evaluate("add.cc.u32 d, a, 1;\naddc.cc.u32 d, b, 0xffffffff;\naddc.u32 d, 0, 0;",
                     0xffffffff, 0),
            1u);
  EXPECT_EQ(evaluate("add.cc.u64 D, A, 1;\naddc.u64 D, B, 5;", ~uint64_t{0}, 7), 13u);
}

TEST(Carry, SubtractsLongNumbers) {
  EXPECT_EQ(evaluate("sub.cc.u32 d, a, b;\nsubc.u32 d, c, 0;", 0, 1, 10), 9u);
  EXPECT_EQ(evaluate("sub.cc.u32 d, a, b;\nsubc.u32 d, c, 0;", 1, 1, 10), 10u);
  EXPECT_EQ(
      evaluate("sub.cc.u32 d, a, b;\nsubc.cc.u32 d, 0, 0xffffffff;\nsubc.u32 d, c, 0;", 0, 1, 10),
      9u);
}

TEST(Carry, MultipliesLongNumbers) {
  // The upper word of (2^32 - 1)^2 + (2^32 - 1) = 2^64 - 2^32.
  EXPECT_EQ(evaluate("mad.lo.cc.u32 d, a, a, a;\nmadc.hi.u32 d, a, a, 0;", 0xffffffff),
            0xffffffffu);
  EXPECT_EQ(evaluate("mad.lo.cc.u32 d, a, a, a;", 0xffffffff), 0u);
  EXPECT_EQ(evaluate("mad.hi.cc.s32 d, a, b, c;", 0xffffffff, 3, 5), 4u);  // -3 >> 32 = -1
  EXPECT_EQ(evaluate("mad.lo.cc.u64 D, A, A, A;\nmadc.hi.u64 D, A, A, 0;", ~uint64_t{0}),
            ~uint64_t{0});
}

TEST(Carry, IsALanesOwn) {
  const auto out = lanes_of(
      "setp.lt.u32 p, t, 16;\nselp.u32 x, 0xffffffff, 0, p;\nadd.cc.u32 y, x, 1;\naddc.u32 o, t, "
      "0;");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 16 ? t + 1 : t) << t;
}

/// Functions, a switch, long arithmetic and a failing assertion, as NVRTC writes them.
constexpr char kCompiled[] = R"(
struct Pair { int a; long long b; };
__device__ __noinline__ Pair swapped(Pair p, int* count) {
  *count += 1;
  return {static_cast<int>(p.b), p.a};
}
__device__ __noinline__ int chosen(int i, int x) {
  switch (i) {
    case 0: return x * 3;
    case 1: return x + 100;
    case 2: return x ^ 77;
    case 3: return x << 2;
    case 4: return -x;
    case 5: return x / 3;
    case 6: return x % 5;
    default: return 1000 + i;
  }
}
extern "C" __global__ void k(int* out, unsigned long long a, unsigned long long b, int* fails) {
  int count = 0;
  Pair p = {static_cast<int>(threadIdx.x), 5};
  for (unsigned i = 0; i < threadIdx.x % 4; ++i) p = swapped(p, &count);
  const unsigned __int128 square = static_cast<unsigned __int128>(a) * b + a;
  out[threadIdx.x] = chosen(threadIdx.x % 9, p.a) + count * 10000 + static_cast<int>(square >> 64);
  if (fails != nullptr) __assertfail("fails == nullptr", "a.cu", 7, "k", 1);
}
)";

TEST(Call, AsACompilerWritesIt) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const auto compiled =
      gpu::jit::compile({kCompiled, "sm_90a", {"--device-int128"}}, gpu::CodeFormat::kPtx);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_NE(compiled->ptx.find("call.uni"), std::string::npos);
  const auto program = load(compiled->ptx);
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<int> out(32);
  MemoryMap memory;
  memory.add(out.data(), 128);
  uint64_t params[4] = {reinterpret_cast<uint64_t>(out.data()), ~uint64_t{0}, 3, 0};
  const auto kernel = (*program)->find("k");
  const auto go = [&] {
    return run(kernel, {.threads = {32, 1, 1}}, std::as_bytes(std::span(params)), memory).status();
  };
  ASSERT_TRUE(go().ok()) << go().message();
  for (int t = 0; t < 32; ++t) {
    const int count = t % 4, x = count % 2 == 0 ? t : 5;
    const int results[] = {x * 3, x + 100, x ^ 77, x << 2, -x, x / 3, x % 5};
    const int i = t % 9;
    const int want = (i < 7 ? results[i] : 1000 + i) + count * 10000 + 3;
    EXPECT_EQ(out[static_cast<size_t>(t)], want) << t;
  }
  params[3] = 1;
  const std::string message = go().message();
  EXPECT_NE(message.find("assertion failed in lane 0: fails == nullptr, a.cu:7"), std::string::npos)
      << message;
}

TEST(Forms, UnknownOnesAreNamed) {
  const auto says = [](const std::string& body, const std::string& part) {
    const std::string message = load_error(body);
    EXPECT_NE(message.find(part), std::string::npos) << body << ": " << message;
  };
  says(
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [0], "
      "[0, {0, 0, 0}], [0], {0};",
      "im2col");
  says("x: .callprototype _ (.param .b32 a);", "indirect calls are not supported");
  says(".reg .b16 h;\nset.eq.f16.f16 h, h, h;", "not supported");
  says(".reg .b16 h;\nadd.cc.u16 h, h, h;", "32 or 64 bits");
}

}  // namespace
}  // namespace fa4::emulator::test
