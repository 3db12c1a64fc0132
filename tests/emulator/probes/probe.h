// SPDX-License-Identifier: BSD-3-Clause
// Probes: little kernels, each of which shows what one instruction, or one unit, does with given
// inputs. They run on a GPU, whose outputs are kept as a fixture (fixture.h), and in the emulator,
// which must give the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/tensor_map.h"

namespace fa4::emulator::probes {

/// What the output's 32-bit words hold, for probes that need not agree to the bit.
enum class Format : uint8_t { kBits, kFloat32, kFloat16, kBFloat16 };

/// How far two devices may be apart: equal bits; or, of floats, at most `ulps` units in the last
/// place of their format, or `absolute`.
struct Tolerance {
  Format format = Format::kBits;
  uint32_t ulps = 0;
  double absolute = 0;
};

/// A tensor map among a probe's parameters.
struct ProbeMap {
  TensorMapSpec spec;       ///< Its address is an offset in the buffer.
  bool in_output = false;   ///< Of the output, else of the input.
  uint32_t interleave = 0;  ///< As the driver numbers it: 0 none, 1 16 bytes, 2 32 bytes.
};

struct Probe {
  std::string name;  ///< "cvt.rn.bf16.f32_k,a": unique.
  std::string ptx;   ///< A module whose entry "probe" has the one parameter of kernel_text().
  uint32_t blocks = 1;
  uint32_t threads = 32;
  uint32_t cluster = 1;
  std::vector<uint32_t> input;
  /// What the output holds before: the words of `output`, if it is not empty, else zeros.
  std::vector<uint32_t> output;
  uint32_t output_words = 0;
  uint32_t keep = 1024;  ///< Words that a fixture holds; of the rest it has a hash.
  std::vector<ProbeMap> maps;
  Tolerance tolerance;
  bool refused = false;  ///< An illegal instruction on a GPU, an error in the emulator.
};

/// Offsets in the parameter: two tensor maps, the addresses of input and output.
constexpr uint32_t kMapBytes = 128;
constexpr uint32_t kInputOffset = 256;
constexpr uint32_t kOutputOffset = 264;
constexpr uint32_t kParamBytes = 320;

/// A module around a body, in which `in` and `out` are the buffers' addresses, `map0` and `map1`
/// the maps', `t` is the thread's number within its block; `globals` stands in front of the entry.
std::string kernel_text(const std::string& body, const std::string& globals = "");

/// Waits for phase 0 of the mbarrier `bar`; a GPU gives up after a while rather than hang.
extern const char* const kWaitForBar;

/// Every probe, in an order that does not change.
std::vector<Probe> all_probes();

// The families that it is made of.
std::vector<Probe> conversion_probes();
std::vector<Probe> float_probes();
std::vector<Probe> half_probes();
std::vector<Probe> integer_probes();
std::vector<Probe> warp_probes();
std::vector<Probe> atomic_probes();
std::vector<Probe> matrix_probes();
std::vector<Probe> wgmma_probes();
std::vector<Probe> tile_probes();
std::vector<Probe> bulk_probes();
std::vector<Probe> barrier_probes();
std::vector<Probe> cluster_probes();

/// What a probe runs, as 16 hexadecimal digits: its text, inputs and launch.
std::string key_of(const Probe& probe);

}  // namespace fa4::emulator::probes
