// SPDX-License-Identifier: BSD-3-Clause
// mbarriers step by step, named barriers, setmaxnreg, griddepcontrol: PTX ISA 9.7.13.
#include <string>

#include "emulator/probes/probe.h"

namespace fa4::emulator::probes {
namespace {

/// One thread's steps on the mbarrier `bar`, and what it sees after each: the pending count of the
/// state s, whether the phase of a parity has ended.
class Script {
 public:
  Script& step(const std::string& line) {
    text_ += line + "\n";
    return *this;
  }
  Script& see() {
    text_ += "mbarrier.pending_count.b64 x, s;\n";
    return store("x");
  }
  Script& test(int parity) {
    text_ += "mbarrier.test_wait.parity.shared::cta.b64 p, [bar], " + std::to_string(parity) +
             ";\nselp.u32 x, 1, 0, p;\n";
    return store("x");
  }
  Script& test_state() {
    text_ += "mbarrier.test_wait.shared::cta.b64 p, [bar], s;\nselp.u32 x, 1, 0, p;\n";
    return store("x");
  }
  /// The two words of an mbarrier, which ends with that. A GPU keeps mbarriers in a cache of their
  /// own, and writes them to shared memory when they are invalidated: loads before that give what
  /// stood there.
  Script& words(const std::string& bar) {
    text_ += "mbarrier.inval.shared::cta.b64 [" + bar +
             "];\nmembar.cta;\nnanosleep.u32 2000;\nld.volatile.shared.b64 s, [" + bar +
             "];\nmov.b64 {x, y}, s;\n";
    store("x");
    return store("y");
  }
  Probe probe(const std::string& name, const char* shared = ".shared .align 8 .b64 bar;\n") const {
    Probe probe;
    probe.name = "mbarrier/" + name;
    probe.output_words = count_;
    probe.ptx = kernel_text(
        ".reg .b64 s;\n.reg .b32 x, y;\n.reg .pred p;\nsetp.ne.u32 p, t, 0;\n@p ret;\n" + text_,
        shared);
    return probe;
  }

 private:
  Script& store(const char* reg) {
    text_ += "st.global.u32 [out+" + std::to_string(4 * count_) + "], " + reg + ";\n";
    ++count_;
    return *this;
  }

  std::string text_;
  uint32_t count_ = 0;
};

const char* const kInit3 = "mbarrier.init.shared::cta.b64 [bar], 3;";
const char* const kArrive = "mbarrier.arrive.shared::cta.b64 s, [bar];";

Probe phases() {
  Script script;
  script.step(kInit3).test(0).test(1);
  for (int i = 0; i < 7; ++i) script.step(kArrive).see().test_state().test(0).test(1);
  return script.probe("phases");
}

Probe counts() {
  Script script;
  script.step("mbarrier.init.shared::cta.b64 [bar], 10;");
  script.step("mbarrier.arrive.shared::cta.b64 s, [bar], 4;").see().test(0);
  script.step("mbarrier.arrive.noComplete.shared::cta.b64 s, [bar], 2;").see().test(0);
  script.step("mbarrier.arrive.release.cta.shared::cta.b64 s, [bar], 3;").see().test(0);
  script.step(kArrive).see().test(0).test(1);
  script.step("mbarrier.arrive.shared::cta.b64 s, [bar], 10;").see().test(0).test(1);
  return script.probe("counts");
}

Probe transactions() {
  Script script;
  script.step("mbarrier.init.shared::cta.b64 [bar], 2;");
  script.step("mbarrier.arrive.expect_tx.shared::cta.b64 s, [bar], 96;").see().test(0);
  script.step(kArrive).see().test(0);
  script.step("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 64;").test(0);
  script.step("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 32;").test(0);
  script.step("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 64;")
      .test(0)
      .test(1);
  script.step(kArrive).see();
  // More bytes come than were expected so far.
  script.step("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16;").test(1);
  script.step("mbarrier.arrive.expect_tx.shared::cta.b64 s, [bar], 16;").see().test(0).test(1);
  return script.probe("transactions");
}

Probe drops() {
  Script script;
  script.step(kInit3).step("mbarrier.arrive_drop.shared::cta.b64 s, [bar];").see().test(0);
  script.step(kArrive).step(kArrive).see().test(0).test(1);
  script.step(kArrive).see().test(1).step(kArrive).see().test(0).test(1);
  script.step("mbarrier.arrive_drop.expect_tx.shared::cta.b64 s, [bar], 8;").see();
  script.step(kArrive).test(0);
  script.step("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 8;").test(0);
  script.step(kArrive).see().test(1);
  return script.probe("drops");
}

/// The words themselves, which PTX leaves open: so that a debugger's reader can trust a dump. Each
/// line of steps has an mbarrier of its own.
Probe words() {
  const std::string init = "mbarrier.init.shared::cta.b64 [bar], ", three = init + "3;";
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 s, [bar];";
  const std::string expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], ";
  const std::string complete = "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], ";
  const std::string drop = "mbarrier.arrive_drop.shared::cta.b64 s, [bar];";
  const std::vector<std::vector<std::string>> all = {
      {three},
      {three, arrive},
      {three, arrive, expect + "4096;"},
      {three, arrive, expect + "4096;", arrive, arrive},
      {three, arrive, expect + "4096;", arrive, arrive, complete + "4096;"},
      {three, drop},
      {three, arrive, drop, arrive},
      {three, complete + "16;"},
      {three, expect + "1048575;"},
      {three, complete + "1048575;"},
      {init + "1048575;"},
  };
  Script script;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string bar = "bars+" + std::to_string(8 * i);
    for (std::string step : all[i]) {
      step.replace(step.find("[bar]"), 5, "[" + bar + "]");
      script.step(step);
    }
    script.words(bar);
  }
  return script.probe("words", ".shared .align 8 .b64 bars[16];\n");
}

// ---- named barriers ----------------------------------------------------------------------------

Probe named(const std::string& name, uint32_t threads, uint32_t words, const std::string& body) {
  Probe probe;
  probe.name = "barrier/" + name;
  probe.threads = threads;
  probe.output_words = words;
  for (uint32_t i = 0; i < threads; ++i) probe.input.push_back(i * 7 + 3);
  probe.ptx = kernel_text(
      ".reg .b32 x, y, m, w;\n.reg .b64 g, h;\n.reg .pred p, q;\nmul.wide.u32 g, t, 4;\n"
      "add.u64 h, out, g;\nadd.u64 g, in, g;\nld.global.u32 x, [g];\nmov.u32 m, cells;\n"
      "shr.u32 w, t, 5;\n" +
          body,
      ".shared .align 4 .b8 cells[2048];\n");
  return probe;
}

void add_named(std::vector<Probe>& probes) {
  probes.push_back(named("reduce", 128, 384, R"(
and.b32 y, x, 1;
setp.eq.u32 p, y, 1;
barrier.cta.red.popc.aligned.u32 y, 0, p;
st.global.u32 [h], y;
barrier.cta.red.and.aligned.pred q, 1, 128, p;
selp.u32 y, 1, 0, q;
st.global.u32 [h+512], y;
bar.red.or.pred q, 2, 128, p;
selp.u32 y, 1, 0, q;
st.global.u32 [h+1024], y;
)"));
  // Warps 0 and 1 meet at barrier 3, warps 2 and 3 at barrier 4; each reads its neighbour's cell.
  probes.push_back(named("subsets", 128, 128, R"(
mad.lo.u32 m, t, 4, m;
st.shared.u32 [m], x;
shr.u32 y, t, 6;
add.u32 y, y, 3;
barrier.cta.sync y, 64;
xor.b32 y, t, 32;
mov.u32 m, cells;
mad.lo.u32 m, y, 4, m;
ld.shared.u32 x, [m];
st.global.u32 [h], x;
)"));
  // Warps 0 to 2 arrive at barrier 5 and go on, warp 3 waits for them.
  probes.push_back(named("producers", 128, 128, R"(
mad.lo.u32 m, t, 4, m;
st.shared.u32 [m], x;
mov.b32 y, 0;
setp.lt.u32 p, t, 96;
@p bra producer;
bar.sync 5, 128;
ld.shared.u32 x, [m+-128];
ld.shared.u32 y, [m+-384];
add.u32 y, y, x;
bra end;
producer:
bar.arrive 5, 128;
end:
st.global.u32 [h], y;
)"));
}

void add_others(std::vector<Probe>& probes) {
  Probe registers = named("setmaxnreg", 256, 256, R"(
setp.lt.u32 p, t, 128;
@p bra fewer;
setmaxnreg.inc.sync.aligned.u32 152;
mul.lo.u32 x, x, 3;
bra end;
fewer:
setmaxnreg.dec.sync.aligned.u32 40;
mul.lo.u32 x, x, 5;
end:
bar.sync 0;
st.global.u32 [h], x;
)");
  const size_t brace = registers.ptx.find(")\n{\n");
  registers.ptx.insert(brace + 2, ".maxntid 256, 1, 1\n.minnctapersm 2\n");
  probes.push_back(registers);
  probes.push_back(named("griddepcontrol", 32, 32, R"(
griddepcontrol.wait;
griddepcontrol.launch_dependents;
add.u32 x, x, 1;
st.global.u32 [h], x;
)"));
}

}  // namespace

std::vector<Probe> barrier_probes() {
  std::vector<Probe> probes = {phases(), counts(), transactions(), drops(), words()};
  add_named(probes);
  add_others(probes);
  return probes;
}

}  // namespace fa4::emulator::probes
