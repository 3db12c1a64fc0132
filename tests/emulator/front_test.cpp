// SPDX-License-Identifier: BSD-3-Clause
// The front end: what it takes, and what it says of texts that are wrong.
#include <gtest/gtest.h>

#include <random>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

void expect_error(const std::string& body, const std::string& part) {
  const std::string message = load_error(body);
  EXPECT_NE(message.find(part), std::string::npos) << body << ": " << message;
}

TEST(Front, SaysWhatItDoesNotKnow) {
  expect_error("frobnicate.u32 %r1, %r2;", "frobnicate");
  expect_error(".reg .b32 a;\nadd.wide.u32 a, a, a;", "modifier .wide");
  expect_error(".reg .b32 a;\nadd.u32 a, a;", "operands");
  expect_error(".reg .b32 a;\nadd.u32 a, a, b;", "b is not declared");
  expect_error(".reg .b32 a;\n.reg .b64 b;\nadd.u32 a, a, b;", "b is .b64");
  expect_error(".reg .pred p;\n.reg .b32 a;\nadd.u32 a, a, p;", "predicate");
  expect_error(".reg .b32 a;\n@a add.u32 a, a, a;", "not a predicate");
  expect_error("bra nowhere;", "label nowhere");
  expect_error("x:\nx:\nret;", "twice");
  expect_error(".reg .f32 a;\nadd.f32 a, a, 1;", "floating-point constant");
  expect_error(".reg .b32 a;\nmov.b32 a, {a, a, a};", "vector");
  expect_error("setmaxnreg.inc.sync.aligned.u32 30;", "multiple of 8");
  expect_error("wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {}, 0, 0, 1, 1, 1, 0, 0;",
               "no such shape");
  expect_error(".shared .b8 x[1000000];", "shared memory");
  expect_error("fence.acq_rel.gpu.wide;", "modifier .wide");
  expect_error("fence.proxy.async 1;", "operands");
  expect_error(".reg .b64 a;\nprefetch.global.L3 [a];", "modifier .L3");
  expect_error(".reg .b64 a;\ncp.async.bulk.prefetch.L2.shared [a], 16;", "modifier .shared");
  expect_error(".reg .b64 a;\ncreatepolicy.fractional.L2::evict_all.b64 a, 1.0;",
               "modifier .L2::evict_all");
}

TEST(Front, NamesTheLine) {
  // Five lines stand before a body.
  EXPECT_NE(load_error("ret;\nret;\nfoo;").find("PTX line 9: foo"), std::string::npos)
      << load_error("ret;\nret;\nfoo;");
}

TEST(Front, NamesTheTensorCopiesThatItLacks) {
  const auto said = [](const std::string& mode, const std::string& coordinates,
                       const std::string& more) {
    return load_error(
        ".shared .align 128 .b8 tile[128];\n.shared .align 8 .b8 bar[8];\n.reg .b64 m;\n"
        ".reg .b16 o;\n.reg .b32 c;\ncp.async.bulk.tensor." +
        mode + ".mbarrier::complete_tx::bytes [tile], [m, {" + coordinates + "}], [bar]" + more +
        ";");
  };
  EXPECT_EQ(said("2d.shared::cluster.global.tile", "c, c", ""), "");
  for (const auto& [mode, name] : {std::pair{"4d.shared::cluster.global.im2col", "im2col"},
                                   {"4d.shared::cta.global.im2col::w", "im2col::w"},
                                   {"4d.shared::cta.global.im2col::w::128", "im2col::w::128"}}) {
    const std::string error = said(mode, "c, c, c, c", ", {o, o}");
    EXPECT_NE(error.find("PTX line 12: cp.async.bulk.tensor"), std::string::npos) << error;
    EXPECT_NE(error.find(std::string("tensor copies by .") + name + " are not emulated"),
              std::string::npos)
        << error;
  }
}

TEST(Front, TakesWhatCompilersWrite) {
  EXPECT_EQ(load_error(R"(
    .reg .pred p, %q<3>;
    .reg .b32 %r<10>;
    .reg .f32 f;
    .pragma "nounroll";
    .loc 1 12 3, function_name $L__info_string0+24, inlined_at 1 10 2
    { .reg .b32 %r1; .reg .pred p; LAB: mov.b32 %r1, 0f3F800000; setp.eq.u32 p|%q1, %r1, 0x1F; @!p bra LAB; }
    { .reg .b32 t; LAB: mov.b32 t, -1; }
    mov.f32 f, 0fFF800000; mov.f32 f, 1.5; mov.f32 f, -2.5e-3;
    shfl.sync.idx.b32 %r1|%q1, %r1, 0, 31, 0xffffffff;
    /* a comment */ elect.sync _|p, 0xffffffff;
    ld.param.u64 _, [p0];
  )"),
            "");
}

TEST(Front, TakesAnyVersion) {
  for (const char* version : {"6.0", "9.0", "9.4", "12.3"}) {
    const auto program = load(std::string(".version ") + version +
                              "\n.target sm_100a\n.visible .entry k() { ret; }");
    EXPECT_TRUE(program.ok()) << version << ": " << program.status().message();
  }
}

/// Whatever the text, there is an answer and no crash.
TEST(Front, DamagedTextGivesErrors) {
  const std::string whole = module_of(R"(
    .reg .pred p;
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    .shared .align 16 .b8 buffer[64];
    ld.param.u64 %d1, [p0];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 p, %r1, 16;
    @p bra DONE;
    mad.wide.u32 %d2, %r1, 4, %d1;
    st.global.v2.u32 [%d2+4], {%r1, 7};
    mbarrier.try_wait.parity.shared::cta.b64 p, [buffer+8], 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [buffer], [%d1, {%r1, %r2}], [buffer];
    DONE:
  )");
  ASSERT_TRUE(load(whole).ok()) << load(whole).status().message();
  for (size_t n = 0; n < whole.size(); ++n) (void)load(whole.substr(0, n));
  std::mt19937 random(1);
  const std::string letters = "{}[](),;:.%@!|+-_0123456789abcxyz\"/*\n <>=";
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = letters[random() % letters.size()];
          break;
        case 1:
          text.erase(at, random() % 12);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    (void)load(text);
  }
}

}  // namespace
}  // namespace fa4::emulator::test
