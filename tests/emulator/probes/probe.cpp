// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/probe.h"

#include "gpu/jit/sha256.h"

namespace fa4::emulator::probes {
namespace {

void append(std::vector<Probe>& all, std::vector<Probe> more) {
  for (Probe& probe : more) all.push_back(std::move(probe));
}

std::string describe(const ProbeMap& map) {
  const TensorMapSpec& s = map.spec;
  std::string text(map.in_output ? "out" : "in");
  const auto add = [&](uint64_t x) { text.append(1, ' ').append(std::to_string(x)); };
  add(s.address);
  add(static_cast<uint64_t>(s.type));
  add(s.rank);
  for (uint32_t i = 0; i < s.rank; ++i) {
    add(s.dims[i]);
    add(s.strides[i]);
    add(s.box[i]);
    add(s.element_strides[i]);
  }
  add(static_cast<uint64_t>(s.swizzle));
  add(s.nan_fill ? 1 : 0);
  add(map.interleave);
  return text;
}

std::string bytes_of(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)};
}

}  // namespace

const char* const kWaitForBar = R"({
.reg .b32 tries;
.reg .pred done, over;
mov.b32 tries, 0;
wait:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [bar], 0;
@done bra waited;
add.u32 tries, tries, 1;
setp.gt.u32 over, tries, 1000000;
@over trap;
bra wait;
waited:
}
)";

std::string kernel_text(const std::string& body, const std::string& globals) {
  // The numbers are those of probe.h.
  static_assert(kInputOffset == 256 && kOutputOffset == 264 && kMapBytes == 128);
  static_assert(kParamBytes == 320);
  std::string text = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  text += globals;
  text += R"(
.visible .entry probe(.param .align 64 .b8 params[320])
{
.reg .b64 in, out, map0, map1;
.reg .b32 t;
ld.param.u64 in, [params+256];
ld.param.u64 out, [params+264];
cvta.to.global.u64 in, in;
cvta.to.global.u64 out, out;
mov.b64 map0, params;
cvta.param.u64 map0, map0;
add.u64 map1, map0, 128;
mov.u32 t, %tid.x;
)";
  text += body;
  text += "\nret;\n}\n";
  return text;
}

std::vector<Probe> all_probes() {
  std::vector<Probe> all;
  append(all, conversion_probes());
  append(all, float_probes());
  append(all, half_probes());
  append(all, integer_probes());
  append(all, warp_probes());
  append(all, atomic_probes());
  append(all, matrix_probes());
  append(all, wgmma_probes());
  append(all, tile_probes());
  append(all, bulk_probes());
  append(all, barrier_probes());
  append(all, cluster_probes());
  return all;
}

std::string key_of(const Probe& p) {
  std::string all = p.ptx;
  for (const uint32_t x : {p.blocks, p.threads, p.cluster, p.output_words}) {
    all.append(1, ' ').append(std::to_string(x));
  }
  for (const ProbeMap& map : p.maps) all.append(1, '\n').append(describe(map));
  all.append(bytes_of(p.input)).append(1, '|').append(bytes_of(p.output));
  return gpu::jit::to_hex(gpu::jit::sha256(all)).substr(0, 16);
}

}  // namespace fa4::emulator::probes
