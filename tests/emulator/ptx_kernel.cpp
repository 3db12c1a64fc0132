// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/ptx_kernel.h"

#include <cstring>

namespace fa4::emulator::test {
namespace {

int unjudged = 0;

}  // namespace

Unjudged::Unjudged() { ++unjudged; }
Unjudged::~Unjudged() { --unjudged; }

const char* const kFunctionNames = R"(.section .debug_str {
$name0:
.b8 95,90,78,51,102,97,52,55,112,114,111,100,117,99,101,69,118,0
$name1:
.b8 95,90,55,99,111,110,115,117,109,101,118,0
$name2:
.b8 104,101,108,112,101,114,0
}
)";

const char* const kLoadOperands = R"(ld.global.u64 A, [P];
ld.global.u64 B, [P+8];
ld.global.u64 C, [P+16];
)";
const char* const kPartsOfOperands = R"(cvt.u32.u64 a, A;
cvt.u32.u64 b, B;
cvt.u32.u64 c, C;
cvt.u16.u64 h, A;
cvt.u16.u64 i, B;
cvt.u16.u64 j, C;
)";

std::string module_of(const std::string& body, int params, const std::string& globals) {
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n" + globals + "\n.visible .entry k(";
  for (int i = 0; i < params; ++i) {
    text += (i > 0 ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
  }
  return text + ")\n{\n" + body + "\nret;\n}\n";
}

Ran run_module(const std::string& ptx, const std::string& entry,
               std::vector<std::vector<uint32_t>>& buffers, const LaunchConfig& config,
               const RunOptions& options) {
  Ran ran;
  const auto program = load(ptx);
  if (!program.ok()) {
    ran.error = program.status().message();
    return ran;
  }
  const auto kernel = (*program)->find(entry);
  if (kernel == nullptr) {
    ran.error = "no entry " + entry;
    return ran;
  }
  MemoryMap memory;
  std::vector<std::byte> params;
  for (auto& buffer : buffers) {
    memory.add(buffer.data(), buffer.size() * sizeof(uint32_t));
    const uint32_t* data = buffer.data();
    params.resize(params.size() + 8);
    std::memcpy(params.data() + params.size() - 8, &data, 8);
  }
  RunOptions checked = options;
  if (checked.checks == Checks::kOff && unjudged == 0 && !options.counters) {
    checked.checks = Checks::kWarnings;
  }
  const auto tally = run(kernel, config, params, memory, checked);
  if (tally.ok()) {
    ran.tally = *tally;
    if (options.checks == Checks::kOff && !tally->warnings.empty()) {
      ran.error = "a warning: " + tally->warnings.front().text;
    }
  } else {
    ran.error = tally.status().message();
  }
  return ran;
}

Ran run_body(const std::string& body, std::vector<std::vector<uint32_t>>& buffers,
             const LaunchConfig& config, const RunOptions& options, const std::string& globals) {
  return run_module(module_of(body, static_cast<int>(buffers.size()), globals), "k", buffers,
                    config, options);
}

uint64_t evaluate(const std::string& text, uint64_t a, uint64_t b, uint64_t c) {
  const std::string body = R"(
    .reg .b64 P, A, B, C, D;
    .reg .b32 a, b, c, d;
    .reg .b16 h, i, j, k;
    .reg .pred p, q;
    ld.param.u64 P, [p0];
)" + std::string(kLoadOperands) +
                           kPartsOfOperands + R"(
    mov.b64 D, 0;
    mov.b32 d, 0xdeadbeef;
    mov.b16 k, 0;
    setp.eq.u32 p, 0, 0;
    setp.ne.u32 q, 0, 0;
    )" + text + R"(
    st.global.u64 [P+24], D;
    st.global.u32 [P+32], d;
    st.global.u16 [P+36], k;
    selp.u32 d, 1, 0, q;
    st.global.u32 [P+40], d;
  )";
  std::vector<std::vector<uint32_t>> buffers(1, std::vector<uint32_t>(12));
  const uint64_t in[3] = {a, b, c};
  std::memcpy(buffers[0].data(), in, sizeof in);
  const Ran ran = run_body(body, buffers, {.threads = {1, 1, 1}});
  if (!ran.error.empty()) {
    ADD_FAILURE() << text << ": " << ran.error;
    return ~uint64_t{0};
  }
  const auto has = [&](char name) {
    // A result stands first: behind the opcode.
    const size_t space = text.find(' ');
    const size_t at = text.find_first_not_of(" {", space);
    return text[at] == name;
  };
  if (has('D')) return static_cast<uint64_t>(buffers[0][7]) << 32 | buffers[0][6];
  if (has('k')) return buffers[0][9] & 0xffff;
  if (has('q')) return buffers[0][10];
  return buffers[0][8];
}

std::string load_error(const std::string& body, int params) {
  const auto program = load(module_of(body, params));
  return program.ok() ? std::string() : program.status().message();
}

}  // namespace fa4::emulator::test
