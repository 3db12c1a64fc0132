// SPDX-License-Identifier: BSD-3-Clause
// Tensor maps and the copies that use them: PTX ISA 5.5, 9.7.9.27.
#include <algorithm>
#include <array>
#include <string>

#include "emulator/probes/operand_words.h"
#include "emulator/probes/probe.h"
#include "emulator/tile_copy.h"

namespace fa4::emulator::probes {
namespace {

constexpr uint32_t kKeep = 32;
constexpr uint32_t kUntouched = 0xaaaaaaaa;

struct Tile {
  std::string name;
  TensorMapSpec spec;
  Coordinates at{};
  bool refused = false;
  /// Shared memory may hold more or less than the box's bytes: say how many came.
  bool counted = false;
};

constexpr const char* kTypeNames[] = {"u8",  "u16", "u32",    "s32", "u64", "s64",
                                      "f16", "f32", "f32ftz", "f64", "bf16"};

/// A dense tensor, its rows padded to 16 bytes.
TensorMapSpec tensor(MapType type, std::initializer_list<uint64_t> dims,
                     std::initializer_list<uint32_t> box) {
  TensorMapSpec s;
  s.type = type;
  s.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), s.dims.begin());
  std::copy(box.begin(), box.end(), s.box.begin());
  s.strides[0] = size_of(type);
  s.strides[1] = (s.dims[0] * size_of(type) + 15) / 16 * 16;
  for (uint32_t i = 2; i < s.rank; ++i) s.strides[i] = s.strides[i - 1] * s.dims[i - 1];
  for (uint32_t i = s.rank; i < 5; ++i) s.strides[i] = 0;
  return s;
}

uint32_t bytes_of(const TensorMapSpec& s) {
  const uint64_t bytes = s.strides[s.rank - 1] * s.dims[s.rank - 1];
  return static_cast<uint32_t>((bytes + 15) / 16 * 16);
}

/// Numbers of the tensor's type; float32 ones with subnormals among them.
std::vector<uint32_t> numbers(MapType type, uint32_t words, uint64_t seed) {
  Random random(seed);
  if (type == MapType::kF16 || type == MapType::kBF16) {
    const auto element = type == MapType::kF16 ? ElementType::kF16 : ElementType::kBF16;
    return operand_words(element, words, Numbers::kReal, random);
  }
  std::vector<uint32_t> all(words);
  for (uint32_t i = 0; i < words; ++i) {
    all[i] = random.word();
    const bool is_float = type == MapType::kF32 || type == MapType::kF32Flush;
    if (is_float && i % 4 != 0) all[i] = element_bits(ElementType::kTF32, random.normal());
    if (is_float && i % 4 == 0) all[i] &= 0x807fffff;
    if (type == MapType::kF64) all[i] = i % 2 == 0 ? all[i] : (all[i] & 0x800fffff) | 0x3ff00000;
  }
  return all;
}

std::string coordinates(const Tile& tile) {
  std::string text = ".reg .b32 c<5>;\n";
  for (uint32_t i = 0; i < tile.spec.rank; ++i) {
    text += "mov.b32 c" + std::to_string(i) + ", " + std::to_string(tile.at[i]) + ";\n";
  }
  return text;
}

/// for (n = t; n < words; n += 128) { m = n + the tile's word address, g = in or out + 4 n; ... }
std::string for_words(const std::string& label, uint32_t words, const char* buffer,
                      const std::string& body) {
  return "mov.u32 n, t;\n" + label + ":\nsetp.ge.u32 p, n, " + std::to_string(words) +
         ";\n@p bra " + label + "_end;\nmul.wide.u32 g, n, 4;\nadd.u64 g, " + buffer +
         ", g;\nmov.u32 m, tile;\nmad.lo.u32 m, n, 4, m;\n" + body + "add.u32 n, n, 128;\nbra " +
         label + ";\n" + label + "_end:\n";
}

/// What a box takes in shared memory: a row of a swizzled one takes the swizzle's whole span.
uint32_t shared_bytes(const Tile& tile) {
  const TensorMapSpec& s = tile.spec;
  const uint32_t row = s.box[0] * size_of(s.type), bytes = box_bytes(s);
  const uint32_t taken = s.swizzle == Swizzle::kOff ? bytes : bytes / row * row_span(s.swizzle);
  return (taken + 127) / 128 * 128;
}

std::string shared_tile(uint32_t bytes) {
  return ".shared .align 1024 .b8 tile[" + std::to_string(bytes) +
         "];\n.shared .align 8 .b64 bar;\n";
}

constexpr const char* kRegisters =
    ".reg .b32 n, m, x;\n.reg .b64 g;\n.reg .pred p, first;\nsetp.eq.u32 first, t, 0;\n";

constexpr uint32_t kMostCounted = 8192;

/// Expects kMostCounted bytes, waits a millisecond, and counts how many are missing: the thread
/// itself completes them, 16 at a time. `x` is how many the copy gave.
constexpr const char* kCountBytes = R"({
.reg .b32 tries;
.reg .pred done;
mov.b32 tries, 0;
asleep:
nanosleep.u32 1000;
add.u32 tries, tries, 1;
setp.lt.u32 done, tries, 1000;
@done bra asleep;
bar.sync 0;
mov.b32 x, 8192;
@!first bra counted;
counting:
mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 done, [bar], 0;
@done bra counted;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16;
sub.u32 x, x, 16;
setp.gt.u32 done, x, 0;
@done bra counting;
counted:
bar.sync 0;
}
)";

/// Loads may, stores and reductions not.
bool begins_before(const Tile& tile) {
  return std::any_of(tile.at.begin(), tile.at.end(), [](int32_t c) { return c < 0; });
}

/// Fills each word of shared memory by `fill` before it goes on.
Probe tile_probe(const Tile& tile, const std::string& name, const std::string& fill,
                 const std::string& rest) {
  const uint32_t bytes = shared_bytes(tile);
  Probe probe;
  probe.name = name;
  probe.threads = 128;
  probe.keep = kKeep;
  probe.maps = {{tile.spec}};
  probe.refused = tile.refused;
  probe.ptx =
      kernel_text(kRegisters + coordinates(tile) + for_words("fill", bytes / 4, "in", fill) + rest,
                  shared_tile(bytes));
  return probe;
}

/// "2d", and the coordinates' registers.
std::string dimensions(const Tile& tile) { return std::to_string(tile.spec.rank) + "d"; }
std::string place(const Tile& tile) { return "[map0, " + register_list("c", tile.spec.rank) + "]"; }

Probe load_probe(const Tile& tile) {
  const uint32_t words = shared_bytes(tile) / 4;
  const uint32_t expected = tile.counted ? kMostCounted : box_bytes(tile.spec);
  const std::string count = "@first st.global.u32 [out+" + std::to_string(4 * words) + "], x;\n";
  Probe probe = tile_probe(
      tile, "tile.load/" + tile.name, "mov.b32 x, 0xaaaaaaaa;\nst.shared.u32 [m], x;\n",
      "@first mbarrier.init.shared::cta.b64 [bar], 1;\nfence.proxy.async;\nbar.sync 0;\n"
      "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
          std::to_string(expected) + ";\n@first cp.async.bulk.tensor." + dimensions(tile) +
          ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], " + place(tile) +
          ", [bar];\n" + (tile.counted ? kCountBytes + count : std::string(kWaitForBar)) +
          for_words("dump", words, "out", "ld.shared.u32 x, [m];\nst.global.u32 [g], x;\n"));
  probe.input = numbers(tile.spec.type, bytes_of(tile.spec) / 4, 21);
  probe.output_words = words + (tile.counted ? 1 : 0);
  if (tile.counted) probe.keep = probe.output_words;
  return probe;
}

/// A store or, with an operation, a reduction onto a tensor that holds numbers or a pattern.
Probe store_probe(const Tile& tile, const std::string& operation) {
  const bool reduces = !operation.empty();
  const std::string opcode = reduces ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
  const std::string mode = reduces ? "." + operation + ".tile" : ".tile";
  Probe probe = tile_probe(
      tile, (reduces ? "tile.reduce/" + operation + "." : "tile.store/") + tile.name,
      "ld.global.u32 x, [g];\nst.shared.u32 [m], x;\n",
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n@first " + opcode + dimensions(tile) +
          ".global.shared::cta" + mode + ".bulk_group " + place(tile) +
          ", [tile];\n@first cp.async.bulk.commit_group;\n@first cp.async.bulk.wait_group 0;\n");
  probe.input = numbers(tile.spec.type, shared_bytes(tile) / 4, 22);
  probe.output_words = bytes_of(tile.spec) / 4;
  probe.output = reduces ? numbers(tile.spec.type, probe.output_words, 23)
                         : std::vector<uint32_t>(probe.output_words, kUntouched);
  probe.maps[0].in_output = true;
  probe.refused = tile.refused || begins_before(tile);
  return probe;
}

// ---- which tiles -------------------------------------------------------------------------------

/// Rows end one element short of 48 bytes.
TensorMapSpec of_type(MapType type) {
  const uint32_t row = 16 / size_of(type);
  return tensor(type, {3 * row - 1, 6}, {2 * row, 4});
}

std::vector<Tile> tiles_of_every_type() {
  std::vector<Tile> tiles;
  for (uint32_t i = 0; i < 11; ++i) {
    const auto type = static_cast<MapType>(i);
    const auto row = static_cast<int32_t>(16 / size_of(type));  // elements in 16 bytes
    TensorMapSpec s = of_type(type);
    const std::string name = kTypeNames[i];
    tiles.push_back({name, s, {}});
    tiles.push_back({name + "/before", s, {-row, -1}});
    tiles.push_back({name + "/behind", s, {2 * row, 4}});
    s.nan_fill = i >= static_cast<uint32_t>(MapType::kF16);
    if (s.nan_fill) tiles.push_back({name + "/nan", s, {2 * row, -2}});
  }
  return tiles;
}

std::vector<Tile> tiles_of_every_rank() {
  const TensorMapSpec three = tensor(MapType::kF32, {9, 5, 4}, {8, 3, 3});
  const TensorMapSpec four = tensor(MapType::kBF16, {20, 4, 3, 3}, {16, 2, 2, 2});
  const TensorMapSpec five = tensor(MapType::kU16, {13, 5, 4, 3, 3}, {8, 3, 2, 2, 2});
  std::vector<Tile> tiles = {
      {"1d", tensor(MapType::kU32, {29}, {16}), {8}},
      {"1d/before", tensor(MapType::kU32, {29}, {16}), {-4}},
      {"1d/behind", tensor(MapType::kU32, {29}, {16}), {20}},
      {"1d/outside", tensor(MapType::kU32, {29}, {16}), {40}},
      {"3d", three, {0, 1, 0}},
      {"3d/edge", three, {-4, 3, 2}},
      {"4d", four, {0, 1, 0, 1}},
      {"4d/edge", four, {8, -1, 2, -1}},
      {"5d", five, {0, 1, 1, 1, 0}},
      {"5d/edge", five, {8, -1, 3, 2, -1}},
  };
  for (const auto& strides : {std::array<uint32_t, 3>{1, 2, 1}, {1, 3, 2}, {1, 1, 5}}) {
    TensorMapSpec s = tensor(MapType::kU32, {12, 9, 7}, {8, 6, 5});
    std::copy(strides.begin(), strides.end(), s.element_strides.begin());
    const std::string name = "strided" + std::to_string(strides[1]) + std::to_string(strides[2]);
    tiles.push_back({name, s, {0, 1, 1}, false, true});
    tiles.push_back({name + "/edge", s, {-4, -1, 4}, false, true});
  }
  return tiles;
}

std::vector<Tile> tiles_of_every_swizzle() {
  std::vector<Tile> tiles;
  constexpr const char* kNames[] = {"plain", "32B", "64B", "128B"};
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t span = i == 0 ? 128 : 16u << i;
    for (const uint32_t inner : {span, span / 2}) {
      TensorMapSpec s = tensor(MapType::kBF16, {80, 20}, {inner / 2, 16});
      s.swizzle = static_cast<Swizzle>(i);
      const std::string name = std::string(kNames[i]) + "-" + std::to_string(inner);
      const bool narrow = i > 0 && inner < span;
      tiles.push_back({name, s, {8, 2}, false, narrow});
      tiles.push_back({name + "/edge", s, {-8, 9}, false, narrow});
    }
  }
  // The box does not fill its last line; an odd number of rows of 48 bytes.
  TensorMapSpec s = tensor(MapType::kU32, {16, 9}, {12, 5});
  s.swizzle = Swizzle::k128;
  tiles.push_back({"128B-48", s, {4, 1}, false, true});
  s.swizzle = Swizzle::k64;
  tiles.push_back({"64B-48", s, {4, 1}, false, true});
  return tiles;
}

/// Where a row's last piece of 16 bytes lies partly outside; one coordinate negative at a time; and
/// what no H200 takes.
std::vector<Tile> tiles_of_every_end() {
  std::vector<Tile> tiles;
  for (uint32_t i = 0; i < 11; ++i) {
    const auto type = static_cast<MapType>(i);
    const auto row = static_cast<int32_t>(16 / size_of(type));
    const std::string name = kTypeNames[i];
    // One element of the last piece is inside, where "behind" has all but one.
    if (row > 2) {
      const TensorMapSpec one =
          tensor(type, {16 / size_of(type) * 2 + 1, 6}, {16 / size_of(type) * 2, 4});
      tiles.push_back({name + "/first", one, {row, 1}});
    }
    tiles.push_back({name + "/left", of_type(type), {-row, 1}});
    tiles.push_back({name + "/above", of_type(type), {0, -1}});
    tiles.push_back({name + "/odd", of_type(type), {2 * row - 1, 4}, true});
  }
  tiles.push_back({"3d/behind", tensor(MapType::kF32, {9, 5, 4}, {8, 3, 3}), {4, 3, 2}});
  tiles.push_back(
      {"4d/behind", tensor(MapType::kBF16, {20, 4, 3, 3}, {16, 2, 2, 2}), {8, 3, 2, 2}});
  return tiles;
}

std::vector<Probe> reductions() {
  std::vector<Probe> probes;
  const auto add = [&](const char* operation, MapType type, const char* name, bool behind,
                       int32_t above) {
    const auto row = static_cast<int32_t>(16 / size_of(type));
    const Tile tile{kTypeNames[static_cast<int>(type)] + std::string(name),
                    of_type(type),
                    {behind ? row : 0, above}};
    probes.push_back(store_probe(tile, operation));
  };
  for (const MapType type : {MapType::kU32, MapType::kS32, MapType::kU64, MapType::kF16,
                             MapType::kBF16, MapType::kF32, MapType::kF32Flush, MapType::kF64}) {
    add("add", type, "", false, 1);
    add("add", type, "/behind", true, 1);
    add("add", type, "/above", false, -1);
  }
  for (const char* operation : {"min", "max"}) {
    for (const MapType type : {MapType::kU32, MapType::kS32, MapType::kU64, MapType::kS64,
                               MapType::kF16, MapType::kBF16}) {
      add(operation, type, "", false, 1);
    }
  }
  for (const char* operation : {"inc", "dec"}) add(operation, MapType::kU32, "", false, 1);
  for (const char* operation : {"and", "or", "xor"}) {
    add(operation, MapType::kU32, "", false, 1);
    add(operation, MapType::kU64, "", false, 1);
  }
  return probes;
}

/// The 128 bytes of all these maps, with an address that no allocation has.
Probe encoder(const std::vector<Tile>& tiles) {
  constexpr uint64_t kAddress = 0x7f0123456780;
  Probe probe;
  probe.name = "tile.maps";
  for (const Tile& tile : tiles) {
    probe.maps.push_back({tile.spec});
    probe.maps.back().spec.address = kAddress;
  }
  // Strides and dims that need all their bits.
  TensorMapSpec s = tensor(MapType::kBF16, {128, 1000, 7, 5, 3}, {64, 80, 2, 1, 3});
  s.address = 0x7ffffffff000;
  s.strides = {2, 256, uint64_t{5} << 36, (uint64_t{1} << 40) - 16, 4096};
  s.swizzle = Swizzle::k128;
  probe.maps.push_back({s});
  s.dims[1] = uint64_t{1} << 32;
  s.box[1] = 256;
  probe.maps.push_back({s});
  probe.output_words = static_cast<uint32_t>(probe.maps.size()) * kMapBytes / 4;
  probe.keep = probe.output_words;
  return probe;
}

/// How the driver counts the bytes of strided boxes.
Probe strided_maps() {
  Probe probe;
  probe.name = "tile.maps/strided";
  for (const uint32_t stride : {2u, 3u, 5u, 8u}) {
    for (const uint32_t box : {1u, 2u, 5u, 7u, 9u}) {
      TensorMapSpec s = tensor(MapType::kU32, {12, 90, 70}, {8, box, 3});
      s.element_strides[1] = stride;
      probe.maps.push_back({s});
      probe.maps.back().spec.address = 0x7f0123456780;
    }
  }
  probe.output_words = static_cast<uint32_t>(probe.maps.size()) * kMapBytes / 4;
  probe.keep = probe.output_words;
  return probe;
}

}  // namespace

std::vector<Probe> tile_probes() {
  std::vector<Probe> probes;
  std::vector<Tile> all;
  for (const auto& tiles :
       {tiles_of_every_type(), tiles_of_every_rank(), tiles_of_every_swizzle()}) {
    all.insert(all.end(), tiles.begin(), tiles.end());
  }
  Probe maps = encoder(all);
  for (const Tile& tile : tiles_of_every_end()) all.push_back(tile);
  for (const Tile& tile : all) {
    probes.push_back(load_probe(tile));
    if (!tile.spec.nan_fill) probes.push_back(store_probe(tile, ""));
  }
  for (Probe& probe : reductions()) probes.push_back(std::move(probe));
  probes.push_back(std::move(maps));
  probes.push_back(strided_maps());
  return probes;
}

}  // namespace fa4::emulator::probes
