// SPDX-License-Identifier: BSD-3-Clause
// Copies without a tensor map: cp.async, cp.async.bulk, cp.reduce.async.bulk. PTX ISA 9.7.9.25.
#include <string>

#include "emulator/probes/operand_words.h"
#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kWords = 64;  ///< Of the buffers in shared memory: 256 bytes.

/// 64 lanes, each with a word of shared `from` (the input's first 64) and `to` (0xaa everywhere).
std::string frame(const std::string& body) {
  return R"(
.reg .b32 n, m, x;
.reg .b64 g;
.reg .pred p, first;
setp.eq.u32 first, t, 0;
mul.wide.u32 g, t, 4;
add.u64 g, in, g;
ld.global.u32 x, [g];
mov.u32 n, from;
mad.lo.u32 n, t, 4, n;
st.shared.u32 [n], x;
mov.b32 x, 0xaaaaaaaa;
mov.u32 m, to;
mad.lo.u32 m, t, 4, m;
st.shared.u32 [m], x;
@first mbarrier.init.shared::cta.b64 [bar], 1;
fence.proxy.async;
bar.sync 0;
)" + body;
}

constexpr const char* kGlobals =
    ".shared .align 128 .b8 from[256];\n.shared .align 128 .b8 to[256];\n"
    ".shared .align 8 .b64 bar;\n";
constexpr const char* kDump =
    "bar.sync 0;\nld.shared.u32 x, [m];\nmul.wide.u32 g, t, 4;\nadd.u64 g, out, g;\n"
    "st.global.u32 [g], x;\n";

Probe bulk_probe(const std::string& name, const std::string& body,
                 const std::vector<uint32_t>& input, const std::vector<uint32_t>& output = {}) {
  Probe probe;
  probe.name = name;
  probe.threads = kWords;
  probe.input = input;
  probe.output = output;
  probe.output_words = kWords;
  probe.ptx = kernel_text(frame(body), kGlobals);
  return probe;
}

/// Each CTA of a cluster has its own part of the output.
constexpr const char* kDumpOfCluster =
    "bar.sync 0;\nld.shared.u32 x, [m];\nmov.u32 n, %ctaid.x;\nmad.lo.u32 n, n, 64, t;\n"
    "mul.wide.u32 g, n, 4;\nadd.u64 g, out, g;\nst.global.u32 [g], x;\n";

/// Copies to distributed shared memory are illegal outside a cluster: two CTAs do the same, each to
/// itself.
Probe in_cluster(Probe probe) {
  probe.blocks = probe.cluster = 2;
  probe.output_words *= 2;
  return probe;
}

std::vector<uint32_t> random_words(uint64_t seed, uint32_t count = 2 * kWords) {
  Random random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& word : words) word = random.word();
  return words;
}

void add_copies(std::vector<Probe>& probes) {
  for (const uint32_t bytes : {16u, 48u, 256u}) {
    const std::string n = std::to_string(bytes);
    const std::string expect =
        "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " + n + ";\n";
    const std::string done = "mbarrier::complete_tx::bytes ";
    probes.push_back(bulk_probe("bulk.load/" + n,
                                expect + "@first cp.async.bulk.shared::cluster.global." + done +
                                    "[to], [in], " + n + ", [bar];\n" + kWaitForBar + kDump,
                                random_words(1)));
    probes.push_back(in_cluster(
        bulk_probe("bulk.shared/" + n,
                   expect + "@first cp.async.bulk.shared::cluster.shared::cta." + done +
                       "[to], [from], " + n + ", [bar];\n" + kWaitForBar + kDumpOfCluster,
                   random_words(1))));
    probes.push_back(
        bulk_probe("bulk.store/" + n,
                   "@first cp.async.bulk.global.shared::cta.bulk_group [out], [from], " + n +
                       ";\n@first cp.async.bulk.commit_group;\n"
                       "@first cp.async.bulk.wait_group 0;\n",
                   random_words(1), std::vector<uint32_t>(kWords, 0xaaaaaaaa)));
  }
}

std::vector<uint32_t> numbers(const std::string& type, uint64_t seed) {
  Random random(seed);
  if (type == "f16") return operand_words(ElementType::kF16, kWords, Numbers::kReal, random);
  if (type == "bf16") return operand_words(ElementType::kBF16, kWords, Numbers::kReal, random);
  std::vector<uint32_t> words = random_words(seed, kWords);
  for (uint32_t i = 0; i < kWords; ++i) {
    if (type == "f32") {
      words[i] =
          i % 4 != 0 ? element_bits(ElementType::kTF32, random.normal()) : words[i] & 0x807fffff;
    }
    if (type == "f64" && i % 2 == 1) words[i] = (words[i] & 0x800fffff) | 0x3ff00000;
  }
  return words;
}

void add_reductions(std::vector<Probe>& probes) {
  for (const char* operation :
       {"add.u32",  "add.s32", "add.u64", "add.noftz.f16", "add.noftz.bf16", "add.f32", "add.f64",
        "min.u32",  "min.s32", "max.u32", "max.s32",       "min.u64",        "max.s64", "min.f16",
        "max.bf16", "inc.u32", "dec.u32", "and.b32",       "or.b32",         "xor.b64"}) {
    const std::string name = operation, type = name.substr(name.rfind('.') + 1);
    probes.push_back(bulk_probe("bulk.reduce/" + name,
                                "@first cp.reduce.async.bulk.global.shared::cta.bulk_group." +
                                    name +
                                    " [out], [from], 256;\n@first cp.async.bulk.commit_group;\n"
                                    "@first cp.async.bulk.wait_group 0;\n",
                                numbers(type, 1), numbers(type, 2)));
  }
  for (const char* operation : {"add.u32", "add.s32", "add.u64", "min.s32", "max.u32", "inc.u32",
                                "dec.u32", "and.b32", "or.b32", "xor.b32"}) {
    const std::string name = operation;
    probes.push_back(in_cluster(bulk_probe(
        "bulk.reduce-shared/" + name,
        "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n"
        "@first cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." +
            name + " [to], [from], 256, [bar];\n" + kWaitForBar + kDumpOfCluster,
        numbers("u32", 1))));
  }
}

/// Lane i copies to byte `bytes` i of `to`; the buffers have room for 16 lanes of 16 bytes.
void add_small_copies(std::vector<Probe>& probes) {
  const auto add = [&](const std::string& how, const std::string& bytes, const std::string& rest,
                       const std::string& name) {
    const std::string step = std::to_string(std::stoi(bytes));
    probes.push_back(bulk_probe("cp.async." + how + "/" + name,
                                "setp.lt.u32 p, t, 16;\nmul.wide.u32 g, t, " + step +
                                    ";\nadd.u64 g, in, g;\nmov.u32 n, to;\n"
                                    "mad.lo.u32 n, t, " +
                                    step +
                                    ", n;\nmov.u32 x, t;\n.reg .pred odd;\n.reg .b32 bit;\n"
                                    "and.b32 bit, t, 1;\nsetp.eq.u32 odd, bit, 1;\n@p cp.async." +
                                    how + ".shared::cta.global [n], [g], " + bytes + rest +
                                    ";\ncp.async.commit_group;\ncp.async.wait_group 0;\n" + kDump,
                                random_words(4)));
  };
  add("ca", "4", "", "4");
  add("ca", "8", "", "8");
  add("ca", "16", "", "16");
  add("cg", "16", "", "cg16");
  add("ca", "16", ", x", "16-size");
  add("cg", "16", ", x", "cg16-size");
  add("ca", "4", ", 2", "4-size2");
  add("ca", "8", ", 0", "8-size0");
  add("ca", "8", ", odd", "8-ignore");
  add("cg", "16", ", odd", "cg16-ignore");
}

/// cp.async.mbarrier.arrive: each lane's own arrival, with and without a pending count of its own.
void add_arrivals(std::vector<Probe>& probes) {
  for (const bool noinc : {true, false}) {
    // Without .noinc the count rises by one for each; the lanes' own arrivals end the phase.
    const std::string count = noinc ? "65" : "1";
    probes.push_back(
        bulk_probe(std::string("cp.async.mbarrier.arrive") + (noinc ? ".noinc" : ""),
                   "bar.sync 0;\n@first mbarrier.inval.shared::cta.b64 [bar];\nbar.sync 0;\n"
                   "@first mbarrier.init.shared::cta.b64 [bar], " +
                       count +
                       ";\nbar.sync 0;\nmul.wide.u32 g, t, 4;\nadd.u64 g, in, g;\n"
                       "cp.async.ca.shared::cta.global [m], [g], 4;\ncp.async.mbarrier.arrive" +
                       (noinc ? ".noinc" : "") +
                       ".shared::cta.b64 [bar];\nbar.sync 0;\n"
                       "@first mbarrier.arrive.shared::cta.b64 _, [bar];\n" +
                       kWaitForBar + kDump,
                   random_words(5)));
  }
}

}  // namespace

std::vector<Probe> bulk_probes() {
  std::vector<Probe> probes;
  add_copies(probes);
  add_reductions(probes);
  add_small_copies(probes);
  add_arrivals(probes);
  return probes;
}

}  // namespace fa4::emulator::probes
