// SPDX-License-Identifier: BSD-3-Clause
// Values that nobody defined.
#include "emulator/judge/rule_case.h"
#include "emulator/ptx_kernel.h"

namespace fa4::emulator::test {
namespace {

const RuleCase kCases[] = {
    {"Register", Rule::kRegisterUndefined, R"(
+   mov.u32 b, 5;
    add.u32 c, b, 1;
)"},
    {"RegisterOfSomeLanes", Rule::kRegisterUndefined, R"(
+   mov.u32 b, 5;
    setp.lt.u32 p, lane, 7;
    @p mov.u32 b, 6;
    st.global.u32 [U], b;
)"},
    {"Predicate", Rule::kRegisterUndefined, R"(
+   setp.eq.u32 p, tid, 3;
    selp.u32 b, 1, 2, p;
)"},
    {"SelectedRegister", Rule::kRegisterUndefined, R"(
    setp.lt.u32 p, lane, 7;
    selp.u32 b, lane, c, p;
-   add.u32 b, b, 1;
+   @p add.u32 b, b, 1;
)"},
    {"MovedAndUsed", Rule::kRegisterUndefined, R"(
+   mov.u32 b, 5;
    mov.u32 c, b;
    mov.b64 V, {c, tid};
    mov.b64 {d, e}, V;
-   xor.b32 d, d, 1;
    xor.b32 e, tid, 1;
)"},
    {"SharedMemory", Rule::kRegisterUndefined, R"(
+   st.shared.u32 [a], tid;
    ld.shared.u32 b, [a];
    add.u32 b, b, 1;
)"},
    {"PartOfAVector", Rule::kRegisterUndefined, R"(
    mov.u32 b, smem;
    shl.b32 c, tid, 3;
    add.u32 b, b, c;
    st.shared.u32 [b], tid;
+   st.shared.u32 [b+4], tid;
    ld.shared.v2.u32 {c, d}, [b];
    add.u32 c, c, 1;
    add.u32 d, d, 1;
)"},
    {"SharedMemoryTakesWhatIsUndefined", Rule::kRegisterUndefined, R"(
+   mov.u32 b, 5;
    st.shared.u32 [a], b;
    ld.shared.u32 c, [a];
    add.u32 c, c, 1;
)"},
    {"Product", Rule::kSharedUndefined, R"(
    mov.b64 DA, 0x0000001000080040;
-   setp.lt.u32 p, tid, 64;
+   setp.lt.u32 p, tid, 256;
    mov.u32 b, 0;
FILL:
    shl.b32 c, b, 9;
    add.u32 c, c, a;
    @p st.shared.u32 [c], b;
    add.u32 b, b, 1;
    setp.lt.u32 q, b, 8;
    @q bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.f32 f0, 0f00000000;
    mov.f32 f1, f0;
    mov.f32 f2, f0;
    mov.f32 f3, f0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, DA, DA, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
)",
     128},
    {"LocalMemory", Rule::kRegisterUndefined, R"(
    .local .align 4 .b8 mine[16];
+   st.local.u32 [mine+4], tid;
    st.local.u32 [mine], tid;
    ld.local.u32 b, [mine+4];
    add.u32 b, b, 1;
)"},
    {"TensorMemory", Rule::kRegisterUndefined, kAllocated + R"(
+   tcgen05.st.sync.aligned.32x32b.x1.b32 [own], {tid};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {b}, [own];
    tcgen05.wait::ld.sync.aligned;
    add.u32 b, b, 1;
)" + kFree},
};

class Undefined : public testing::TestWithParam<RuleCase> {};
TEST_P(Undefined, IsFound) { check_rule(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Judge, Undefined, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

/// The first instruction of all is judged too.
TEST(UndefinedRegisters, FirstInstruction) {
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(1));
  for (const char* body : {".reg .b32 a;\nadd.u32 a, a, 1;", ".reg .pred p;\n@p bra L;\nL: ret;"}) {
    const std::string error = run_body(body, buffers).error;
    EXPECT_NE(error.find("register-undefined"), std::string::npos) << error;
  }
}

/// Another cluster's warp has run just before.
TEST(UndefinedRegisters, NamesItsOwnCta) {
  const std::string body = R"(
    .reg .b32 a, b;
    .reg .pred p;
    mov.u32 a, %ctaid.x;
    setp.ne.u32 p, a, 2;
    @p bra L;
    mov.u32 a, b;
  L:
    add.u32 a, a, 1;
  )";
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RunOptions options{.seed = seed};
    options.resident_clusters = 4;
    std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(1));
    const std::string error =
        run_body(body, buffers, {.blocks = {4, 1, 1}, .threads = {32, 1, 1}}, options).error;
    const size_t said = error.find("register-undefined: warp 0, lane 0 of CTA (2, 0, 0)");
    EXPECT_NE(said, std::string::npos) << error;
  }
}

}  // namespace
}  // namespace fa4::emulator::test
