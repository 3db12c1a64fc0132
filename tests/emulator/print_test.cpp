// SPDX-License-Identifier: BSD-3-Clause
// vprintf: formats, arguments, and what is no format.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

/// A .global variable of that name with the text.
std::string text_variable(const std::string& name, const std::string& text) {
  std::string bytes;
  for (const char c : text) bytes += std::to_string(static_cast<unsigned char>(c)) + ", ";
  return ".global .b8 " + name + "[" + std::to_string(text.size() + 1) + "] = {" + bytes + "0};\n";
}

struct Printed {
  std::string text, error;
  std::vector<uint32_t> results;  ///< What vprintf returned, by thread.
};

/// Threads print `format`, with arguments that `stores` puts at [A].
Printed print(const std::string& format, const std::string& stores = "", uint32_t threads = 1,
              const RunOptions& options = {}) {
  Printed printed;
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(threads, 77));
  RunOptions printing = options;
  printing.print = [&](std::string_view text) { printed.text += text; };
  const Ran ran =
      run_body(R"(
    .local .align 8 .b8 depot[64];
    .reg .b64 A, G, F, P, Q;
    .reg .b32 t, r;
    mov.u64 A, depot;
    cvta.local.u64 G, A;
    mov.u32 t, %tid.x;
    )" + stores + R"(
    mov.u64 F, format;
    cvta.global.u64 F, F;
    { .param .b64 f; .param .b64 a; .param .b32 result;
      st.param.b64 [f], F;
      st.param.b64 [a], G;
      call.uni (result), vprintf, (f, a);
      ld.param.b32 r, [result]; }
    ld.param.u64 P, [p0];
    mul.wide.u32 Q, t, 4;
    add.u64 P, P, Q;
    st.global.u32 [P], r;
  )",
               buffers, {.threads = {threads, 1, 1}}, printing,
               ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n" +
                   text_variable("format", format) + text_variable("word", "wgmma"));
  printed.error = ran.error;
  printed.results = buffers[0];
  return printed;
}

TEST(Print, TextWithoutArguments) {
  const Printed p = print("100%% of it\n");
  EXPECT_EQ(p.error, "");
  EXPECT_EQ(p.text, "100% of it\n");
  EXPECT_EQ(p.results[0], 0u);
}

TEST(Print, EveryConversion) {
  const std::string minus = "st.local.u32 [A], -7;\n";
  EXPECT_EQ(print("[%d|%%]", minus).text, "[-7|%]");
  EXPECT_EQ(print("[%5i]", minus).text, "[   -7]");
  EXPECT_EQ(print("[%-5d]", minus).text, "[-7   ]");
  EXPECT_EQ(print("%u", minus).text, "4294967289");
  EXPECT_EQ(print("%x %%", minus).text, "fffffff9 %");
  EXPECT_EQ(print("%hx", minus).text, "fff9");
  EXPECT_EQ(print("%hhu", minus).text, "249");
  EXPECT_EQ(print("%#X", "st.local.u32 [A], 48879;\n").text, "0XBEEF");
  EXPECT_EQ(print("%+d % d", "st.local.u32 [A], 3;\nst.local.u32 [A+4], 4;\n").text, "+3  4");
  EXPECT_EQ(print("%o", "st.local.u32 [A], 8;\n").text, "10");
  EXPECT_EQ(print("%c%c", "st.local.u32 [A], 104;\nst.local.u32 [A+4], 105;\n").text, "hi");
  const std::string wide = "st.local.u64 [A], -2;\n";
  EXPECT_EQ(print("%lld", wide).text, "-2");
  EXPECT_EQ(print("%lx", wide).text, "fffffffffffffffe");
  EXPECT_EQ(print("%zu", "st.local.u64 [A], 4294967296;\n").text, "4294967296");
  EXPECT_EQ(print("%p", "st.local.u64 [A], 4096;\n").text, "0x1000");
  const std::string real = "st.local.f64 [A], 0d3FF8000000000000;\n";  // 1.5
  EXPECT_EQ(print("%f", real).text, "1.500000");
  EXPECT_EQ(print("%8.2f", real).text, "    1.50");
  EXPECT_EQ(print("%08.3f", real).text, "0001.500");
  EXPECT_EQ(print("%g %%", real).text, "1.5 %");
  EXPECT_EQ(print("%.1e", real).text, "1.5e+00");
  EXPECT_EQ(print("%a", real).text, "0x1.8p+0");
  EXPECT_EQ(print("%s!", "mov.u64 F, word;\ncvta.global.u64 F, F;\nst.local.u64 [A], F;\n").text,
            "wgmma!");
  EXPECT_EQ(print("%.2s", "mov.u64 F, word;\ncvta.global.u64 F, F;\nst.local.u64 [A], F;\n").text,
            "wg");
  EXPECT_EQ(print("%s", "st.local.u64 [A], 0;\n").text, "(null)");
  EXPECT_EQ(print("%*d", "st.local.u32 [A], 4;\nst.local.u32 [A+4], 9;\n").text, "   9");
}

/// An int, then a double at the next multiple of eight, then an int, then a long.
TEST(Print, ArgumentsLieAtMultiplesOfTheirSize) {
  const Printed p = print("%d %.1f %d %lld\n", R"(
    st.local.u32 [A], 1;
    st.local.f64 [A+8], 0d4004000000000000;
    st.local.u32 [A+16], 3;
    st.local.u64 [A+24], 4;
  )");
  EXPECT_EQ(p.error, "");
  EXPECT_EQ(p.text, "1 2.5 3 4\n");
  EXPECT_EQ(p.results[0], 4u);
}

TEST(Print, EveryLaneInTurn) {
  const Printed p = print("%d,", "st.local.u32 [A], t;\n", 40);
  EXPECT_EQ(p.error, "");
  std::string first, second;
  for (int i = 0; i < 32; ++i) first += std::to_string(i) + ",";
  for (int i = 32; i < 40; ++i) second += std::to_string(i) + ",";
  EXPECT_TRUE(p.text == first + second || p.text == second + first) << p.text;
}

TEST(Print, SaysWhatItCannotDo) {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  std::string error = print("all %n", "").error;
  EXPECT_TRUE(has(error, "conversion \"%n\" is unknown; allowed: d i u o x X")) << error;
  error = print("%", "").error;
  EXPECT_TRUE(has(error, "conversion \"%\" is unknown")) << error;
  error = print("%99999d", "st.local.u32 [A], 1;\n").error;
  EXPECT_TRUE(has(error, "a width of 9999; allowed: up to 4096")) << error;
  error = print("%.99999f", "st.local.u64 [A], 1;\n").error;
  EXPECT_TRUE(has(error, "a width of 9999;")) << error;
  error = print("%d", "mov.u64 G, 0;\n").error;
  EXPECT_TRUE(has(error, "there are no arguments")) << error;
  error = print("%s", "st.local.u64 [A], 16;\n").error;
  EXPECT_TRUE(has(error, "out-of-bounds")) << error;
  std::string many;
  for (int i = 0; i < 100; ++i) many += "%f";
  error = print(many, "st.local.f64 [A], 0d0000000000000000;\n").error;
  EXPECT_TRUE(has(error, "out-of-bounds")) << error;
}

}  // namespace
}  // namespace fa4::emulator::test
