// SPDX-License-Identifier: BSD-3-Clause
// The emulator as a device, below the plans: what gpu::Runtime promises, with a kernel for
// Blackwell's tensor cores.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/kernels/tensor_chain.h"
#include "gpu/emulator_settings.h"
#include "gpu/jit/nvrtc.h"
#include "gpu/runtime.h"

namespace fa4::emulator::test {
namespace {

const gpu::Runtime& blackwell() {
  const auto runtime = gpu::runtime_of(Device::emulator("sm_100a"));
  EXPECT_TRUE(runtime.ok()) << runtime.status().message();
  return **runtime;
}

TEST(EmulatorRuntime, SaysWhatItIs) {
  const gpu::Properties& p = blackwell().properties();
  EXPECT_EQ(p.name, "emulator:sm_100a");
  EXPECT_EQ(p.major, 10);
  EXPECT_EQ(p.minor, 0);
  EXPECT_EQ(blackwell().code_format(), gpu::CodeFormat::kPtx);
}

/// Copies in, runs and copies out; the memory is the runtime's own.
Status run_on(const gpu::Runtime& runtime, const gpu::Kernel& kernel, ChainProblem& problem) {
  std::vector<std::byte> params;
  std::vector<void*> memory;
  for (const auto& buffer : problem.buffers) {
    const auto data = runtime.allocate(buffer.size() * 4);
    if (!data.ok()) return data.status();
    memory.push_back(*data);
    const Status copied = runtime.copy_in(*data, buffer.data(), buffer.size() * 4);
    if (!copied.ok()) return copied;
    params.resize(params.size() + 8);
    std::memcpy(params.data() + params.size() - 8, &*data, 8);
  }
  Status status = runtime.launch(kernel, {.threads = kChainThreads}, params, {});
  for (size_t i = 0; i < memory.size(); ++i) {
    auto& buffer = problem.buffers[i];
    if (status.ok()) status = runtime.copy_out(buffer.data(), memory[i], buffer.size() * 4);
    const Status released = runtime.release(memory[i]);
    if (status.ok()) status = released;
  }
  return status;
}

TEST(EmulatorRuntime, RunsABlackwellKernel) {
  const auto version = gpu::jit::nvrtc_version();
  if (!version.ok()) GTEST_SKIP() << version.status().message();
  const auto compiled = gpu::jit::compile({chain_source(), "sm_100a", {}}, gpu::CodeFormat::kPtx);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const auto code = std::as_bytes(std::span(compiled->ptx));
  const gpu::Runtime& runtime = blackwell();
  const auto kernel = runtime.load(code, "chain", 0);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  for (const Timing timing : {Timing::kEarliest, Timing::kRandom, Timing::kLatest}) {
    gpu::EmulatorSettings settings;
    settings.run.timing = timing;
    settings.run.checks = Checks::kWarnings;
    const gpu::ThreadEmulatorSettings here(settings);
    ChainProblem problem = chain_problem();
    const Status status = run_on(runtime, **kernel, problem);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(problem.buffers[3] == problem.result);
  }
}

TEST(EmulatorRuntime, NamesWhatIsWrong) {
  const gpu::Runtime& runtime = blackwell();
  const std::string text = ".version 9.4\n.target sm_100a\n.visible .entry k() { trap; }";
  const auto code = std::as_bytes(std::span(text));
  EXPECT_NE(runtime.load(code, "other", 0).status().message().find("other"), std::string::npos);
  const auto kernel = runtime.load(code, "k", 0);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto error = [&](const gpu::Launch& launch, size_t bytes) {
    return runtime.launch(**kernel, launch, std::vector<std::byte>(bytes), {}).message();
  };
  EXPECT_NE(error({.blocks = 0, .threads = 32}, 0).find("allowed: 1 to 2147483647"),
            std::string::npos);
  EXPECT_NE(error({.threads = 0}, 0).find("allowed: 1 to 1024"), std::string::npos);
  EXPECT_NE(error({.threads = 32, .shared_bytes = 1u << 30}, 0).find("dynamic shared memory"),
            std::string::npos);
  EXPECT_NE(error({.threads = 32}, 8).find("parameters are 8 bytes; allowed: 0"),
            std::string::npos);
  EXPECT_NE(error({.threads = 32}, 0).find("PTX line 3: trap"), std::string::npos);
  for (const size_t bytes : {~size_t{0}, ~size_t{0} - 300, size_t{1} << 60, size_t{1} << 46}) {
    EXPECT_EQ(runtime.allocate(bytes).status().code(), StatusCode::kOutOfMemory) << bytes;
  }
  int local = 0;
  EXPECT_FALSE(runtime.release(&local).ok());
}

}  // namespace
}  // namespace fa4::emulator::test
